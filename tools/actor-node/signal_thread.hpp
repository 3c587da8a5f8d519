#pragma once
/// SIGINT and SIGTERM of a command that works until it is told to stop. One per process, made by
/// main before other threads.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

#include "runtime/base/clock.hpp"

namespace cohort {

/// Hears SIGINT and SIGTERM. A handler, not a blocked signal: OpenBLAS starts threads before main
/// that block nothing, and the kernel may choose one of them. First signal: `on_stop`, on a thread
/// of its own. Second: leave at once, the run can be resumed from its last checkpoint. A SIGTERM
/// soon after the first is the same one: systemd and Slurm send it to every process, so that it
/// comes here once more by way of the supervisor; and so does a Ctrl-C, of which the supervisor's
/// word may be the first to come.
class SignalThread {
 public:
  SignalThread() {
    if (::pipe2(pipe_, O_CLOEXEC) != 0) return;
    write_end_ = pipe_[1];
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      int saved = errno;
      [[maybe_unused]] ssize_t written = ::write(write_end_, signal == SIGTERM ? "t" : "i", 1);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  }
  void start(std::function<void()> on_stop) {
    thread_ = std::thread([this, on_stop = std::move(on_stop)] {
      constexpr double k_same_s = 2, k_same_interrupt_s = 0.2;  // nobody presses twice so fast
      char byte = 0;
      double first = 0;
      for (int count = 0; ::read(pipe_[0], &byte, 1) == 1 && byte != 'e';) {
        const double now = now_seconds();
        if (count == 0) first = now;
        if (count == 1 && now - first < (byte == 't' ? k_same_s : k_same_interrupt_s)) continue;
        if (++count == 2) {
          constexpr char k_restore[] = "\x1b[?25h\nerror: stopped at once by a second signal\n";
          [[maybe_unused]] ssize_t written =
              ::write(STDERR_FILENO, k_restore, sizeof(k_restore) - 1);
          _exit(130);
        }
        on_stop();
      }
    });
  }
  ~SignalThread() {
    if (!thread_.joinable()) return;
    [[maybe_unused]] ssize_t written = ::write(pipe_[1], "e", 1);
    thread_.join();
  }

 private:
  static inline std::atomic<int> write_end_ = -1;  // a handler knows nothing but globals
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace cohort
