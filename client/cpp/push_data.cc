#include "client/cpp/push_data.h"

#include <algorithm>

#include "client/cpp/node.h"
#include "client/cpp/row_copy.h"
#include "proto/wire/payload_checksum.h"

namespace embps {
namespace client {
namespace {

std::vector<char> CopyBytes(const void* data, int64_t bytes) {
  const auto* begin = static_cast<const char*>(data);
  return bytes == 0 ? std::vector<char>() : std::vector<char>(begin, begin + bytes);
}

template <typename T>
std::vector<T> CopyOf(absl::Span<const T> from) {
  return std::vector<T>(from.begin(), from.end());
}

template <typename T>
void Digest(absl::Span<const T> values, wire::Digest64& digest) {
  digest.UpdateValue(values.size());
  if (!values.empty()) digest.Update(values.data(), values.size() * sizeof(T));
}

void DigestText(const std::string& text, wire::Digest64& digest) {
  Digest(absl::MakeConstSpan(text.data(), text.size()), digest);
}

void DigestBlock(const void* data, int64_t count, DataType type, wire::Digest64& digest) {
  Digest(absl::MakeConstSpan(static_cast<const char*>(data), static_cast<size_t>(count * ItemBytes(type))), digest);
}

}  // namespace

OwnedPushInput::OwnedPushInput(const PushInput& from) {
  kjt.keys = CopyOf(from.kjt.keys);
  kjt.lengths = CopyOf(from.kjt.lengths);
  kjt.values = CopyOf(from.kjt.values);
  kjt.values32 = CopyOf(from.kjt.values32);
  kjt.weights = CopyOf(from.kjt.weights);
  kjt.weighted = from.kjt.weighted;
  kjt.stride_per_key = CopyOf(from.kjt.stride_per_key);
  kjt.inverse_indices = CopyOf(from.kjt.inverse_indices);
  input.kjt = kjt;
  input.options = from.options;
  input.gradients = from.gradients;
  const int64_t item = ItemBytes(from.gradients.dtype);
  gradients.push_back(CopyBytes(from.gradients.pooled, from.gradients.pooled_count * item));
  for (const Gradients::Block& block : from.gradients.sequences) {
    gradients.push_back(CopyBytes(block.data, block.count * item));
  }
  input.gradients.pooled = gradients[0].data();
  for (size_t i = 0; i < input.gradients.sequences.size(); ++i) {
    input.gradients.sequences[i].data = gradients[i + 1].data();
  }
}

uint64_t PushDigest(const PushInput& input) {
  wire::Digest64 digest;
  for (const std::string& key : input.kjt.keys) DigestText(key, digest);
  Digest(input.kjt.lengths, digest);
  Digest(input.kjt.values, digest);
  Digest(input.kjt.values32, digest);
  digest.UpdateValue(input.kjt.weighted);
  Digest(input.kjt.weights, digest);
  Digest(input.kjt.stride_per_key, digest);
  for (const std::vector<int64_t>& inverse : input.kjt.inverse_indices) Digest(absl::MakeConstSpan(inverse), digest);
  digest.UpdateValue(input.gradients.dtype);
  DigestBlock(input.gradients.pooled, input.gradients.pooled_count, input.gradients.dtype, digest);
  for (const Gradients::Block& block : input.gradients.sequences) {
    DigestBlock(block.data, block.count, input.gradients.dtype, digest);
  }
  digest.UpdateValue(input.options.out_of_range_policy);
  digest.UpdateValue(input.options.nonfinite_policy);
  digest.UpdateValue(input.options.grad_scale);
  for (const auto& [table, rate] : input.options.learning_rates) {
    DigestText(table, digest);
    digest.UpdateValue(rate);
  }
  return digest.value();
}

}  // namespace client

inline namespace sdk {

bool PushOutcome::unknown() const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const NodePush& node) { return client::IsUnknownOutcome(node.status); });
}

}  // namespace sdk
}  // namespace embps
