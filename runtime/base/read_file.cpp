#include "runtime/base/read_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace cohort {

Expected<std::string> read_file(const std::filesystem::path& path, uintmax_t bytes_max) {
  const auto failed = [&](Errc code, const std::string& what) {
    return Error{code, path.string() + ": " + what};
  };
  std::error_code failure;
  const uintmax_t size = std::filesystem::file_size(path, failure);  // of a regular file only
  if (failure)
    return failed(failure == std::errc::no_such_file_or_directory ? Errc::not_found : Errc::io,
                  failure.message());
  if (size > bytes_max)
    return failed(Errc::config,
                  fmt::format("{} bytes, where at most {} are read", size, bytes_max));
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    return failed(Errc::io, fmt::format("cannot be read: {}", std::strerror(errno)));
  return text;
}

}  // namespace cohort
