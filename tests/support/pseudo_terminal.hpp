#pragma once
/// A program in a pseudo-terminal of its own: what its screen shows, keys, another size. Owner: the
/// test. Every wait has an end.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/child_process.hpp"

namespace cohort::test {

class PseudoTerminal {
 public:
  PseudoTerminal(const std::vector<std::string>& command, unsigned short columns,
                 unsigned short rows) {
    const winsize size{rows, columns, 0, 0};
    pid_ = ::forkpty(&host_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      std::vector<char*> words;
      for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::setenv("TERM", "xterm", 1);
      ::execvp(words[0], words.data());
      ::_exit(127);
    }
    if (pid_ > 0) ::fcntl(host_, F_SETFL, O_NONBLOCK);
  }
  ~PseudoTerminal() {
    if (pid_ > 0 && !is_done_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (host_ >= 0) ::close(host_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;

  bool is_there() const { return pid_ > 0; }
  void type(const std::string& keys) const {
    [[maybe_unused]] const ssize_t written = ::write(host_, keys.data(), keys.size());
  }
  void signal(int number) const { ::kill(pid_, number); }
  void resize(unsigned short columns, unsigned short rows) const {
    const winsize size{rows, columns, 0, 0};
    ::ioctl(host_, TIOCSWINSZ, &size);
  }
  /// What the terminal is set to: input modes, echo.
  tcflag_t local_modes() const {
    termios now{};
    ::tcgetattr(host_, &now);
    return now.c_lflag;
  }
  /// All bytes so far.
  const std::string& bytes() {
    char piece[65536];
    for (ssize_t size; (size = ::read(host_, piece, sizeof piece)) > 0;)
      bytes_.append(piece, static_cast<size_t>(size));
    return bytes_;
  }
  /// Waits until the screen has `text`; returns the screen.
  std::string screen_with(const std::string& text, int limit_ms = 20000) {
    std::string now;
    wait_until(
        [&] {
          now = screen();
          return now.find(text) != std::string::npos || !is_running();
        },
        limit_ms);
    return now;
  }
  /// What the bytes so far have drawn, line by line, without styles.
  std::string screen() {
    std::vector<std::string> lines(1);
    size_t row = 0;
    const std::string& all = bytes();
    for (size_t at = 0; at < all.size();) {
      if (all.compare(at, 2, "\x1b[") != 0) {
        if (all[at] >= ' ' || all[at] < 0) lines[row] += all[at];
        ++at;
        continue;
      }
      size_t end = at + 2;
      while (end < all.size() && (all[end] < '@' || all[end] > '~')) ++end;
      const std::string words = all.substr(at + 2, end - at - 2);
      const char verb = end < all.size() ? all[end] : ' ';
      if (verb == 'J') lines.assign(1, ""), row = 0;
      if (verb == 'H') row = static_cast<size_t>(std::max(1, std::atoi(words.c_str()))) - 1;
      if (lines.size() <= row) lines.resize(row + 1);
      if (verb == 'K') lines[row].clear();
      at = end + 1;
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }
  bool is_running() {
    poll_state();
    return !is_done_;
  }
  /// Whether it stops (Ctrl-Z) within the limit.
  bool becomes_stopped(int limit_ms = 10000) {
    return wait_until(
        [&] {
          poll_state();
          return is_stopped_;
        },
        limit_ms);
  }
  /// Returns the exit code, -signal, or -1000 if it does not end.
  int wait(int limit_ms = 10000) {
    const bool ended = wait_until(
        [&] {
          bytes();  // it may have more to say than the terminal holds
          return !is_running();
        },
        limit_ms);
    bytes();
    if (!ended) return -1000;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

 private:
  void poll_state() {
    int status = 0;
    if (is_done_ || ::waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) != pid_) return;
    is_stopped_ = WIFSTOPPED(status);
    if (is_stopped_ || WIFCONTINUED(status)) return;
    status_ = status;
    is_done_ = true;
  }

  int host_ = -1;
  pid_t pid_ = -1;
  int status_ = 0;
  bool is_done_ = false, is_stopped_ = false;
  std::string bytes_;
};

}  // namespace cohort::test
