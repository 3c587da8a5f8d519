#include "tools/cohort-sim/link_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cohort::sim {

using transport::FrameHeader;
using transport::FrameKind;
using transport::Message;
using transport::detail::IoResult;
using transport::detail::Part;
using transport::detail::ProducerItem;

plan::Plant machine_plant(Plant plant) {
  constexpr auto k_last = static_cast<plan::Plant>(Plant::staleness_off_by_one);
  static_assert(k_last == plan::Plant::staleness_off_by_one, "of one order");
  return plant <= Plant::staleness_off_by_one ? static_cast<plan::Plant>(plant) : plan::Plant::none;
}

transport::LinkOptions named(const transport::LinkOptions& link, std::string name,
                             std::string service) {
  transport::LinkOptions options = link;
  options.name = std::move(name);
  options.service = std::move(service);
  return options;
}

SimSender::SimSender(Stage& stage, Process& owner, std::string service,
                     transport::LinkOptions options)
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

SimSender::~SimSender() { stage_.network.detach(session_.id()); }

Expected<uint64_t> SimSender::send(Message message, transport::Sender::OnAcked on_acked) {
  auto item = books_.admit(std::move(message), std::move(on_acked));
  if (!item) return item.error();
  stage_.audit.on_bytes("queue of a producer", books_.pending_bytes(), options_.queue_bytes);
  stage_.audit.on_sent(session_.id(), item->seq, item->message);
  uint64_t seq = item->seq;
  inbox_.push_back(std::move(*item));
  if (!std::exchange(is_pump_due_, true)) stage_.world.post(owner_, 0, [this] { pump(); });
  return seq;
}

void SimSender::pump() {
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

void SimSender::take(Frame frame) {
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

IoResult SimSender::send(const FrameHeader& header, std::string_view payload,
                         tensor::Buffer chunk) {
  if (address_ == 0) return IoResult::unreachable;
  Frame frame{session_.id(), header, std::string(payload), std::move(chunk), true};
  return stage_.network.to_consumer(owner_, address_, std::move(frame)) ? IoResult::done
                                                                        : IoResult::again;
}

// The directory is the run's, of this attempt.
void SimSender::reconnect() { address_ = stage_.network.resolve(options_.run_id + service_); }

bool SimSender::has_moved() {
  uint64_t found = stage_.network.resolve(options_.run_id + service_);
  return found != 0 && found != address_;
}

void SimSender::on_acked(std::vector<ProducerItem> done, size_t cost) {
  books_.release(cost);
  for (ProducerItem& item : done) {
    stage_.audit.on_producer_acked(session_.id(), item.seq);
    if (item.on_acked) item.on_acked(item.seq);
  }
}

void SimSender::on_outage(Error) { stage_.world.note("outage", session_.id() % 1000); }

// Both ends are honest: only a process that an earlier attempt left behind is refused.
void SimSender::on_dead(Error error) {
  if (error.detail.find("run id") == std::string::npos)
    stage_.world.violate("LINK-1", options_.name + ": the link is dead: " + error.to_string());
}

void SimDelivery::ack() {
  if (std::exchange(is_acked, true)) return;
  receiver->stage_.audit.on_consumer_acks(session, seq);
  receiver->held_[session] -= cost;
  receiver->acks_.push_back({nullptr, session, slot, seq, 0, {}, true});
  receiver->pump_soon();
}

SimReceiver::SimReceiver(Stage& stage, Process& owner, std::string service,
                         transport::LinkOptions options, std::function<void(SimTicket)> on_delivery,
                         OnPeerLost on_peer_lost)
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

SimReceiver::~SimReceiver() { stage_.network.unbind(address_); }

void SimReceiver::pump_soon() {
  if (!std::exchange(is_pump_due_, true)) stage_.world.post(owner_, 0, [this] { pump(); });
}

void SimReceiver::pump() {
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

void SimReceiver::take(Frame frame) {
  Part body(frame.chunk.size_bytes());
  if (!frame.chunk.empty())
    std::memcpy(body.mutable_bytes().data(), frame.chunk.bytes().data(), frame.chunk.size_bytes());
  end_.on_frame(frame.session, frame.is_whole ? &frame.header : nullptr,
                std::as_bytes(std::span(frame.payload)), std::move(body), stage_.world.now());
  pump();
}

IoResult SimReceiver::send(uint64_t id, const FrameHeader& header, std::string_view payload) {
  Frame frame{id, header, std::string(payload), {}, true};
  if (stage_.plant == Plant::credit_kept && header.kind == FrameKind::ack) {
    auto [first, is_new] = first_granted_.try_emplace(id, header.body_bytes);
    frame.header.body_bytes = first->second;
  }
  return stage_.network.to_producer(owner_, std::move(frame)) ? IoResult::done
                                                              : IoResult::unreachable;
}

void SimReceiver::deliver(const transport::detail::Session& session, uint64_t seq,
                          Message message) {
  stage_.world.note("delivered", session.id() % 1000, seq);
  stage_.audit.on_delivered(session.id(), life_, seq, message);
  uint64_t cost = transport::cost_of(message.header.size(), message.body.size_bytes());
  uint64_t& held = held_[session.id()];
  held += cost;
  stage_.audit.on_bytes("a producer's messages at the consumer", held, options_.credit_bytes);
  on_delivery_(std::make_shared<SimDelivery>(
      SimDelivery{this, session.id(), session.slot(), seq, cost, std::move(message), false}));
}

void SimReceiver::on_peer_lost(const std::string& peer, Error error) {
  stage_.world.note("peer lost");
  if (error.code != Errc::timeout)
    stage_.world.violate("LINK-1", fmt::format("{} was turned away: {}", peer, error.to_string()));
  if (on_peer_lost_) on_peer_lost_(peer, error);
}

}  // namespace cohort::sim
