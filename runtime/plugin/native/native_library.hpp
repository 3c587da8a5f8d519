#pragma once
/// A shared object that stays loaded as long as a copy of it lives, and the check of its ABI
/// number. Thread-safe. Errors: Errc::not_found for the file, Errc::unsupported, with the remedy,
/// for a file that is no plugin or of another ABI version.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/abi.h"
#include "runtime/base/error.hpp"

namespace cohort::plugin {

class NativeLibrary {
 public:
  static Expected<std::shared_ptr<const NativeLibrary>> open(const std::string& path);
  ~NativeLibrary();
  NativeLibrary(const NativeLibrary&) = delete;
  NativeLibrary& operator=(const NativeLibrary&) = delete;

  const std::string& path() const { return path_; }
  /// Calls the exported function `symbol` and checks the first two fields of its table against the
  /// version and the size that this program was built with. Returns the table.
  Expected<const void*> table(const char* symbol, uint32_t abi, size_t size_bytes) const;

 private:
  NativeLibrary(std::string path, void* handle);
  std::string path_;
  void* handle_;
};

/// A message buffer of the host.
struct NativeMessage {
  std::array<char, 1024> text{};
  cohort_message abi{text.data(), text.size()};
  NativeMessage() = default;
  NativeMessage(const NativeMessage&) = delete;
  std::string words(const char* otherwise = "failed without a reason") {
    text.back() = '\0';
    return text[0] == '\0' ? otherwise : text.data();
  }
};

inline cohort_text to_abi(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view from_abi(cohort_text text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

}  // namespace cohort::plugin
