#pragma once
/// The wire of a publish, simulated: seats by epoch, as in actors/roles/weight_exchange.cpp. A
/// version moves when every card of its epoch has entered; receivers have all of it at different
/// times. A member that dies ends it for the others, a cut that lasts too long too. One thread.
/// Bound: the seats of two epochs.
#include <cstdint>
#include <functional>
#include <map>
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
  Expected<void> sit(uint32_t card, Process& process, uint64_t epoch, std::vector<uint32_t> cards);
  bool is_seated(uint32_t card, uint64_t epoch) const;
  /// Returns the group of a card that sits.
  const std::vector<uint32_t>& cards_of(uint32_t card) const { return seats_.at(card).cards; }
  /// The card sends (`parameters`) or receives (0) the version. Ends once, in its process.
  void enter(uint32_t card, uint64_t version, uint64_t parameters, OnEnd on_end);
  /// A process has ended.
  void forget(const Process& process);

 private:
  struct Seat {
    Process* process = nullptr;
    uint64_t life = 0, epoch = 0;
    std::vector<uint32_t> cards;                       // of its group
    uint64_t version = 0, parameters = 0, serial = 0;  // entered; serial 0: in none
    bool is_moving = false;
    OnEnd on_end;
  };
  void start(uint64_t epoch, uint64_t version);
  void arrive(uint32_t card, uint64_t serial, uint32_t source, uint64_t parameters);
  void end(uint32_t card, Expected<uint64_t> result);
  void watch(uint32_t card, uint64_t serial);

  Stage& stage_;
  std::map<uint32_t, Seat> seats_;  // by card
  uint64_t serials_ = 0;
};

}  // namespace cohort::sim
