#pragma once
/// Phases to commands: what placement sends so that the cards hold what a phase needs. Pure.
///
/// commands_for compares the ledger with the phase's target and orders the difference: what leaves
/// a card first, then what comes (parameters before caches), so that PLACE-1 and PLACE-2 hold after
/// every command. Asked again after all of them, it gives no moves. A command that fails ends the
/// run: the ledger does not know which reshard was cut short.
///
/// The tables of what goes where are in phases_table.hpp.
/// PLACE-4: no compute command goes to a role whose objects are not all on its cards
/// (check_compute).
///
/// To execute a list, in order: a move is ledger.begin, message, acknowledgement, ledger.commit;
/// begin_phase is ledger.begin_phase, then check_command, then the message; reshard is
/// check_command, then the message.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/place/ledger.hpp"
#include "runtime/plan/place/placement.hpp"
#include "runtime/plan/place/residency.hpp"

namespace cohort::plan {

struct Command {
  enum class Verb : uint8_t {
    onload = 0,
    offload = 1,  // to host, or to absent for grads: their values are not needed again
    init_cache = 2,
    free_cache = 3,
    reshard = 4,      // the object's weights on this card come from actor_train's train_params
    begin_phase = 5,  // every object of the role's part in the phase is in place: compute may start
  };
  Verb verb = Verb::onload;
  PhaseKind phase = PhaseKind::init;
  std::string role;
  CardId card;
  Object object = Object::train_params;  // without meaning for begin_phase
  Place to = Place::absent;  // where the object is afterwards; without meaning for begin_phase
  uint64_t bytes = 0;        // on the card afterwards; of the weights for reshard
  bool operator==(const Command&) const = default;
};

/// Returns the commands that lead from the ledger's state into `phase`: moves, then in publish the
/// reshard of actor_infer (and of a reference that has no weights yet), and one begin_phase per
/// card of each role that computes in it (of every role in init). In publish begin_phase stands
/// before the moves onto infer cards and the reshards, because it opens the window in which PLACE-3
/// lets both parameter sets share a card; a reference that takes turns is filled and offloaded
/// before infer_params arrive. Returns Errc::protocol if a transition is in flight, or if the phase
/// needs weights that are absent: publish, update and checkpoint need init before them, generate,
/// reference and evaluate need publish. Returns what check_policy returns.
Expected<std::vector<Command>> commands_for(const PlacementPlan& plan, const Ledger& ledger,
                                            PhaseKind phase, OffloadPolicy policy);

/// Returns Errc::placement for policy `never` where roles take turns on a card (names both and the
/// cards).
Expected<void> check_policy(const PlacementPlan& plan, OffloadPolicy policy);

/// Returns the phases of one step, in order: publish, generate, reference if it has a turn of its
/// own, update. Advantages come between reference and update and move nothing.
std::vector<PhaseKind> step_phases(const PlacementPlan& plan);

/// Returns the ledger transition of a command that moves an object; none for reshard and
/// begin_phase.
std::optional<Transition> transition_of(const Command& command);

/// Returns the objects that `role` needs on its cards to compute in `phase`: empty if it has no
/// part in it, and for init and checkpoint, which work from the host as well. A reference with
/// shared cards computes in phase reference, any other beside generation.
std::vector<Object> required_objects(const RoleSpec& role, PhaseKind phase);

/// PLACE-4. Returns Errc::placement, naming role, phase, card and object, if something is not on
/// its card or is in flight, or if the ledger is in another phase; Errc::not_found for an unknown
/// role; Errc::invalid_argument if the role has no part in the phase.
Expected<void> check_compute(const PlacementPlan& plan, const Ledger& ledger, std::string_view role,
                             PhaseKind phase);

/// PLACE-4 for one command, asked right before its message is sent: begin_phase as check_compute
/// (nothing in publish, whose objects come after it); reshard needs its object on its card and the
/// train role ready to publish. Moves are the ledger's matter and always pass.
Expected<void> check_command(const PlacementPlan& plan, const Ledger& ledger,
                             const Command& command);

std::string_view to_string(Command::Verb verb);
/// Returns one line, e.g. "onload actor_train.optimizer on card 0 (807,424 bytes)".
std::string to_text(const Command& command);

}  // namespace cohort::plan
