#pragma once
/// The producer's protocol: window, credit, rewinds, when to say hello, to ping, and when the
/// consumer counts as lost. No socket, no clock, no thread: time comes as an argument, frames go
/// through a ProducerPort, so that the simulator (tools/cohort-sim) runs the pump's code. Internal
/// to runtime/transport. Thread: its owner alone (the Sender's pump). Bound: messages that
/// ProducerBooks admitted and the consumer has not acknowledged (LINK-3).
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/frame.hpp"
#include "runtime/transport/link.hpp"
#include "runtime/transport/socket.hpp"

namespace cohort::transport::detail {

/// A message between send() and its acknowledgement.
struct ProducerItem {
  uint64_t seq = 0;
  Message message;
  Sender::OnAcked on_acked;
  uint64_t cost = 0;
  uint64_t end_position = 0;  // cost of the session up to and with this message
  uint32_t chunk_count = 1;
};

/// LINK-3: numbers messages and bounds the queue. Not thread-safe: threads that share it lock it.
class ProducerBooks {
 public:
  explicit ProducerBooks(const LinkOptions& options);
  /// Returns Errc::backpressure if queue_bytes are in use, Errc::capacity if it can never fit.
  Expected<ProducerItem> admit(Message message, Sender::OnAcked on_acked);
  void release(size_t cost) { pending_bytes_ -= cost; }
  void set_peer_credit(uint64_t bytes) { peer_credit_ = bytes; }
  size_t pending_bytes() const { return pending_bytes_; }

 private:
  const std::string name_;
  const uint64_t queue_bytes_, chunk_bytes_;
  uint64_t next_seq_ = 1, position_ = 0;
  uint64_t peer_credit_ = 0;  // 0 = not known yet
  size_t pending_bytes_ = 0;
};

/// A session's surroundings.
class ProducerPort {
 public:
  /// Sends a frame: header with payload, then a chunk of a body if there is one. Never blocks.
  virtual IoResult send(const FrameHeader& header, std::string_view payload,
                        tensor::Buffer chunk) = 0;
  /// Drops the connection and connects to the consumer's present endpoint.
  virtual void reconnect() = 0;
  /// Is there nothing that will connect by itself?
  virtual bool is_stuck() const = 0;
  /// Has the consumer an endpoint other than reconnect()'s last?
  virtual bool has_moved() = 0;
  /// For messages: the endpoint.
  virtual std::string where() const = 0;
  /// The most credit that a consumer grants.
  virtual void on_credit(uint64_t bytes) = 0;
  virtual void on_acked(std::vector<ProducerItem> done, size_t cost) = 0;
  virtual void on_outage(Error error) = 0;  // once per outage
  /// The consumer was last heard so long ago, and owes answers to several pings: its process or the
  /// way to it stands still, or is so slow that all before the pings is still on the way. Again at
  /// each heartbeat. `messages`: not acknowledged, at least one.
  virtual void on_silent(int64_t /*silent_ms*/, size_t /*messages*/) {}
  virtual void on_heard() {}              // after on_silent()
  virtual void on_dead(Error error) = 0;  // the session is over

 protected:
  ~ProducerPort() = default;
};

class ProducerSession {
 public:
  /// `options`, `port` and `counters` outlive it. `id` is random: one per Sender.
  ProducerSession(uint64_t id, const LinkOptions& options, ProducerPort& port, Counters& counters);
  void start(int64_t now);
  void push(ProducerItem item) { window_.push_back(std::move(item)); }
  /// Takes a frame that is whole (unseal).
  void on_frame(const FrameHeader& header, std::span<const std::byte> payload, int64_t now);
  /// Sends granted messages, up to a batch. Returns whether anything went out.
  bool send_some();
  /// At least once a heartbeat. What comes later than two says that this process stood still
  /// (stopped, or its machine asleep): that time is nobody's silence.
  void on_timers(int64_t now);
  void say_bye();

  uint64_t id() const { return id_; }
  /// When on_timers() has something to do if no frame comes before.
  int64_t next_due() const { return is_established_ ? next_ping_ : next_hello_; }
  bool wants_output() const { return wants_output_; }  // granted, but the port took no more
  bool is_dead() const { return is_dead_; }
  bool is_established() const { return is_established_; }

 private:
  void on_welcome(std::span<const std::byte> payload, int64_t now);
  void on_ack(uint64_t acked_seq, uint64_t granted);
  void rewind(uint64_t seq, uint32_t chunk);
  IoResult send_chunk(const ProducerItem& item);
  void advance(const ProducerItem& item);
  bool send_control(FrameKind kind, std::string_view payload = {});
  void say_hello(int64_t now);
  void ping(int64_t now);
  void follow_consumer(int64_t now);
  void lose_peer(int64_t now, bool is_silent);
  void reconnect(int64_t now);
  void forgive_pause(int64_t now);
  void tell_silence(int64_t now);
  void end_silence();
  void report_outage(const std::string& what);
  void fail(Error error);
  std::string label() const;

  const uint64_t id_;
  const LinkOptions& options_;
  ProducerPort& port_;
  Counters& counters_;

  std::deque<ProducerItem> window_;  // not acknowledged; the front has the lowest seq
  size_t cursor_ = 0;                // index in window_ of the next frame to send
  uint32_t cursor_chunk_ = 0;
  uint64_t high_seq_ = 0;  // frames up to here (and high_chunk_) went out before: resent
  uint32_t high_chunk_ = 0;
  uint64_t acked_seq_ = 0;
  uint64_t acked_position_ = 0;
  uint64_t granted_ = 0;
  uint32_t handshake_ = 0;  // number of the last hello; the consumer's answers carry it
  bool is_established_ = false, was_established_ = false, is_outage_reported_ = false;
  bool wants_output_ = false, is_dead_ = false;
  int pings_ = 0;           // since the consumer was heard
  bool is_silent_ = false;  // and the port was told
  int64_t unconnected_since_ = 0;
  int64_t outage_since_ = 0, last_heard_ = 0, next_ping_ = 0, next_hello_ = 0, socket_since_ = 0;
  int64_t last_timers_ = 0;
  int hello_interval_ms_ = 0;
};

}  // namespace cohort::transport::detail
