#include "runtime/base/read_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "runtime/base/text.hpp"

namespace cohort {
namespace {

Error unreadable(const std::filesystem::path& path, int reason) {
  return Error{reason == ENOENT ? Errc::not_found : Errc::io,
               path.string() + ": " + std::strerror(reason)};
}

}  // namespace

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

Expected<void> for_each_line(const std::filesystem::path& path, const TakeLine& take) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return unreadable(path, errno);
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!trim(line).empty()) COHORT_TRY(take(line, number));
  }
  // A folder can be opened, and fails here; as does a disk in the middle of the file.
  if (file.bad()) return unreadable(path, errno);
  return {};
}

}  // namespace cohort
