#pragma once
/// The consumer's pump: one thread that owns the ROUTER socket. Internal to runtime/transport.
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/transport/link.hpp"
#include "runtime/transport/receiver_session.hpp"
#include "runtime/transport/socket.hpp"

namespace cohort::transport::detail {

/// Where acknowledgements wait for the pump; outlives it while Deliveries are about. Thread-safe.
struct AckInbox {
  struct Ack {
    uint64_t session = 0, slot = 0, seq = 0;
  };
  std::mutex mutex;
  std::vector<Ack> acks;
  bool is_closed = false;
  Wake wake;
  void push(Ack ack);
};

/// Shared by the copies of one Delivery.
class AckHandle {
 public:
  AckHandle(std::shared_ptr<AckInbox> inbox, AckInbox::Ack ack)
      : inbox_(std::move(inbox)), ack_(ack) {}
  void ack();

 private:
  std::shared_ptr<AckInbox> inbox_;
  AckInbox::Ack ack_;
  std::atomic<bool> is_done_{false};
};

class ReceiverPump {
 public:
  ReceiverPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
               Receiver::OnDelivery on_delivery, Receiver::OnPeerLost on_peer_lost);
  ~ReceiverPump();
  Expected<void> start();
  std::string endpoint() const { return endpoint_; }
  LinkStats stats() const;

 private:
  struct Counters {
    std::atomic<uint64_t> messages{0}, bytes{0}, chunks{0}, resent{0}, acks{0}, corrupt{0}, gaps{0},
        reconnects{0}, rejected{0};
  };

  void run();
  void sleep();
  bool receive_some();
  bool receive_frame();
  void on_frame(uint64_t id, const FrameHeader& header, std::span<const std::byte> payload,
                Part body);
  void on_hello(uint64_t id, std::span<const std::byte> payload);
  Expected<void> check_hello(const proto::LinkHello& hello) const;
  void welcome(Session& session);
  void on_data(Session& session, const FrameHeader& header, std::span<const std::byte> payload,
               Part body);
  void on_ping(Session& session, const FrameHeader& header);
  void on_corrupt(uint64_t id, bool is_expected_frame);
  void ask_resend(Session& session);
  void turn_away(uint64_t id, const std::string& name, Error error);
  bool make_room();
  void apply_acks();
  void mark_dirty(Session& session);
  void flush_acks();
  void on_timers(int64_t now);
  Session* find(uint64_t id);
  IoResult send_control(uint64_t id, FrameHeader header, std::string_view payload = {});

  const std::shared_ptr<Context::Handle> context_;
  const LinkOptions options_;
  const Receiver::OnDelivery on_delivery_;
  const Receiver::OnPeerLost on_peer_lost_;
  const std::shared_ptr<AckInbox> inbox_ = std::make_shared<AckInbox>();
  std::string endpoint_;
  std::atomic<bool> is_stopping_{false};
  Counters counters_;

  // pump only
  Socket socket_;
  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions_;
  std::vector<uint64_t> dirty_;  // sessions that owe their producer an ack frame
  std::vector<AckInbox::Ack> taken_;
  uint64_t next_slot_ = 1;
  int64_t now_ = 0;
  int64_t next_check_ = 0;

  std::thread thread_;
};

}  // namespace cohort::transport::detail
