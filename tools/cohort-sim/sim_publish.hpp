#pragma once
/// The wire of a publish, simulated: seats by epoch, as in actors/roles/weight_exchange.cpp. A
/// version moves when every card of its epoch has entered; receivers have all of it at different
/// times. A member that dies ends it for the others, a cut that lasts too long too. One thread.
/// Bound: the seats of two epochs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "tools/cohort-sim/link_ends.hpp"

namespace cohort::sim {

class PublishWire {
 public:
  /// Gets the parameters that have arrived.
  using OnEnd = std::function<void(Expected<uint64_t>)>;
  static constexpr int64_t k_timeout_ms = 4000;  // without a move

  explicit PublishWire(Stage& stage) : stage_(stage) {}

  /// `card` of `process` sits in the group of `epoch`, which is `cards`. Errc::protocol while it is
  /// in a version, or for an epoch before its own.
  Expected<void> sit(uint32_t card, Process& process, uint64_t epoch, std::vector<uint32_t> cards) {
    Seat& seat = seats_[card];
    const bool is_same = seat.process == &process && seat.life == process.life;
    if (is_same && epoch == seat.epoch) return {};
    if (is_same && (epoch < seat.epoch || seat.serial != 0))
      return Error{Errc::protocol,
                   fmt::format("seat of card {}: epoch {} is asked for in epoch {}{}", card, epoch,
                               seat.epoch, seat.serial != 0 ? ", while a version moves" : "")};
    seat = {&process, process.life, epoch, std::move(cards), 0, 0, 0, false, {}};
    return {};
  }
  bool is_seated(uint32_t card, uint64_t epoch) const {
    auto seat = seats_.find(card);
    return seat != seats_.end() && seat->second.epoch == epoch &&
           seat->second.life == seat->second.process->life;
  }
  /// Returns the group of a card that sits.
  const std::vector<uint32_t>& cards_of(uint32_t card) const { return seats_.at(card).cards; }
  /// The card sends (`parameters`) or receives (0) the version. Ends once, in its process.
  void enter(uint32_t card, uint64_t version, uint64_t parameters, OnEnd on_end) {
    auto found = seats_.find(card);
    if (found == seats_.end() || found->second.life != found->second.process->life)
      return on_end(Error{Errc::closed, fmt::format("card {} has no seat", card)});
    Seat& seat = found->second;
    if (seat.serial != 0)
      return on_end(Error{Errc::protocol, fmt::format("card {} is in version {}", card, version)});
    seat.version = version;
    seat.parameters = parameters;
    seat.serial = ++serials_;
    seat.is_moving = false;
    seat.on_end = std::move(on_end);
    watch(card, seat.serial);
    start(seat.epoch, version);
  }
  /// A process has ended.
  void forget(const Process& process) {
    std::map<uint64_t, bool> epochs;
    for (auto& [card, seat] : seats_)
      if (seat.process == &process && seat.life != 0) {
        epochs[seat.epoch] = true;
        seat.serial = 0;
        seat.on_end = {};
      }
    for (auto& [card, seat] : seats_)
      if (seat.process != &process && seat.serial != 0 && epochs.contains(seat.epoch))
        end(card, Error{Errc::closed, "a peer has ended"});
  }

 private:
  struct Seat {
    Process* process = nullptr;
    uint64_t life = 0, epoch = 0;
    std::vector<uint32_t> cards;                       // of its group
    uint64_t version = 0, parameters = 0, serial = 0;  // entered; serial 0: in none
    bool is_moving = false;
    OnEnd on_end;
  };
  // Nobody sends before all have entered: each must know where to write.
  void start(uint64_t epoch, uint64_t version) {
    std::vector<uint32_t> receivers;
    uint32_t source = 0;
    uint64_t parameters = 0;
    for (const auto& [card, seat] : seats_) {
      if (seat.epoch != epoch || seat.life != seat.process->life) continue;
      for (uint32_t other : seat.cards)
        if (!is_seated(other, epoch)) return;
      if (seat.serial == 0 || seat.version != version || seat.is_moving) return;
      if (seat.parameters == 0) {
        receivers.push_back(card);
        continue;
      }
      source = card;
      parameters = seat.parameters;
    }
    if (parameters == 0 || receivers.empty()) return;
    seats_.at(source).is_moving = true;
    for (uint32_t card : receivers) {
      Seat& seat = seats_.at(card);
      seat.is_moving = true;
      stage_.world.post(*seat.process, stage_.world.pick(1, 60),
                        [this, card, serial = seat.serial, source, parameters] {
                          arrive(card, serial, source, parameters);
                        });
    }
  }
  void arrive(uint32_t card, uint64_t serial, uint32_t source, uint64_t parameters) {
    Seat& seat = seats_.at(card);
    if (seat.serial != serial) return;  // it has ended with an error
    Seat& from = seats_.at(source);
    if (stage_.network.is_cut(*seat.process, *from.process) ||
        from.process->stopped_until > stage_.world.now())
      return stage_.world.post(*seat.process, 20, [this, card, serial, source, parameters] {
        arrive(card, serial, source, parameters);
      });
    const uint64_t epoch = seat.epoch;
    end(card, parameters);
    for (const auto& [other, each] : seats_)
      if (other != source && each.epoch == epoch && each.serial != 0) return;
    if (from.epoch == epoch && from.serial != 0) end(source, parameters);
  }
  void end(uint32_t card, Expected<uint64_t> result) {
    Seat& seat = seats_.at(card);
    seat.serial = 0;
    seat.is_moving = false;
    stage_.world.post(
        *seat.process, 0,
        [on_end = std::exchange(seat.on_end, {}), result = std::move(result)] { on_end(result); });
  }
  void watch(uint32_t card, uint64_t serial) {
    stage_.world.deliver(*seats_.at(card).process, stage_.world.now() + k_timeout_ms,
                         [this, card, serial] {
                           if (seats_.at(card).serial != serial) return;
                           stage_.world.note("publish times out", card);
                           end(card, Error{Errc::timeout, "no move"});
                         });
  }

  Stage& stage_;
  std::map<uint32_t, Seat> seats_;  // by card
  uint64_t serials_ = 0;
};

}  // namespace cohort::sim
