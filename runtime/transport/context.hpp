#pragma once
/// Context: the ZeroMQ context of a process, one per process (tests may have several).
/// Links share ownership of the sockets' context, so the order of destruction does not matter: the
/// last link ends it, and waits at most k_linger_ms for bytes still in sockets. Thread-safety:
/// thread-safe. inproc endpoints are names inside one Context.
#include <memory>

namespace cohort::transport {

inline constexpr int k_linger_ms =
    100;  // a closing link's last words (bye, acks) may take this long

class Context {
 public:
  /// `io_threads` serve tcp and ipc; inproc needs none of them.
  explicit Context(int io_threads = 1);
  struct Handle;
  /// For the folder's own use.
  const std::shared_ptr<Handle>& handle() const { return handle_; }

 private:
  std::shared_ptr<Handle> handle_;
};

}  // namespace cohort::transport
