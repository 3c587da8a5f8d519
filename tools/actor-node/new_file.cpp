#include "tools/actor-node/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cohort {

namespace fs = std::filesystem;

Error file_error(const fs::path& path, std::string_view what) {
  return {Errc::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

Expected<NewFile> NewFile::write(fs::path target, const std::string& text) {
  NewFile file(std::move(target));
  const int fd = ::open(file.path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return file_error(file.path_, "cannot be created");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  const bool is_whole = done == text.size() && ::fsync(fd) == 0;
  Error error = is_whole ? Error{} : file_error(file.path_, "cannot be written");
  if (::close(fd) != 0 && is_whole) error = file_error(file.path_, "cannot be written");
  if (error.code != Errc::none) return error;
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : target_(std::move(other.target_)), path_(std::exchange(other.path_, {})) {}

NewFile::~NewFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Expected<void> NewFile::put_in_place() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) return file_error(target_, "rename");
  path_.clear();
  return {};
}

NewFile::NewFile(fs::path target)
    : target_(std::move(target)), path_(target_.string() + fmt::format(".{}.tmp", ::getpid())) {}

}  // namespace cohort
