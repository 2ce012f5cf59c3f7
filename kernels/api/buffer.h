// Memory that kernels read and write.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>

namespace embps::kernels {

enum class MemoryKind : uint8_t {
  kDevice,      // where kernels compute; on CPU backends plain memory on huge pages
  kPinnedHost,  // host memory that the device can copy from and to without staging
};

// Owns one allocation. Movable, never empty: there is no default constructor, and a moved-from buffer may only be
// destroyed or assigned to.
class Buffer {
 public:
  using Deleter = std::function<void(void* data, int64_t bytes)>;
  Buffer(void* data, int64_t bytes, MemoryKind kind, Deleter deleter)
      : data_(data), bytes_(bytes), kind_(kind), deleter_(std::move(deleter)) {}
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_),
        kind_(other.kind_),
        deleter_(std::move(other.deleter_)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = other.bytes_;
    kind_ = other.kind_;
    deleter_ = std::move(other.deleter_);
    return *this;
  }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  MemoryKind kind() const { return kind_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void Reset() {
    if (data_ != nullptr && deleter_) deleter_(data_, bytes_);
  }
  void* data_;
  int64_t bytes_;
  MemoryKind kind_;
  Deleter deleter_;
};

}  // namespace embps::kernels
