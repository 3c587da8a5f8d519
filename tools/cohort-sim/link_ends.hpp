#pragma once
/// The two ends of a link on the fake network: the real ProducerSession and ConsumerEnd, with the
/// simulator's clock and wire where the pumps have ZeroMQ. One thread; an end lives and dies with
/// its process. Bound: LINK-3.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/consumer_end.hpp"
#include "runtime/transport/producer_session.hpp"
#include "tools/cohort-sim/audit.hpp"
#include "tools/cohort-sim/sim_job.hpp"
#include "tools/cohort-sim/sim_network.hpp"

namespace cohort::sim {

using transport::FrameHeader;
using transport::FrameKind;
using transport::Message;
using transport::detail::ConsumerEnd;
using transport::detail::ConsumerPort;
using transport::detail::Counters;
using transport::detail::IoResult;
using transport::detail::Part;
using transport::detail::ProducerBooks;
using transport::detail::ProducerItem;
using transport::detail::ProducerPort;
using transport::detail::ProducerSession;
using transport::detail::Session;

/// What every part of the simulated cluster stands on.
struct Stage {
  World& world;
  Network& network;
  Audit& audit;
  Plant plant = Plant::none;
};

/// The seed's link under this name, to this service.
inline transport::LinkOptions named(transport::LinkOptions link, std::string name,
                                    std::string service) {
  link.name = std::move(name);
  link.service = std::move(service);
  return link;
}

class SimSender final : ProducerPort {
 public:
  SimSender(Stage& stage, Process& owner, std::string service, transport::LinkOptions options)
      : stage_(stage),
        owner_(owner),
        service_(std::move(service)),
        options_(std::move(options)),
        books_(options_),
        session_(stage.world.fresh_id(), options_, *this, counters_) {
    stage_.network.attach(session_.id(), owner_, [this](Frame frame) { take(std::move(frame)); });
    reconnect();
    session_.start(stage_.world.now());
    pump();
  }
  ~SimSender() { stage_.network.detach(session_.id()); }
  SimSender(const SimSender&) = delete;
  SimSender& operator=(const SimSender&) = delete;
  Expected<uint64_t> send(Message message, transport::Sender::OnAcked on_acked) {
    auto item = books_.admit(std::move(message), std::move(on_acked));
    if (!item) return item.error();
    stage_.audit.on_bytes("queue of a producer", books_.pending_bytes(), options_.queue_bytes);
    stage_.audit.on_sent(session_.id(), item->seq, item->message);
    uint64_t seq = item->seq;
    inbox_.push_back(std::move(*item));
    if (!std::exchange(is_pump_due_, true)) stage_.world.post(owner_, 0, [this] { pump(); });
    return seq;
  }

 private:
  IoResult send(const FrameHeader& header, std::string_view payload,
                tensor::Buffer chunk) override {
    if (address_ == 0) return IoResult::unreachable;
    Frame frame{session_.id(), header, std::string(payload), std::move(chunk), true};
    return stage_.network.to_consumer(owner_, address_, std::move(frame)) ? IoResult::done
                                                                          : IoResult::again;
  }
  // The directory is the run's, of this attempt.
  void reconnect() override { address_ = stage_.network.resolve(options_.run_id + service_); }
  bool is_stuck() const override { return false; }
  bool has_moved() override {
    uint64_t found = stage_.network.resolve(options_.run_id + service_);
    return found != 0 && found != address_;
  }
  std::string where() const override { return service_; }
  void on_credit(uint64_t bytes) override { books_.set_peer_credit(bytes); }
  void on_acked(std::vector<ProducerItem> done, size_t cost) override {
    books_.release(cost);
    for (ProducerItem& item : done) {
      stage_.audit.on_producer_acked(session_.id(), item.seq);
      if (item.on_acked) item.on_acked(item.seq);
    }
  }
  void on_outage(Error) override { stage_.world.note("outage", session_.id() % 1000); }
  // Both ends are honest: only a process that an earlier attempt left behind is refused.
  void on_dead(Error error) override {
    if (error.detail.find("run id") == std::string::npos)
      stage_.world.violate("LINK-1", options_.name + ": the link is dead: " + error.to_string());
  }
  void take(Frame frame) {
    if (!frame.is_whole) {
      ++counters_.corrupt;
      return;
    }
    if (stage_.plant == Plant::rewind_off_by_one && frame.header.kind == FrameKind::resend)
      ++frame.header.seq;
    if (stage_.plant == Plant::late_words_count) frame.header.type = 0;
    session_.on_frame(frame.header, std::as_bytes(std::span(frame.payload)), stage_.world.now());
    pump();
  }
  void pump() {
    is_pump_due_ = false;
    for (ProducerItem& item : inbox_) session_.push(std::move(item));
    inbox_.clear();
    while (session_.send_some()) {
    }
    int64_t now = stage_.world.now();
    session_.on_timers(now);
    // A pump that cannot send (no connection) asks again soon; else it sleeps until it is due.
    int64_t due = std::max(now + 1, session_.wants_output() ? now + 10 : session_.next_due());
    if (tick_at_ > now && tick_at_ <= due) return;
    tick_at_ = due;
    stage_.world.deliver(owner_, due, [this, due] {
      if (tick_at_ == due) pump();
    });
  }

