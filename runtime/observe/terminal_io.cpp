#include "runtime/observe/terminal_io.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace cohort::observe {

TerminalSize terminal_size(int fd) {
  TerminalSize size;
  winsize window{};
  if (::ioctl(fd, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return size;
  size.columns = window.ws_col;
  if (window.ws_row > 0) size.rows = window.ws_row;
  return size;
}

void write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace cohort::observe
