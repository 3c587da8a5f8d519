#pragma once
/// Placement as a pure machine: turns "begin phase X" into card commands, one after another, and
/// keeps the residency ledger with the bytes that cards measured. Events in, orders out; `now` [s]
/// with each event. The placement actor sends the orders; the simulator answers them itself. Not
/// thread-safe. Bound: one phase at a time; a second request is refused with backpressure. PLACE-1,
/// 2: the ledger checks each move before it is sent and after it is acknowledged. PLACE-4: a phase
/// is granted only when check_compute holds for every role in it. PLACE-5: a version is committed
/// at a card only when all cards of its role have acknowledged it with the sum that the train cards
/// formed over the bytes they sent there.
///
/// A card may be lost with its process and come back empty (docs/failure.md, docs/reshard.md). A
/// phase under way begins anew, for the cards that live, as soon as these have answered their open
/// commands; late answers of a lost card are dropped. A publish waits for a card that was just lost
/// (grace_s), and while no receiver is left at all; that wait membership ends.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/plan/membership/seats.hpp"
#include "runtime/plan/place/card_messages.hpp"
#include "runtime/plan/place/leak_watch.hpp"
#include "runtime/plan/place/ledger.hpp"
#include "runtime/plan/place/version_table.hpp"
#include "runtime/plan/run/planted.hpp"

namespace cohort::plan {

struct PhaseMachineOptions {
  PlacementPlan plan;
  OffloadPolicy policy = OffloadPolicy::step;
  double run_start = 0;  // [s] what reports count from
  /// MembershipLimits::loss_wait_s; 0: no card is ever lost.
  double loss_wait_s = 0;
  double grace_s = 0;         // MembershipLimits::grace_s
  Plant plant = Plant::none;  // reseat_takes_back, version_before_whole
};

namespace phase {

struct Send {  // to the owner of (command.role, command.card); its answer: reply() or error()
  CardCommand command;
};
struct Grant {  // to who asked with this number
  uint64_t ask = 0;
  uint64_t version = 0;  // that was asked for
  PhaseReport report;
};
struct Deny {
  uint64_t ask = 0;
  Error error;
};
struct Note {  // the log
  std::string text;
};
struct WakeAt {  // pass() is to come then
  double time = 0;
};
using Order = std::variant<Send, Grant, Deny, Note, WakeAt>;
using Orders = std::vector<Order>;

}  // namespace phase

class PhaseMachine {
 public:
  using RoleOnCard = std::pair<std::string, CardId>;
  PhaseMachine() = default;
  explicit PhaseMachine(PhaseMachineOptions options);

  /// Asks for a phase, under a number of the caller's.
  phase::Orders ask(uint64_t number, const PhaseRequest& request, double now);
  /// The answer to command `id`.
  phase::Orders reply(uint64_t id, const CardReply& reply, double now);
  /// The command `id` has failed.
  phase::Orders error(uint64_t id, const Error& error, double now);
  phase::Orders lost(const std::vector<uint32_t>& cards, bool is_away, double now);
  phase::Orders back(const std::vector<RoleOnCard>& roles, double now);
  phase::Orders pass(double now);

  const Ledger& ledger() const { return ledger_; }
  const Seats& seats() const { return seats_; }
  /// By card id, since the start; and by process, in the last phase [bytes].
  const std::map<std::string, uint64_t>& card_peak_bytes() const { return card_peak_bytes_; }
  const std::map<std::string, uint64_t>& process_bytes() const { return process_bytes_; }

 private:
  /// waiting: the phase begins when Seats::must_wait says so; cut: it begins anew once the living
  /// have answered; failed: some cards may have obeyed and others not, no later phase is trusted.
  enum class State : uint8_t { idle, waiting, running, cut, failed };
  struct Asked {
    Command command;
    PublishStage stage = PublishStage::commit;
  };
  struct Suspect {
    Command command;
    Error error;
    double until = 0;
  };
  /// What the cards of one reshard say about the version that goes to a receiver.
  struct Exchange {
    std::vector<Command> receivers;
    std::map<CardId, uint64_t> sent, got;  // sums by receiving card
  };
  using Asker = std::optional<uint64_t>;  // none: nobody has asked, a role is back in generation

  bool is_busy() const { return state_ != State::idle && state_ != State::failed; }
  void begin(Asker asker, const PhaseRequest& request);
  Expected<void> prepare();
  void again();
  void next();
  void send(const Command& command, PublishStage stage);
  void execute(const Command& command);
  Expected<std::vector<Command>> all_of_exchange() const;
  void seat_all();
  void exchange_all();
  void complete_exchange();
  void take(const Asked& asked, const CardReply& reply);
  void take_commit(const Command& command, const CardReply& reply);
  void note_memory(const Command& command, const CardReply& reply);
  void finish();
  void watch_memory();
  void fail(const Command& command, const Error& error);
  phase::Orders flush();

  PhaseMachineOptions options_;
  Ledger ledger_;
  Seats seats_;
  std::map<std::string, VersionTable> versions_;  // by receiving role
  LeakWatch leaks_;
  std::map<CardId, uint64_t> allocated_;  // by the last answer from the card
  std::map<std::string, uint64_t> card_peak_bytes_, process_bytes_;
  State state_ = State::idle;
  Asker asker_;
  std::optional<std::pair<uint64_t, PhaseRequest>> next_request_;  // asked for during a refresh
  std::map<uint64_t, Asked> asked_;  // commands on their way, by number
  uint64_t next_id_ = 1;
  std::optional<Suspect> suspect_;   // waits for the word of a loss
  uint32_t reseats_ = 0;             // in this phase, because a connection was lost and no process
  std::set<std::string> exchanged_;  // roles that have got the version of this phase
  PhaseRequest request_;
  std::vector<Command> commands_;
  size_t position_ = 0;
  Command first_;  // of the reshard commands of the receiver whose exchange is under way
  Exchange exchange_;
  double now_ = 0, phase_started_ = 0, command_started_ = 0;
  double wakes_at_ = 0;  // the WakeAt that has not come; 0: none
  PhaseReport report_;
  phase::Orders out_;
};

}  // namespace cohort::plan