  Stage& stage_;
  Process& owner_;
  const std::string service_;
  const transport::LinkOptions options_;
  Counters counters_;
  ProducerBooks books_;
  ProducerSession session_;
  std::vector<ProducerItem> inbox_;  // send() may come from a callback
  uint64_t address_ = 0;
  int64_t tick_at_ = 0;
  bool is_pump_due_ = false;
};

class SimReceiver;

struct SimDelivery {
  SimReceiver* receiver = nullptr;
  uint64_t session = 0, slot = 0, seq = 0, cost = 0;
  Message message;
  bool is_acked = false;
  void ack();
};
using SimTicket = std::shared_ptr<SimDelivery>;

class SimReceiver final : ConsumerPort {
 public:
  using OnPeerLost = std::function<void(const std::string& peer, const Error& error)>;
  SimReceiver(Stage& stage, Process& owner, std::string service, transport::LinkOptions options,
              std::function<void(SimTicket)> on_delivery, OnPeerLost on_peer_lost = {})
      : stage_(stage),
        owner_(owner),
        service_(std::move(service)),
        options_(std::move(options)),
        on_delivery_(std::move(on_delivery)),
        on_peer_lost_(std::move(on_peer_lost)),
        life_(stage.world.fresh_id()),
        end_(options_, *this, counters_) {
    address_ = stage_.network.bind(owner_, options_.run_id + service_,
                                   [this](Frame frame) { take(std::move(frame)); });
    pump();
  }
  ~SimReceiver() { stage_.network.unbind(address_); }
  SimReceiver(const SimReceiver&) = delete;
  SimReceiver& operator=(const SimReceiver&) = delete;

 private:
  friend struct SimDelivery;
  IoResult send(uint64_t id, const FrameHeader& header, std::string_view payload) override {
    Frame frame{id, header, std::string(payload), {}, true};
    if (stage_.plant == Plant::credit_kept && header.kind == FrameKind::ack) {
      auto [first, is_new] = first_granted_.try_emplace(id, header.body_bytes);
      frame.header.body_bytes = first->second;
    }
    return stage_.network.to_producer(owner_, std::move(frame)) ? IoResult::done
                                                                : IoResult::unreachable;
  }
  void deliver(const Session& session, uint64_t seq, Message message) override {
    stage_.world.note("delivered", session.id() % 1000, seq);
    stage_.audit.on_delivered(session.id(), life_, seq, message);
    uint64_t cost = transport::cost_of(message.header.size(), message.body.size_bytes());
    uint64_t& held = held_[session.id()];
    held += cost;
    stage_.audit.on_bytes("a producer's messages at the consumer", held, options_.credit_bytes);
    on_delivery_(std::make_shared<SimDelivery>(
        SimDelivery{this, session.id(), session.slot(), seq, cost, std::move(message), false}));
  }
  void on_peer_lost(const std::string& peer, Error error) override {
    stage_.world.note("peer lost");
    if (error.code != Errc::timeout)
      stage_.world.violate("LINK-1",
                           fmt::format("{} was turned away: {}", peer, error.to_string()));
    if (on_peer_lost_) on_peer_lost_(peer, error);
  }
  std::string where() const override { return service_; }
  void take(Frame frame) {
    Part body(frame.chunk.size_bytes());
    if (!frame.chunk.empty())
      std::memcpy(body.mutable_bytes().data(), frame.chunk.bytes().data(),
                  frame.chunk.size_bytes());
    end_.on_frame(frame.session, frame.is_whole ? &frame.header : nullptr,
                  std::as_bytes(std::span(frame.payload)), std::move(body), stage_.world.now());
    pump();
  }
  void pump() {
    is_pump_due_ = false;
    int64_t now = stage_.world.now();
    std::vector<SimDelivery> acks = std::exchange(acks_, {});
    for (const SimDelivery& ack : acks) end_.ack(ack.session, ack.slot, ack.seq, now);
    end_.flush_acks(now);
    end_.on_timers(now);
    int64_t due = now + (end_.owes_acks() ? 2 : options_.heartbeat_ms);
    if (tick_at_ > now && tick_at_ <= due) return;
    tick_at_ = due;
    stage_.world.deliver(owner_, due, [this, due] {
      if (tick_at_ == due) pump();
    });
  }
  void pump_soon() {
    if (!std::exchange(is_pump_due_, true)) stage_.world.post(owner_, 0, [this] { pump(); });
  }

  Stage& stage_;
  Process& owner_;
  const std::string service_;
  const transport::LinkOptions options_;
  const std::function<void(SimTicket)> on_delivery_;
  const OnPeerLost on_peer_lost_;
  const uint64_t life_;
  Counters counters_;
  ConsumerEnd end_;
  std::vector<SimDelivery> acks_;
  std::map<uint64_t, uint64_t> held_;           // by session: bytes without ack
  std::map<uint64_t, uint64_t> first_granted_;  // Plant::credit_kept
  uint64_t address_ = 0;
  int64_t tick_at_ = 0;
  bool is_pump_due_ = false;
};

inline void SimDelivery::ack() {
  if (std::exchange(is_acked, true)) return;
  receiver->stage_.audit.on_consumer_acks(session, seq);
  receiver->held_[session] -= cost;
  receiver->acks_.push_back({nullptr, session, slot, seq, 0, {}, true});
  receiver->pump_soon();
}

}  // namespace cohort::sim
