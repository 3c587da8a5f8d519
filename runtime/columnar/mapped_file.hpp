#pragma once
/// A file's bytes in memory, mapped for reading as long as the object lives. A process that cuts
/// the file meanwhile kills the reader (SIGBUS). Movable; any thread may read.
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::columnar {

class MappedFile {
 public:
  /// Returns Errc::not_found, or Errc::io, naming errno's text and not the path.
  static Expected<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

}  // namespace cohort::columnar
