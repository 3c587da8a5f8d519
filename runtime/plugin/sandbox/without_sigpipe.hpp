#pragma once
/// A write to a pipe or socket that nobody reads any more fails, and ends no process: while this
/// lives, SIGPIPE stays blocked in its thread; one that came is taken off. For libraries that write
/// without MSG_NOSIGNAL (cpp-httplib, OpenSSL), and for pipes. Keeps errno. One thread.
#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <ctime>

namespace cohort::plugin {

class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const int error = errno;
    const timespec at_once{};
    while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace cohort::plugin
