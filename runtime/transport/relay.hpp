#pragma once
/// Relay: the middle of a path. It acknowledges a message only when the next hop has acknowledged
/// the message that went out for it (FLOW-2), so that a relay that dies loses nothing: its producer
/// still holds the message. Generic in the link, so that an actor and the simulator
/// (tools/cohort-sim) use the same: `Out` is a Sender or has its send(); `Ticket` points to an
/// object with ack(), as a shared Delivery does. Thread: one owner; ack() and `on_room` run
/// wherever Out calls its on_acked. Bound: waiting messages are not acknowledged to their
/// producers, whose credit bounds them (FLOW-4).
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::transport {

template <class Out, class Ticket>
class Relay {
 public:
  /// `on_room` is called when an acknowledgement has made room while something waits: it has the
  /// owner call flush(), in the owner's own thread. Without it the last messages would wait for
  /// one that may never come.
  explicit Relay(std::function<void()> on_room) : shared_(std::make_shared<Shared>()) {
    shared_->on_room = std::move(on_room);
  }
  /// Passes `message` on; acknowledges `ticket` when it is acknowledged. A message that does not
  /// fit the queue of `out` waits here in order. Returns out.send()'s error, but for backpressure.
  Expected<void> forward(Out& out, Message message, Ticket ticket) {
    waiting_.push_back({std::move(message), std::move(ticket)});
    auto flushed = flush(out);
    return flushed ? Expected<void>() : flushed.error();
  }
  /// Offers waiting messages again. Returns whether any is left.
  Expected<bool> flush(Out& out) {
    while (!waiting_.empty()) {
      Ticket ticket = waiting_.front().ticket;
      // Said before the try: an acknowledgement right behind it finds that something waits.
      shared_->is_waiting = true;
      auto sent = out.send(waiting_.front().message, [ticket, shared = shared_](uint64_t) {
        ticket->ack();
        if (shared->is_waiting.exchange(false)) shared->on_room();
      });
      if (!sent && sent.error().code == Errc::backpressure) return true;
      if (!sent) return sent.error();
      waiting_.pop_front();
    }
    shared_->is_waiting = false;
    return false;
  }
  size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    Message message;
    Ticket ticket;
  };
  struct Shared {
    std::function<void()> on_room;
    std::atomic<bool> is_waiting{false};
  };
  std::deque<Waiting> waiting_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace cohort::transport
