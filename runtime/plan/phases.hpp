#pragma once
/// Phases to commands: what placement sends so that the cards hold what a phase needs. Pure.
///
/// commands_for compares the ledger with the phase's target and orders the difference: what leaves
/// a card first, then what comes (parameters before caches), so that PLACE-1 and PLACE-2 hold after
/// every command. Asked again after all of them, it gives no moves. A command that fails ends the
/// run: the ledger does not know which reshard was cut short.
///
/// Separate mode, offload policy `step` (ROLL's default), "-" means stays where it is:
///   phase      train_params grads  optimizer  infer_params kv_cache ref_params
///   init       host         absent host       -            -        -
///   publish    card         -      -          card         absent   card  (then reshard)
///   generate   host         absent host       card         card     card
///   reference  host         absent host       -            absent   card
///   update     card         card   card       -            absent   -
///   evaluate   host         absent host       card         card     -
///   checkpoint -            -      -          -            absent   -
/// critic_* moves as train_*, but needs no card in publish. Policy `never`: train objects go to
/// their cards in init, infer objects in the first phase that needs them, and nothing leaves.
/// PLACE-4: no compute command goes to a role whose objects are not all on its cards
/// (check_compute).
///
/// To execute a list, in order: a move is ledger.begin, message, acknowledgement, ledger.commit;
/// begin_phase is ledger.begin_phase, then check_compute (not in publish), then the message;
/// reshard is check_compute of its role and of the train role, then the message.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/ledger.hpp"
#include "runtime/plan/placement.hpp"
#include "runtime/plan/residency.hpp"

namespace cohort::plan {

enum class OffloadPolicy : uint8_t { never = 0, step = 1 };

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
/// lets both parameter sets share a card. Returns Errc::protocol if a transition is in flight, or
/// if the phase needs weights that are absent: publish, update and checkpoint need init before
/// them, generate, reference and evaluate need publish.
Expected<std::vector<Command>> commands_for(const PlacementPlan& plan, const Ledger& ledger,
                                            PhaseKind phase, OffloadPolicy policy);

/// Returns the ledger transition of a command that moves an object; none for reshard and
/// begin_phase.
std::optional<Transition> transition_of(const Command& command);

/// Returns the objects that `role` needs on its cards to compute in `phase`: empty if it has no
/// part in it, and for init and checkpoint, which work from the host as well.
std::vector<Object> required_objects(const RoleSpec& role, PhaseKind phase);

/// PLACE-4. Returns Errc::placement, naming role, phase, card and object, if something is not on
/// its card or is in flight, or if the ledger is in another phase; Errc::not_found for an unknown
/// role; Errc::invalid_argument if the role has no part in the phase.
Expected<void> check_compute(const PlacementPlan& plan, const Ledger& ledger, std::string_view role,
                             PhaseKind phase);

std::string_view to_string(OffloadPolicy policy);
std::string_view to_string(Command::Verb verb);
/// Returns one line, e.g. "onload actor_train.optimizer on card 0 (807,424 bytes)".
std::string to_text(const Command& command);

}  // namespace cohort::plan
