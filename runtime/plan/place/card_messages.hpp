#pragma once
/// What placement says to the actors that own cards, and the driver to placement: plain values, so
/// that the simulator says the same. On the wire: runtime/control/messages.hpp.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/place/phases.hpp"

namespace cohort::plan {

/// A reshard in two steps: every card of both layouts moves the version; when all have it, the
/// receiving ones serve it (PLACE-5). Before them, where one of the cards was lost and is back:
/// every card that is there opens a new seat, because a group that has lost a member is of no more
/// use.
enum class PublishStage : uint8_t { exchange = 0, commit = 1, seat = 2 };

/// Placement → the actor that owns the objects of one role: change what a card holds.
/// Idempotent by `id`: a repeated command answers with the state it finds.
struct CardCommand {
  uint64_t id = 0;  // rises by one per command of a run
  Command command;
  // of a reshard, else unused
  uint64_t version = 0;  // of the policy
  PublishStage stage = PublishStage::exchange;
  std::string receiver;  // role that the version goes to
  uint64_t epoch = 0;    // of the seats; rises whenever a card was lost or has come back
  std::vector<uint32_t> absent = {};  // seat: the receiver's cards that have no part in it
};

/// Answer to a CardCommand: the card's bytes, measured.
struct CardReply {
  uint64_t id = 0;
  uint64_t bytes_on_card = 0;  // bytes of this object on the card after the command
  uint64_t bytes_moved = 0;
  double seconds = 0;
  uint64_t version = 0;
  uint64_t checksum = 0;         // exchange, of a receiver: the sum over the received bytes
  uint64_t card_bytes = 0;       // given out by the card's allocator after the command, to whomever
  uint64_t card_peak_bytes = 0;  // the most it had given out at once, since the start
  std::string process = {};      // where the card is, e.g. "process 4711"
  uint64_t process_bytes = 0;    // anonymous memory of that process
  /// Exchange, of a train card: the sum over the bytes sent to each receiving card.
  std::vector<std::pair<uint32_t, uint64_t>> sent = {};
};

/// Driver → placement: bring every card into the state that `kind` needs.
struct PhaseRequest {
  uint64_t step = 0;
  PhaseKind kind = PhaseKind::init;
  uint64_t version = 0;  // publish: the version to publish
};

/// One acknowledged command of a phase.
struct DoneCommand {
  Command command;
  uint64_t bytes_on_card = 0;
  uint64_t bytes_moved = 0;
  double start_seconds = 0;  // since the start of the run
  double seconds = 0;
};

struct PhaseReport {
  uint64_t step = 0;
  PhaseKind kind = PhaseKind::init;
  double seconds = 0;
  std::vector<DoneCommand> transitions;
  std::vector<std::pair<uint32_t, uint64_t>> bytes_per_card;  // after the phase has begun
  std::vector<std::string> alarms = {};  // memory that was not given back (LEAK-1, LEAK-2)
};

}  // namespace cohort::plan
