#pragma once
/// The whole of a terminal for a command that draws on it: the alternate screen, no cursor, keys
/// without Enter. Owner: one thread; one per process, made before other threads. SCREEN-1: it gives
/// the terminal back as it was at its end, on SIGINT, SIGTERM and SIGHUP (wait() says so and its
/// owner ends), and while the process is stopped by Ctrl-Z. After kill -9 `reset` does.
#include <termios.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/error.hpp"
#include "runtime/observe/terminal_io.hpp"

namespace cohort {

class FullScreen {
 public:
  /// Why wait() has returned.
  enum class Heard : uint8_t { nothing, key, resize, end };

  /// Takes the terminal: draws on `out_fd`, reads keys of `in_fd` if that is one too. Errc::io.
  static Expected<FullScreen> open(int in_fd, int out_fd);
  FullScreen(FullScreen&& other) noexcept;
  FullScreen& operator=(FullScreen&&) = delete;
  ~FullScreen();

  observe::TerminalSize size() const { return observe::terminal_size(out_fd_); }
  /// Draws the lines from the top; writes those alone that are not there yet.
  void draw(const std::vector<std::string>& lines);
  /// Waits for a key, another size, the end (q, a signal) or the time.
  Heard wait(std::chrono::milliseconds limit);

 private:
  FullScreen(int in_fd, int out_fd, Descriptor signals);
  void enter();
  void leave();
  Heard hear_signal();
  Heard hear_key();

  int in_fd_, out_fd_;
  Descriptor signals_;
  std::optional<termios> before_;  // of in_fd_; nothing: it is no terminal
  bool has_keys_ = false, is_drawn_on_ = false;
  std::vector<std::string> drawn_;
};

}  // namespace cohort
