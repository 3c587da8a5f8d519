#pragma once
/// Placement: turns "begin phase X" into card commands, sends them one after another to the actors
/// that own the objects, and keeps the residency ledger with the bytes they measured. Policy is in
/// runtime/plan (pure). Owner: node. Thread: CAF's scheduler. Bound: one phase at a time, later
/// requests are refused with backpressure. PLACE-1, 2: the ledger checks each move before it is
/// sent and after it is acknowledged. PLACE-4: a phase is granted only when check_compute holds for
/// every role in it. PLACE-5: a version is committed at a card only when all cards of its role have
/// acknowledged it with the sum that the train cards formed over what they sent there.
///
/// A card may be lost with its process and come back empty (lost, back: from the node). The ledger
/// forgets what it held. A phase under way begins anew, for the cards that live, as soon as these
/// have answered what they were asked; what a lost card still says is not heard. Until it is back a
/// card has no part in any phase; then the next publish brings it up and serves it. A publish goes
/// to the cards that are there: its seats open again under a higher epoch, without the others
/// (RESHARD-5). It waits for a card that was just lost (restart_grace_ms), and while no receiver is
/// left at all; that wait the node ends. A reference is back with its weights on the host, and has
/// its part in generation at once.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/role_handles.hpp"
#include "actors/roles/rollout_actor.hpp"
#include "runtime/plan/place/leak_watch.hpp"
#include "runtime/plan/place/ledger.hpp"
#include "runtime/plan/place/phases.hpp"
#include "runtime/plan/place/version_table.hpp"

namespace cohort::actors {

struct PlacementOptions {
  plan::PlacementPlan plan;
  plan::OffloadPolicy policy = plan::OffloadPolicy::step;
  /// Who executes commands for (role, card).
  std::map<std::pair<std::string, CardId>, CardActor> owners;
  RecorderActor recorder;
  double run_start = 0;  // now_seconds() at the start of the run
  /// How long an error that the loss of a card would explain waits for the word of it; 0: no card
  /// is ever lost.
  int loss_wait_ms = 0;
  /// How long a publish waits for a card after its loss: its process may be started again.
  int restart_grace_ms = 0;
  int command_timeout_ms = 3600000;
};

class PlacementState {
 public:
  static inline const char* name = "placement";
  explicit PlacementState(PlacementActor::pointer self) : self_(self) {}
  void open(PlacementOptions options);
  caf::result<control::PhaseReport> on_phase(const control::PhaseRequest& request);
  void on_lost(const control::CardsLost& lost);
  void on_back(const control::CardsBack& back);
  void on_watch(uint64_t timer);

 private:
  bool must_wait() const;
  void forget(CardId card);
  std::vector<uint32_t> absent_of(const std::string& role) const;
  Expected<void> begin(const control::PhaseRequest& request);
  void refresh();
  Expected<void> prepare();
  void again();
  void on_error(const plan::Command& command, const Error& error);
  void next();
  void execute(const plan::Command& command);
  void on_reply(const plan::Command& command, const control::CardReply& reply);
  Expected<void> apply(const plan::Command& command, const control::CardReply& reply);
  /// What the cards of one reshard say about the version that goes to `receiver`.
  struct Exchange {
    plan::Command first;  // of the reshard commands of this receiver
    std::vector<plan::Command> receivers;
    std::map<CardId, uint64_t> sent, got;  // sums by receiving card
    size_t missing = 0;
  };
  Expected<std::vector<plan::Command>> all_of_exchange(const plan::Command& first) const;
  void seat(const plan::Command& first);
  void exchange(const plan::Command& first);
  void on_exchanged(const std::shared_ptr<Exchange>& exchange, const plan::Command& command,
                    const control::CardReply& reply);
  void complete(const Exchange& exchange);
  void note_memory(const plan::Command& command, const control::CardReply& reply);
  void finish();
  void watch_memory();
  void fail(const plan::Command& command, const Error& error);
  void send(const plan::Command& command, control::PublishStage stage, const std::string& receiver,
            std::function<void(const control::CardReply&)> then);

  PlacementActor::pointer self_;
  PlacementOptions options_;
  plan::Ledger ledger_;
  std::map<std::string, plan::VersionTable> versions_;  // by receiving role
  plan::LeakWatch leaks_;
  std::map<CardId, uint64_t> allocated_;             // by the last answer from the card
  std::map<std::string, uint64_t> card_peak_bytes_;  // by card id, since the start
  std::map<std::string, uint64_t> process_bytes_;    // likewise, in this phase
  bool is_busy_ = false;
  bool is_failed_ = false;
  plan::PlacementPlan living_;          // the plan without cards that have no part in this phase
  std::set<CardId> lost_;               // not back yet
  std::map<CardId, uint64_t> awaited_;  // of these, by a publish, until this timer ends
  plan::RolesOfCards fresh_;            // back; the next publish brings them up
  std::map<uint64_t, CardId> asked_;    // commands on their way, by number
  uint64_t epoch_ = 0;                  // rises with every loss and return
  uint64_t living_epoch_ = 0;           // of living_
  std::map<std::string, uint64_t> seated_;  // epoch of the seats, by receiving role
  bool is_waiting_ = false;                 // the phase begins when must_wait() says so
  bool is_refreshing_ = false;  // the present phase, for a role that is back; nobody has asked
  /// What the driver asks for meanwhile.
  std::optional<std::pair<control::PhaseRequest, caf::typed_response_promise<control::PhaseReport>>>
      next_request_;
  bool is_cut_ = false;  // the phase begins anew once the living have answered
  std::optional<std::pair<plan::Command, Error>> suspect_;  // waits for the word of a loss
  uint64_t suspicion_ = 0;                                  // its timer
  uint32_t reseats_ = 0;             // in this phase, because a connection was lost and no process
  uint64_t timers_ = 0;              // so far
  std::set<std::string> exchanged_;  // roles that have got the version of this phase
  uint64_t next_id_ = 1;
  double phase_started_ = 0;
  double command_started_ = 0;
  control::PhaseRequest request_;
  std::vector<plan::Command> commands_;
  size_t position_ = 0;
  control::PhaseReport report_;
  caf::typed_response_promise<control::PhaseReport> promise_;
};

PlacementActor::behavior_type placement(PlacementActor::stateful_pointer<PlacementState> self,
                                        PlacementOptions options);

}  // namespace cohort::actors
