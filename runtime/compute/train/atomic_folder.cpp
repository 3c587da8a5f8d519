#include "runtime/compute/train/atomic_folder.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/base/waits.hpp"

namespace cohort::compute {
namespace fs = std::filesystem;

namespace {

WaitText disk_wait(const fs::path& path) {
  return {WaitLevel::outside, "the checkpoint", path.native(), "the disk"};
}

}  // namespace

Error io_error(const fs::path& path, const char* what) {
  return {Errc::io, path.string() + ": " + what + ": " + std::strerror(errno)};
}

Expected<void> write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  const Wait wait(disk_wait(path));
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error(path, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

namespace {

Expected<void> sync_folder(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io_error(path, "open");
  const Wait wait(disk_wait(path));
  const bool is_synced = ::fsync(fd) == 0;
  Error error = io_error(path, "fsync");
  ::close(fd);
  if (!is_synced) return error;
  return {};
}

}  // namespace

Expected<void> write_synced(const fs::path& path, std::span<const std::byte> bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(path, "open");
  Expected<void> result = write_all(fd, bytes, path);
  const Wait wait(disk_wait(path));
  if (result && ::fsync(fd) != 0) result = io_error(path, "fsync");
  if (::close(fd) != 0 && result) result = io_error(path, "close");
  return result;
}

AtomicFolder::AtomicFolder(fs::path target, fs::path temporary)
    : target_(std::move(target)), temporary_(std::move(temporary)) {}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : target_(std::move(other.target_)), temporary_(std::exchange(other.temporary_, {})) {}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Expected<AtomicFolder> AtomicFolder::create(const fs::path& target) {
  std::error_code code;
  fs::path clean = fs::absolute(target, code).lexically_normal();
  if (code || target.empty())
    return Error{Errc::io, "'" + target.string() + "': no folder can be made there"};
  if (!clean.has_filename()) clean = clean.parent_path();  // "dir/" names dir
  fs::path temporary = clean;
  temporary += ".tmp-" + std::to_string(::getpid());
  fs::remove_all(temporary, code);
  fs::create_directories(temporary, code);
  if (code) return Error{Errc::io, temporary.string() + ": " + code.message()};
  return AtomicFolder(std::move(clean), std::move(temporary));
}

Expected<void> AtomicFolder::commit() {
  COHORT_TRY(sync_folder(temporary_));
  std::error_code code;
  if (fs::exists(target_, code)) {
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0)
      return io_error(target_, "exchange");
    fs::remove_all(temporary_, code);
  } else if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return io_error(target_, "rename");
  }
  temporary_.clear();
  return sync_folder(target_.parent_path());
}

Expected<void> AtomicFolder::commit_new() {
  COHORT_TRY(sync_folder(temporary_));
  // rename(2) replaces an empty folder, and nothing else.
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return io_error(target_, "rename");
  temporary_.clear();
  return sync_folder(target_.parent_path());
}

}  // namespace cohort::compute
