// Replies from anywhere: nothing outside the outputs is written, a reply is taken exactly when its runs cover free rows
// and its blocks have their size, and then the rows lie where they should.
// Input: seed of the cut, message bytes (a LookupStreamResponse; two messages are sent in a row).
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/wire/parse_message.h"
#include "proto/wire/reply_decoder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wire_cases.h"

namespace embps::fuzz {
namespace {

constexpr char kPoison = 0x77;
constexpr int64_t kRows[] = {5, 3, 0, 4};
constexpr int32_t kDims[] = {4, 4, 2, 1};
constexpr int64_t kStride = 4 * (4 + 4 + 2 + 1) + 12;  // one row of all features, and bytes that stay as they are
constexpr int64_t kOutputBytes = kStride * 5;

// Plain loops over the same outputs.
class Model {
 public:
  bool Append(const v1::LookupStreamResponse& reply) {
    auto rows = rows_;
    std::string bytes = bytes_;
    size_t used = 0;
    for (const v1::Run& run : reply.runs()) {
      if (uint64_t{run.first_feature()} + run.feature_count() > 4) return false;
      for (uint32_t f = run.first_feature(); f < run.first_feature() + run.feature_count(); ++f) {
        const auto count = static_cast<uint64_t>(kRows[f]);
        if (run.row_begin() > count || run.row_count() > count - run.row_begin()) return false;
        if (run.dim() != static_cast<uint32_t>(kDims[f])) return false;
        const size_t row_bytes = run.dim() * 4;
        for (uint64_t row = run.row_begin(); row < run.row_begin() + run.row_count(); ++row, used += row_bytes) {
          if (!rows.insert({f, row}).second || used + row_bytes > reply.blocks().size()) return false;
          bytes.replace(row * kStride + Column(f), row_bytes, reply.blocks().substr(used, row_bytes));
        }
      }
    }
    if (used != reply.blocks().size()) return false;
    rows_ = rows;
    bytes_ = bytes;
    return true;
  }
  static size_t Column(uint32_t feature) {
    size_t column = 0;
    for (uint32_t f = 0; f < feature; ++f) column += static_cast<size_t>(kDims[f]) * 4;
    return column;
  }
  const std::string& bytes() const { return bytes_; }
  bool complete() const { return rows_.size() == 5 + 3 + 0 + 4; }

 private:
  std::set<std::pair<uint32_t, uint64_t>> rows_;
  std::string bytes_ = std::string(kOutputBytes, kPoison);
};

}  // namespace

void FuzzOne(absl::string_view input) {
  if (input.empty()) return;
  wire::Random random(static_cast<unsigned char>(input[0]));
  // Both halves in turn, so that runs meet rows that are there already.
  const absl::string_view bytes = input.substr(1);
  alignas(64) char output[kOutputBytes];
  std::memset(output, kPoison, sizeof(output));
  std::vector<wire::OutputFeature> features;
  for (uint32_t f = 0; f < 4; ++f) features.push_back({kRows[f], kDims[f], output + Model::Column(f), kStride});
  wire::ReplyDecoder decoder(features, {.streaming_stores = random() % 2 == 0});
  Model model;
  for (absl::string_view message : {bytes.substr(0, bytes.size() / 2), bytes.substr(bytes.size() / 2), bytes}) {
    const wire::CutBytes cut(message, random);
    v1::LookupStreamResponse header, whole;
    wire::BulkMessage bulk;
    if (!wire::ParseBulkMessage(cut.pieces(), &header, &bulk).ok()) continue;
    if (!whole.ParseFromArray(message.data(), static_cast<int>(message.size()))) continue;
    const absl::Status status = decoder.Append(header, bulk);
    const bool expected = model.Append(whole);
    EMBPS_FUZZ_CHECK(status.ok() == expected, status.ToString(), input);
    EMBPS_FUZZ_CHECK(std::memcmp(output, model.bytes().data(), sizeof(output)) == 0, "output", input);
    if (!status.ok()) return;  // the decoder is only good for destruction
    EMBPS_FUZZ_CHECK(decoder.complete() == model.complete(), "complete", input);
  }
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  const auto add_run = [](v1::LookupStreamResponse* reply, uint32_t first, uint32_t count, uint64_t begin,
                          uint64_t rows) {
    v1::Run* run = reply->add_runs();
    run->set_first_feature(first);
    run->set_feature_count(count);
    run->set_row_begin(begin);
    run->set_row_count(rows);
    run->set_dim(static_cast<uint32_t>(kDims[first]));
    const std::string row(static_cast<size_t>(kDims[first]) * 4, static_cast<char>('a' + first));
    for (uint64_t i = 0; i < rows * count; ++i) reply->mutable_blocks()->append(row);
  };
  v1::LookupStreamResponse first, second, whole;
  add_run(&first, 0, 2, 0, 3);
  add_run(&second, 0, 1, 3, 2);
  add_run(&second, 3, 1, 0, 4);
  for (const auto& [f, begin, rows] :
       {std::tuple{0u, 0u, 2u}, {0u, 4u, 1u}, {0u, 2u, 2u}, {1u, 0u, 3u}, {3u, 0u, 4u}}) {
    add_run(&whole, f, 1, begin, rows);
  }
  seeds.push_back("a" + first.SerializeAsString() + second.SerializeAsString());
  seeds.push_back("b" + first.SerializeAsString());
  seeds.push_back("c" + whole.SerializeAsString());
  seeds.push_back("d" + second.SerializeAsString() + first.SerializeAsString());
  return seeds;
}

}  // namespace embps::fuzz
