#include "tools/actor-node/run_note.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "runtime/platform/child_processes.hpp"

namespace cohort {
namespace {

int take_number(const char* variable) {
  const char* text = std::getenv(variable);
  const int number = text == nullptr ? -1 : std::atoi(text);
  ::unsetenv(variable);
  return number;
}

}  // namespace

RunNote::RunNote()
    : supervisor_(take_number(k_supervisor_variable)), fd_(take_number(k_note_variable)) {
  if (fd_ >= 0) ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
}

RunNote::~RunNote() {
  if (fd_ >= 0) ::close(fd_);
}

Expected<void> RunNote::die_with_supervisor() const {
  return is_supervised() ? platform::die_with_parent(supervisor_) : Expected<void>();
}

void RunNote::tell(const std::string& folder) {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, folder.data(), folder.size());
  ::close(fd);
}

}  // namespace cohort
