#pragma once
/// The two ends of a link on the fake network: the real ProducerSession and ConsumerEnd, with the
/// simulator's clock and wire where the pumps have ZeroMQ. One thread; an end lives and dies with
/// its process. Bound: LINK-3.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan/run/planted.hpp"
#include "runtime/transport/consumer_end.hpp"
#include "runtime/transport/producer_session.hpp"
#include "tools/cohort-sim/audit.hpp"
#include "tools/cohort-sim/sim_network.hpp"

namespace cohort::sim {

/// A bug put in on purpose: the first five into the machines (runtime/plan/run/planted.hpp), the
/// others into links and hops.
enum class Plant {
  none,
  dedupe_off,
  cancel_by_group,
  reseat_takes_back,
  version_before_whole,
  staleness_off_by_one,
  ack_before_record,  // the trainer acknowledges what is not on the disk yet
  credit_kept,        // a consumer never grants more than at first
  rewind_off_by_one,  // a producer goes back to one message too late
  hop_never_flushes,  // a hop that found the next queue full waits for the next frame
  wrong_door,         // a consumer takes what is meant for another one
  late_words_count,   // a producer heeds what an earlier consumer granted
};
/// Returns what the machines are told.
plan::Plant machine_plant(Plant plant);

/// What every part of the simulated cluster stands on.
struct Stage {
  World& world;
  Network& network;
  Audit& audit;
  Plant plant = Plant::none;
};

/// The seed's link under this name, to this service.
transport::LinkOptions named(const transport::LinkOptions& link, std::string name,
                             std::string service);

class SimSender final : transport::detail::ProducerPort {
 public:
  SimSender(Stage& stage, Process& owner, std::string service, transport::LinkOptions options);
  ~SimSender();
  SimSender(const SimSender&) = delete;
  SimSender& operator=(const SimSender&) = delete;
  Expected<uint64_t> send(transport::Message message, transport::Sender::OnAcked on_acked);

 private:
  transport::detail::IoResult send(const transport::FrameHeader& header, std::string_view payload,
                                   tensor::Buffer chunk) override;
  void reconnect() override;
  bool is_stuck() const override { return false; }
  bool has_moved() override;
  std::string where() const override { return service_; }
  void on_credit(uint64_t bytes) override { books_.set_peer_credit(bytes); }
  void on_acked(std::vector<transport::detail::ProducerItem> done, size_t cost) override;
  void on_outage(Error error) override;
  void on_dead(Error error) override;
  void take(Frame frame);
  void pump();

  Stage& stage_;
  Process& owner_;
  const std::string service_;
  const transport::LinkOptions options_;
  transport::detail::Counters counters_;
  transport::detail::ProducerBooks books_;
  transport::detail::ProducerSession session_;
  std::vector<transport::detail::ProducerItem> inbox_;  // send() may come from a callback
  uint64_t address_ = 0;
  int64_t tick_at_ = 0;
  bool is_pump_due_ = false;
};

class SimReceiver;

struct SimDelivery {
  SimReceiver* receiver = nullptr;
  uint64_t session = 0, slot = 0, seq = 0, cost = 0;
  transport::Message message;
  bool is_acked = false;
  void ack();
};
using SimTicket = std::shared_ptr<SimDelivery>;

class SimReceiver final : transport::detail::ConsumerPort {
 public:
  using OnPeerLost = std::function<void(const std::string& peer, const Error& error)>;
  SimReceiver(Stage& stage, Process& owner, std::string service, transport::LinkOptions options,
              std::function<void(SimTicket)> on_delivery, OnPeerLost on_peer_lost = {});
  ~SimReceiver();
  SimReceiver(const SimReceiver&) = delete;
  SimReceiver& operator=(const SimReceiver&) = delete;

 private:
  friend struct SimDelivery;
  transport::detail::IoResult send(uint64_t id, const transport::FrameHeader& header,
                                   std::string_view payload) override;
  void deliver(const transport::detail::Session& session, uint64_t seq,
               transport::Message message) override;
  void on_peer_lost(const std::string& peer, Error error) override;
  std::string where() const override { return service_; }
  void take(Frame frame);
  void pump();
  void pump_soon();

  Stage& stage_;
  Process& owner_;
  const std::string service_;
  const transport::LinkOptions options_;
  const std::function<void(SimTicket)> on_delivery_;
  const OnPeerLost on_peer_lost_;
  const uint64_t life_;
  transport::detail::Counters counters_;
  transport::detail::ConsumerEnd end_;
  std::vector<SimDelivery> acks_;
  std::map<uint64_t, uint64_t> held_;           // by session: bytes without ack
  std::map<uint64_t, uint64_t> first_granted_;  // Plant::credit_kept
  uint64_t address_ = 0;
  int64_t tick_at_ = 0;
  bool is_pump_due_ = false;
};

}  // namespace cohort::sim
