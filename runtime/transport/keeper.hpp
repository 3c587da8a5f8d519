#pragma once
/// Keeper: the doorman of a Context's tcp endpoints. It answers ZeroMQ's question about a client
/// (ZAP): only a client with the consumer's own pair of keys may connect. It ends connections that
/// have not proved themselves, which ZeroMQ would hold without limit. Internal. Thread: one of its
/// own, from the first tcp consumer to the end of the Context. watch() is thread-safe.
///   DOOR-1 a CURVE client whose public key is not the consumer's own is refused.
///   DOOR-2 of a consumer that has keys at most k_max_strangers connections are open that have not
///          been let in, each for at most k_handshake_ms, and each may have sent at most
///          k_max_stranger_bytes; the oldest makes room for the next.
///   DOOR-3 strangers cost at most a line of the log per k_log_ms.
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::transport::detail {

inline constexpr int k_handshake_ms = 5000;
inline constexpr size_t k_max_strangers = 256;
/// Greeting, HELLO and INITIATE take less than 1 KiB.
inline constexpr uint64_t k_max_stranger_bytes = 8 << 10;

class Keeper {
 public:
  /// `context` is ZeroMQ's; it must be shut down before the Keeper ends.
  explicit Keeper(void* context);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  /// Call before `socket` (ROUTER) is bound. Errc::io.
  Expected<void> watch(void* socket, const std::string& name, bool has_keys);

 private:
  struct Stranger {
    int fd = -1;
    uint64_t cookie = 0;  // of the kernel: tells a socket from a later one of the same number
    int64_t since = 0;
  };
  struct Door {
    void* events = nullptr;  // PAIR
    std::string name;
    bool has_keys = false;
    std::deque<Stranger> strangers;  // oldest first
    uint64_t refused = 0;            // since the last line
    int64_t next_log = 0;
  };

  void run();
  void wait();
  void answer();
  void open_door();
  bool take_event(Door& door);
  void look_at(Door& door, int64_t now);
  void refuse(Door& door, const std::string& why);

  void* const context_;
  void* zap_ = nullptr;       // REP
  void* commands_ = nullptr;  // PULL
  std::mutex mutex_;
  uint64_t doors_made_ = 0;
  // its thread only
  std::vector<Door> doors_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace cohort::transport::detail
