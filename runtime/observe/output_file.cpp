#include "runtime/observe/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace cohort::observe {
namespace {

Error io_error(const std::filesystem::path& path, std::string_view what, int code) {
  return Error{code == ENOENT ? Errc::not_found : Errc::io,
               fmt::format("{}: {}: {}", path.string(), what, std::strerror(code))};
}

}  // namespace

Expected<File> File::open(std::filesystem::path path, Mode mode) {
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  if (failed) return io_error(path.parent_path(), "cannot create folder", failed.value());
  int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
  flags |= mode == Mode::append_or_create ? O_APPEND : mode == Mode::replace ? O_TRUNC : O_EXCL;
  File file;
  file.fd_ = ::open(path.c_str(), flags, 0644);
  if (file.fd_ < 0) return io_error(path, "cannot open for writing", errno);
  file.path_ = std::move(path);
  return file;
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    close_quietly();
    path_ = std::move(other.path_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Expected<void> File::write(std::string_view bytes) {
  if (fd_ < 0) return Error{Errc::closed, fmt::format("{}: write after close", path_.string())};
  while (!bytes.empty()) {
    ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return error("cannot write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Expected<uint64_t> File::size_bytes() const {
  struct stat facts {};
  if (::fstat(fd_, &facts) != 0) return error("cannot stat");
  return static_cast<uint64_t>(facts.st_size);
}

Expected<void> File::truncate(uint64_t size_bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0) return error("cannot truncate");
  return {};
}

Expected<void> File::sync() {
  if (fd_ >= 0 && ::fsync(fd_) != 0) return error("cannot sync");
  return {};
}

Expected<void> File::close() {
  if (fd_ < 0) return {};
  if (::close(std::exchange(fd_, -1)) != 0) return error("cannot close");
  return {};
}

void File::close_quietly() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Error File::error(std::string_view what) const { return io_error(path_, what, errno); }

Expected<std::string> read_file(const std::filesystem::path& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(path, "cannot open for reading", errno);
  std::string text;
  std::array<char, 65536> block;
  ssize_t got = 0;
  while ((got = ::read(fd, block.data(), block.size())) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      int code = errno;
      ::close(fd);
      return io_error(path, "cannot read", code);
    }
    text.append(block.data(), static_cast<size_t>(got));
  }
  ::close(fd);
  return text;
}

}  // namespace cohort::observe
