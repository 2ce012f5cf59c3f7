// Memory whose two sides are watched and whose content is poisoned, so that a write outside or a value never written
// shows.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"

namespace embps::testing {

// `count` elements of T, 64-byte aligned, with 64 sentinel bytes on both sides. The content starts as poison: NaN in
// each float type (fp32, fp16, bf16), an absurd value in 64-bit integers.
template <class T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t count) : count_(count), storage_(2 * kGuardBytes + count * sizeof(T) + 64) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
    data_ = reinterpret_cast<T*>((address + 63) / 64 * 64);
    std::memset(storage_.data(), kSentinel, storage_.size());
    Poison();
  }
  explicit GuardedBuffer(const std::vector<T>& values) : GuardedBuffer(static_cast<int64_t>(values.size())) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size() * sizeof(T));
  }
  GuardedBuffer(GuardedBuffer&&) = default;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  T* data() const { return data_; }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) const { return data_[i]; }
  std::vector<T> ToVector() const { return std::vector<T>(data_, data_ + count_); }
  absl::Span<T> span() const { return absl::MakeSpan(data_, count_); }

  void Poison() {
    if (count_ > 0) std::memset(data_, kPoison, count_ * sizeof(T));
  }
  // True while nothing was written outside.
  bool GuardsIntact() const {
    const auto* begin = reinterpret_cast<const uint8_t*>(data_);
    const auto* end = begin + count_ * sizeof(T);
    for (const uint8_t* at = storage_.data(); at < begin; ++at) {
      if (*at != kSentinel) return false;
    }
    for (const uint8_t* at = end; at < storage_.data() + storage_.size(); ++at) {
      if (*at != kSentinel) return false;
    }
    return true;
  }
  // True when element i still holds every byte of the poison.
  bool IsPoison(int64_t i) const {
    uint8_t bytes[sizeof(T)];
    std::memcpy(bytes, data_ + i, sizeof(T));
    for (const uint8_t byte : bytes) {
      if (byte != kPoison) return false;
    }
    return true;
  }

 private:
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr int64_t kGuardBytes = 64;
  static constexpr uint8_t kSentinel = 0xc3;
  static constexpr uint8_t kPoison = sizeof(T) == 8 ? 0x7a : 0xff;

  const int64_t count_;
  std::vector<uint8_t> storage_;
  T* data_;
};

}  // namespace embps::testing
