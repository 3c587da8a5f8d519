#pragma once
/// Where connections of other processes come in and go out: sockets, and a Gate that hands over
/// only connections that have shown the cluster's certificate. Internal to runtime/control; knows
/// no CAF, whose own TLS doorman waits for a handshake on the one thread that serves all
/// (decisions/0010). Threads: a Gate has one, which alone touches connections that are not yet
/// known; take() may be called from one other thread.
///   GATE-1 at most k_max_unknown connections are held that have not proved themselves, each for at
///          most handshake_ms; the oldest makes room for the next.
///   GATE-2 at most max_members connections that have are open at a time.
///   GATE-3 strangers cost at most a line of the log per k_log_ms.
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/control/sockets.hpp"
#include "runtime/control/tls.hpp"

namespace cohort::control::detail {

inline constexpr size_t k_max_unknown = 256;
inline constexpr int64_t k_log_ms = 10000;

/// An open connection; `tls` is empty where the system has no credentials. `place` is given back
/// with the last copy (GATE-2).
struct Connection {
  Descriptor socket;
  std::unique_ptr<TlsSession> tls;
  std::string peer;  // "10.0.0.7:41234", for errors
  std::shared_ptr<void> place;
};

/// Connects and shakes hands within `limit_ms`. Errc::closed, Errc::denied, Errc::timeout.
Expected<Connection> dial(const std::string& host, uint16_t port,
                          const std::shared_ptr<TlsContext>& tls, int limit_ms);

struct GateOptions {
  std::string host;
  uint16_t port = 0;  // 0: any
  std::shared_ptr<TlsContext> tls;
  int handshake_ms = 5000;
  size_t max_members = 4096;
};

class Gate {
 public:
  static Expected<std::unique_ptr<Gate>> open(GateOptions options);
  ~Gate();
  uint16_t port() const { return port_; }
  /// Returns an eventfd that can be read once (8 bytes) for each connection that take() will
  /// return.
  Descriptor announcements() const;
  std::optional<Connection> take();

 private:
  struct Unknown {
    Connection connection;
    int64_t deadline = 0;
    short waits_for = 0;  // poll events
  };

  explicit Gate(GateOptions options) : options_(std::move(options)) {}
  Expected<void> listen();
  void run();
  void wait();
  void accept_some();
  void shake_hands(size_t i);
  void admit(Connection connection);
  void turn_away(const Connection& connection, const std::string& why);
  void drop_late(int64_t now);

  const GateOptions options_;
  Descriptor listener_, wake_, announcements_;
  uint16_t port_ = 0;
  std::atomic<bool> is_stopping_{false};
  const std::shared_ptr<std::atomic<size_t>> members_ = std::make_shared<std::atomic<size_t>>(0);
  std::mutex mutex_;
  std::deque<Connection> admitted_;

  // its thread only
  std::deque<Unknown> unknown_;  // oldest first
  std::vector<short> ready_;     // of unknown_, from poll()
  bool has_arrivals_ = false;
  int64_t resumes_at_ = 0;  // accepts nothing before: no descriptor was left
  int64_t next_log_ = 0;
  uint64_t turned_away_ = 0;  // since the last line
  std::thread thread_;
};

}  // namespace cohort::control::detail
