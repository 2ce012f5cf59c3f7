// Differential: BulkMessage and ParseMessage against the generated parser, over several message types and any cut.
// Input: type selector, seed of the cut, message bytes.
#include <memory>

#include "absl/strings/str_cat.h"
#include "embps/v1/embedding.pb.h"
#include "embps/v1/table.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/base/error.h"
#include "proto/wire/bulk_encode.h"
#include "proto/wire/parse_message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wire_cases.h"

namespace embps::fuzz {
namespace {

// Moves the bulk fields of a parsed message out of it.
std::vector<std::string> TakeBulk(const wire::MessageShape& shape, google::protobuf::Message* message) {
  std::vector<std::string> bulk(wire::kBulkFieldCount);
  for (int i = 0; i < wire::kBulkFieldCount; ++i) {
    if (!shape.is_bulk[i]) continue;
    const auto* field = shape.descriptor->FindFieldByNumber(wire::kFirstBulkField + i);
    bulk[static_cast<size_t>(i)] = message->GetReflection()->GetString(*message, field);
    message->GetReflection()->ClearField(message, field);
  }
  return bulk;
}

// What was split, encoded again, is what the generated serialiser writes.
template <class T>
void CheckEncode(const T& header, const wire::BulkMessage& split, const std::string& expected,
                 absl::string_view input) {
  std::vector<wire::OutBulk> bulk;
  for (int i = 0; i < wire::kBulkFieldCount; ++i) {
    wire::OutBulk out{i, {}};
    for (absl::string_view part : split.bulk(i).parts) out.pieces.push_back({part, nullptr});
    bulk.push_back(std::move(out));
  }
  const std::string bytes = wire::Concatenate(wire::EncodeBulkMessage(header, bulk));
  EMBPS_FUZZ_CHECK(bytes == expected, "encoded bytes", input);
}

template <class T>
void Compare(absl::string_view bytes, wire::Random& random, absl::string_view input) {
  T generated;
  const bool accepted = generated.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  const wire::CutBytes cut(bytes, random);
  T header;
  wire::BulkMessage split;
  const absl::Status status = wire::ParseBulkMessage(cut.pieces(), &header, &split);
  EMBPS_FUZZ_CHECK(status.ok() == accepted, status.ToString(), input);
  const auto whole = wire::ParseMessage<T>(cut.pieces());
  EMBPS_FUZZ_CHECK(whole.ok() == accepted, whole.status().ToString(), input);
  if (!accepted) {
    EMBPS_FUZZ_CHECK(ReasonOf(status) == Reason::kMalformed && status == whole.status(), status.ToString(), input);
    return;
  }
  const std::string serialized = generated.SerializeAsString();
  EMBPS_FUZZ_CHECK(whole->SerializeAsString() == serialized, "whole message", input);
  const std::vector<std::string> bulk = TakeBulk(wire::ShapeOf<T>(), &generated);
  EMBPS_FUZZ_CHECK(header.SerializeAsString() == generated.SerializeAsString(), "header", input);
  for (int i = 0; i < wire::kBulkFieldCount; ++i) {
    std::string joined;
    for (absl::string_view part : split.bulk(i).parts) joined.append(part.data(), part.size());
    EMBPS_FUZZ_CHECK(joined == bulk[static_cast<size_t>(i)] && joined.size() == split.bulk(i).bytes, "bulk", input);
  }
  // Unknown fields stand behind known ones when they are written, so the order differs with them.
  if (generated.GetReflection()->GetUnknownFields(generated).empty()) CheckEncode(header, split, serialized, input);
}

}  // namespace

void FuzzOne(absl::string_view input) {
  if (input.size() < 2) return;
  wire::Random random(static_cast<unsigned char>(input[1]));
  const absl::string_view bytes = input.substr(2);
  switch (static_cast<unsigned char>(input[0]) % 6) {
    case 0:
      return Compare<v1::LookupRequest>(bytes, random, input);
    case 1:
      return Compare<v1::PushGradRequest>(bytes, random, input);
    case 2:
      return Compare<v1::LookupStreamResponse>(bytes, random, input);
    case 3:
      return Compare<v1::WriteRowsRequest>(bytes, random, input);
    case 4:
      return Compare<v1::CreateTablesRequest>(bytes, random, input);
    default:
      return Compare<v1::PushGradStreamRequest>(bytes, random, input);
  }
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  wire::Random random(7);
  const auto add = [&](char type, const google::protobuf::Message& message) {
    seeds.push_back(std::string(1, type) + static_cast<char>(random()) + message.SerializeAsString());
  };
  for (int i = 0; i < 6; ++i) {
    v1::LookupRequest lookup = wire::RandomLookup(random, {});
    if (i % 2 == 0) lookup.set_payload_checksum(random());
    add(0, lookup);
    v1::PushGradRequest push = wire::RandomPush(random, {});
    push.mutable_header()->mutable_mutation()->set_session_id("0123456789abcdef");
    add(1, push);
    add(5, push);
  }
  v1::LookupStreamResponse reply;
  reply.add_runs()->set_row_count(3);
  reply.set_blocks(std::string(100, 'b'));
  add(2, reply);
  v1::WriteRowsRequest write;
  write.set_ids(std::string(16, 'i'));
  write.set_rows(std::string(32, 'r'));
  write.set_state1(std::string(8, 's'));
  add(3, write);
  v1::CreateTablesRequest create;
  create.add_tables()->mutable_spec()->set_name("t\xc3\xa4");
  create.mutable_tables(0)->mutable_spec()->mutable_optimizer()->set_eps(1e-3f);
  create.mutable_tables(0)->mutable_placement()->add_shards()->set_row_end(10);
  add(4, create);
  // An unknown group, with a bulk number inside; a bulk number of another wire type; five-byte tags with lost bits.
  seeds.push_back(std::string("\0\1\xbb\x3e\xa2\x06\x02zz\xbc\x3e\xa0\x06\x05", 14));
  seeds.push_back(std::string("\0\1\x8a\x80\x80\x80\x10\x00\xa2\x86\x80\x80\xf0\x01x", 15));
  return seeds;
}

}  // namespace embps::fuzz
