#pragma once
/// A fuzzer's input, taken from the front as numbers and pieces. Never reads past its end: what is
/// not there is 0 or empty.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace cohort::test {

class FuzzBytes {
 public:
  FuzzBytes(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return rest_.empty(); }
  template <class T>
  T number() {
    static_assert(std::is_trivially_copyable_v<T>);
    T x{};
    const std::string_view bytes = piece(sizeof(T));
    std::memcpy(&x, bytes.data(), bytes.size());
    return x;
  }
  std::string_view piece(size_t size) {
    const std::string_view piece = rest_.substr(0, size);
    rest_.remove_prefix(piece.size());
    return piece;
  }
  std::string_view rest() { return piece(rest_.size()); }

 private:
  std::string_view rest_;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace cohort::test
