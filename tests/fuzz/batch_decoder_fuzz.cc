// Any header and frames: no crash, nothing allocated or written beyond the declared sizes, accepted exactly when the
// plain-loop reference accepts, with its reason or its contents.
// Input: type selector, seed of the cuts, then header, lengths, ids, weights, bag_sizes, each behind its size in two
// bytes, and the rest is grads. So edits of one part leave the others in place.
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "embps/v1/embedding.pb.h"
#include "proto/base/error.h"
#include "proto/wire/request_checks.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wire_cases.h"

namespace embps::fuzz {
namespace {

// What the limits of the cases allow at most: 5,000 ids in 4 arrays, 1,000 bags, gradients of up to 33 columns.
constexpr int64_t kMaxMemoryBytes = int64_t{4} << 20;

std::string TakePart(absl::string_view* bytes) {
  if (bytes->size() < 2) return "";
  const size_t size = static_cast<unsigned char>((*bytes)[0]) | size_t{static_cast<unsigned char>((*bytes)[1])} << 8;
  const std::string part(bytes->substr(2, size));
  bytes->remove_prefix(2 + part.size());
  return part;
}

void AppendPart(const std::string& part, std::string* out) {
  out->push_back(static_cast<char>(part.size()));
  out->push_back(static_cast<char>(part.size() >> 8));
  out->append(part);
}

template <class Request>
std::string Pack(const Request& request) {
  std::string out;
  AppendPart(request.header().SerializeAsString(), &out);
  const std::vector<std::string> bulk = wire::BulkOf(request);
  for (int i = 0; i < 4; ++i) AppendPart(bulk[static_cast<size_t>(i)], &out);
  return out + bulk[4];
}

void SetGrads(const std::string&, v1::LookupRequest*) {}
void SetGrads(const std::string& grads, v1::PushGradRequest* request) { request->set_grads(grads); }

template <class Request>
bool Unpack(absl::string_view bytes, Request* request) {
  if (!request->mutable_header()->ParseFromString(TakePart(&bytes))) return false;
  request->set_lengths(TakePart(&bytes));
  request->set_ids(TakePart(&bytes));
  request->set_weights(TakePart(&bytes));
  request->set_bag_sizes(TakePart(&bytes));
  SetGrads(std::string(bytes), request);
  return true;
}

template <class Request>
void Compare(absl::string_view bytes, wire::Random& random, absl::string_view input) {
  Request request;
  if (!Unpack(bytes, &request)) return;
  constexpr bool kPush = std::is_same_v<Request, v1::PushGradRequest>;
  const auto expected = wire::ReferenceDecode(request, wire::CaseTable, wire::CaseLimits());
  const int frames = 1 + static_cast<int>(random() % 5);
  wire::GuardedMemory memory;
  const auto batch = wire::Decode(request, frames, random, &memory);
  EMBPS_FUZZ_CHECK(memory.intact() && memory.allocated_bytes() <= kMaxMemoryBytes, memory.allocated_bytes(), input);
  EMBPS_FUZZ_CHECK(batch.ok() == expected.ok(), absl::StrCat(batch.status().ToString(), expected.status().ToString()),
                   input);
  if (!batch.ok()) {
    // With more frames a wrong value may be met before the frame that brings too many bytes.
    const bool same = frames > 1 || ReasonOf(batch.status()) == ReasonOf(expected.status());
    EMBPS_FUZZ_CHECK(same && ReasonOf(batch.status()) != Reason::kNone,
                     absl::StrCat(batch.status().ToString(), ReasonName(ReasonOf(expected.status()))), input);
    return;
  }
  const std::string difference = wire::Difference(**batch, *expected, kPush);
  EMBPS_FUZZ_CHECK(difference.empty(), difference, input);
}

// A push by the token of the lookup that the same ids make equals the push that sends them.
void CompareToken(absl::string_view bytes, wire::Random& random, absl::string_view input) {
  v1::PushGradRequest request;
  if (!Unpack(bytes, &request)) return;
  const auto expected = wire::ReferenceDecode(request, wire::CaseTable, wire::CaseLimits());
  if (!expected.ok()) return;
  v1::LookupRequest lookup;
  *lookup.mutable_header()->mutable_features() = request.header().features();
  lookup.mutable_header()->set_id_count(request.header().id_count());
  lookup.mutable_header()->set_weighted(request.header().weighted());
  lookup.mutable_header()->set_out_of_range_policy(request.header().out_of_range_policy());
  lookup.set_lengths(request.lengths());
  lookup.set_ids(request.ids());
  lookup.set_weights(request.weights());
  lookup.set_bag_sizes(request.bag_sizes());
  wire::GuardedMemory lookup_memory, memory;
  const auto kept = wire::Decode(lookup, 2, random, &lookup_memory);
  EMBPS_FUZZ_CHECK(kept.ok(), kept.status().ToString(), input);
  v1::PushGradRequest by_token;
  *by_token.mutable_header() = request.header();
  by_token.mutable_header()->set_total_bytes(request.grads().size());
  by_token.set_grads(request.grads());
  const auto batch = wire::Decode(by_token, 3, random, &memory, *kept);
  EMBPS_FUZZ_CHECK(batch.ok(), batch.status().ToString(), input);
  const std::string difference = wire::Difference(**batch, *expected, true);
  EMBPS_FUZZ_CHECK(difference.empty() && memory.intact() && lookup_memory.intact(), difference, input);
}

}  // namespace

void FuzzOne(absl::string_view input) {
  if (input.size() < 2) return;
  wire::Random random(static_cast<unsigned char>(input[1]));
  const absl::string_view bytes = input.substr(2);
  switch (static_cast<unsigned char>(input[0]) % 3) {
    case 0:
      return Compare<v1::LookupRequest>(bytes, random, input);
    case 1:
      return Compare<v1::PushGradRequest>(bytes, random, input);
    default:
      return CompareToken(bytes, random, input);
  }
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  wire::Random random(11);
  for (int i = 0; i < 48; ++i) {
    const wire::CaseOptions options = {.bad_ids = i % 3 == 1, .nonfinite = i % 4 == 1, .sequences = i % 2 == 0};
    const std::string cut(1, static_cast<char>(random()));
    seeds.push_back(std::string(1, '\0') + cut + Pack(wire::RandomLookup(random, options)));
    const std::string push = Pack(wire::RandomPush(random, options));
    seeds.push_back("\1" + cut + push);
    seeds.push_back("\2" + cut + push);
  }
  return seeds;
}

}  // namespace embps::fuzz
