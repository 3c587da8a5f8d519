#pragma once
/// The consumer's pump: one thread that owns the ROUTER socket and runs a ConsumerEnd. Internal to
/// runtime/transport.
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/transport/consumer_end.hpp"

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

class ReceiverPump final : ConsumerPort {
 public:
  ReceiverPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
               Receiver::OnDelivery on_delivery, Receiver::OnPeerLost on_peer_lost);
  ~ReceiverPump();
  Expected<void> start();
  std::string endpoint() const { return endpoint_; }
  LinkStats stats() const { return counters_.read(); }

 private:
  // ConsumerPort
  IoResult send(uint64_t id, const FrameHeader& header, std::string_view payload) override;
  void deliver(const Session& session, uint64_t seq, Message message) override;
  void on_peer_lost(const std::string& peer, Error error) override;
  void on_refused(const Error& error) override;
  std::string where() const override { return endpoint_; }

  void run();
  void sleep();
  bool receive_some();
  bool receive_frame();
  void apply_acks();

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
  ConsumerEnd end_;
  std::vector<AckInbox::Ack> taken_;
  int64_t now_ = 0;

  std::thread thread_;
};

}  // namespace cohort::transport::detail
