#include "runtime/stream/stream_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "runtime/base/waits.hpp"

namespace cohort::stream {
namespace {

constexpr size_t k_parts_max = 16;  // a record has five: prefix, header, padding, columns, padding

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::read:
      return O_RDONLY;
    case OpenMode::append:
      return O_RDWR;
    case OpenMode::create:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

std::string text_of(int code) { return std::strerror(code); }

/// Drops the first `written` bytes of `parts`; returns the rest.
std::span<iovec> advance(std::span<iovec> parts, size_t written) {
  while (!parts.empty() && written >= parts.front().iov_len) {
    written -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (!parts.empty()) {
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + written;
    parts.front().iov_len -= written;
  }
  return parts;
}

}  // namespace

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Expected<File> File::open(const std::filesystem::path& path, OpenMode mode) {
  File file;
  file.path_ = path;
  // Opening a FIFO would wait for its other end; of what may be here the flag changes nothing.
  file.fd_ = ::open(path.c_str(), flags_of(mode) | O_CLOEXEC | O_NONBLOCK, 0644);
  if (file.fd_ < 0) {
    int code = errno;
    if (code == ENOENT && mode != OpenMode::create)
      return Error{Errc::not_found, fmt::format("{}: no such file", path.string())};
    return file.error("open", code);
  }
  struct stat status {};
  if (::fstat(file.fd_, &status) != 0) return file.error("fstat", errno);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return Error{Errc::io, fmt::format("{}: not a regular file", path.string())};
  return file;
}

Error File::error(const char* what, int code) const {
  return {Errc::io, fmt::format("{}: {}: {}", path_.string(), what, text_of(code))};
}

Expected<uint64_t> File::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return error("fstat", errno);
  return static_cast<uint64_t>(status.st_size);
}

Expected<size_t> File::read(uint64_t offset, std::span<std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n =
        ::pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return error(fmt::format("read of {} bytes at {}", bytes.size(), offset).c_str(), errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

namespace {

WaitText disk_wait(const std::filesystem::path& path) {
  return {WaitLevel::outside, "the recorder", path.native(), "the disk"};
}

}  // namespace

Expected<void> File::write(uint64_t offset, std::span<const iovec> parts) const {
  COHORT_CHECK(parts.size() <= k_parts_max, "STREAM: too many parts in one write");
  iovec copy[k_parts_max];
  std::copy(parts.begin(), parts.end(), copy);
  std::span<iovec> left = advance({copy, parts.size()}, 0);
  uint64_t total = 0, done = 0;
  const Wait wait(disk_wait(path_));
  for (const iovec& part : left) total += part.iov_len;
  while (!left.empty()) {
    ssize_t n = ::pwritev(fd_, left.data(), static_cast<int>(left.size()),
                          static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int code = n < 0 ? errno : EIO;
      return Error{Errc::io, fmt::format("{}: write of {} bytes at {}: {} ({} bytes available)",
                                         path_.string(), total, offset, text_of(code),
                                         available_bytes(path_).value_or(0))};
    }
    done += static_cast<uint64_t>(n);
    left = advance(left, static_cast<size_t>(n));
  }
  return {};
}

Expected<void> File::reserve(uint64_t size_bytes) const {
  int code = 0;
  do {
    code =
        ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_bytes)) == 0 ? 0 : errno;
  } while (code == EINTR);
  auto available = available_bytes(path_);
  if (code == EOPNOTSUPP || code == ENOSYS)
    code = available && *available < size_bytes ? ENOSPC : 0;
  if (code == 0) return {};
  return Error{Errc::io,
               fmt::format("{}: cannot reserve the segment: {} ({} bytes needed, {} "
                           "available)",
                           path_.string(), text_of(code), size_bytes, available.value_or(0))};
}

Expected<void> File::truncate(uint64_t size_bytes) const {
  if (::ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0)
    return error(fmt::format("truncate to {} bytes", size_bytes).c_str(), errno);
  return {};
}

Expected<void> File::sync() const {
  const Wait wait(disk_wait(path_));
  if (::fdatasync(fd_) != 0) return error("fdatasync", errno);
  return {};
}

void File::start_writeback(uint64_t offset, uint64_t size_bytes) const {
  (void)::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(size_bytes),
                          SYNC_FILE_RANGE_WRITE);
}

Expected<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  FolderLock lock;
  COHORT_ASSIGN(lock.folder_, File::open(folder, OpenMode::read));
  if (::flock(lock.folder_.fd(), LOCK_EX | LOCK_NB) == 0) return lock;
  int code = errno;
  if (code == EWOULDBLOCK)
    return Error{Errc::closed,
                 fmt::format("{}: another process is writing to this stream", folder.string())};
  return Error{Errc::io, fmt::format("{}: flock: {}", folder.string(), text_of(code))};
}

Expected<void> sync_folder(const std::filesystem::path& folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error{Errc::io, fmt::format("{}: open: {}", folder.string(), text_of(errno))};
  int code = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (code != 0)
    return Error{Errc::io, fmt::format("{}: fsync: {}", folder.string(), text_of(code))};
  return {};
}

std::optional<uint64_t> available_bytes(const std::filesystem::path& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return std::nullopt;
  return uint64_t{status.f_bavail} * status.f_frsize;
}

Expected<void> replace_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  ::unlink(temporary.c_str());
  COHORT_ASSIGN(File file, File::open(temporary, OpenMode::create));
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  auto written = file.write(0, {&part, 1});
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  Error failure =
      written ? Error{Errc::io, fmt::format("{}: rename: {}", temporary.string(), text_of(errno))}
              : written.error();
  ::unlink(temporary.c_str());
  return failure;
}

std::filesystem::path segment_path(const std::filesystem::path& folder, uint32_t segment) {
  return folder / fmt::format("segment-{:06}.cohort", segment);
}

std::filesystem::path index_path(const std::filesystem::path& folder, uint32_t segment) {
  return folder / fmt::format("segment-{:06}.index", segment);
}

Expected<std::filesystem::path> folder_of(const std::filesystem::path& run) {
  std::error_code code;
  if (!std::filesystem::is_directory(run, code))
    return Error{Errc::not_found, fmt::format("{}: no such folder", run.string())};
  for (const std::filesystem::path& folder : {run / "stream", run})
    if (auto segments = list_segments(folder); segments && !segments->empty()) return folder;
  return Error{
      Errc::not_found,
      fmt::format("{}: neither a run folder nor a stream (no segment-*.cohort)", run.string())};
}

Expected<std::vector<uint32_t>> list_segments(const std::filesystem::path& folder) {
  constexpr std::string_view k_prefix = "segment-", k_suffix = ".cohort";
  std::error_code code;
  std::filesystem::directory_iterator at(folder, code);
  if (code) return Error{Errc::not_found, fmt::format("{}: {}", folder.string(), code.message())};
  std::vector<uint32_t> segments;
  for (const std::filesystem::directory_iterator end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    std::string_view text = name;
    if (!text.starts_with(k_prefix) || !text.ends_with(k_suffix)) continue;
    text = text.substr(k_prefix.size(), text.size() - k_prefix.size() - k_suffix.size());
    uint32_t number = 0;
    auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status == std::errc{} && rest == text.data() + text.size()) segments.push_back(number);
  }
  if (code) return Error{Errc::io, fmt::format("{}: {}", folder.string(), code.message())};
  std::sort(segments.begin(), segments.end());
  return segments;
}

}  // namespace cohort::stream
