#pragma once
/// The consumer's protocol around its Sessions: it admits producers, answers their frames, sends
/// acknowledgements and counts silent producers as lost. No socket, no clock, no thread: time comes
/// as an argument, frames go through a ConsumerPort, so that the simulator (tools/cohort-sim) runs
/// the pump's code. Internal to runtime/transport. Thread: its owner alone (the Receiver's pump).
/// Bound: k_max_sessions sessions, of each its credit (LINK-3).
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/transport/receiver_session.hpp"

namespace cohort::transport::detail {

/// The consumer end's surroundings.
class ConsumerPort {
 public:
  /// Sends a frame to the producer of session `id`. Never blocks.
  virtual IoResult send(uint64_t id, const FrameHeader& header, std::string_view payload) = 0;
  virtual void deliver(const Session& session, uint64_t seq, Message message) = 0;
  virtual void on_peer_lost(const std::string& peer, Error error) = 0;
  /// A producer was refused that was never let in: the owner of the link has lost nobody.
  virtual void on_refused(const Error&) {}
  /// For messages: the endpoint.
  virtual std::string where() const = 0;

 protected:
  ~ConsumerPort() = default;
};

class ConsumerEnd {
 public:
  /// `options`, `port` and `counters` outlive it.
  ConsumerEnd(const LinkOptions& options, ConsumerPort& port, Counters& counters);
  /// Takes a frame that came under the routing id of session `id`; nullptr: a frame that was not
  /// whole.
  void on_frame(uint64_t id, const FrameHeader* header, std::span<const std::byte> payload,
                Part body, int64_t now);
  /// LINK-2: the application's acknowledgement. `slot` tells a session from an earlier one.
  void ack(uint64_t id, uint64_t slot, uint64_t seq, int64_t now);
  /// Sends the acknowledgements that are due.
  void flush_acks(int64_t now);
  bool owes_acks() const { return !dirty_.empty(); }
  void on_timers(int64_t now);
  void say_bye();

 private:
  void on_hello(uint64_t id, uint32_t handshake, std::span<const std::byte> payload, int64_t now);
  Expected<void> check_hello(const proto::LinkHello& hello) const;
  void welcome(Session& session);
  void on_data(Session& session, const FrameHeader& header, std::span<const std::byte> payload,
               Part body, int64_t now);
  void on_ping(Session& session, const FrameHeader& header, int64_t now);
  void on_corrupt(uint64_t id, bool is_expected_frame);
  void ask_resend(Session& session);
  void turn_away(uint64_t id, const std::string& name, Error error);
  bool make_room();
  void mark_dirty(Session& session, int64_t now);
  Session* find(uint64_t id);
  IoResult send_control(uint64_t id, FrameHeader header, std::string_view payload = {});

  const LinkOptions& options_;
  ConsumerPort& port_;
  Counters& counters_;
  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions_;
  std::vector<uint64_t> dirty_;  // sessions that owe their producer an ack frame
  uint64_t next_slot_ = 1;
  int64_t next_check_ = 0, last_timers_ = 0;
};

}  // namespace cohort::transport::detail
