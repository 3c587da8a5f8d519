#pragma once
/// Where each residency object belongs in each phase. Pure; phases.hpp turns it into commands.
///
/// Cards of one class (every card in separate mode), offload policy `step` (ROLL's default), "-"
/// means stays where it is:
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
///
/// Shared cards (timeshare), where the classes take turns as in the A3 recipe: reshard while
/// train_params are there, then they and the optimizer leave, then the cache comes:
///   phase      train_params grads  optimizer, infer_params kv_cache ref_params
///                                  critic_*
///   init       host         absent host       -            -        -
///   publish    card         absent * or host  card         absent   host  (card while filled)
///   generate   host         absent host       card         card     host
///   reference  host         absent host       host         absent   card
///   update     card         card   card       host         absent   host
///   evaluate   host         absent host       card         card     host
///   checkpoint host         -      -          -            absent   -
/// tests/unit/plan_phases_table_test.cpp reads both tables.
/// kv_cache with CacheArrival::early: card in publish too, after infer_params.
/// "*": stays through the reshard if the card has room for it beside both parameter sets, else it
/// leaves before infer_params come (a swapped optimizer's window always leaves). In checkpoint
/// train_params leave because infer_params may be there, and PLACE-3 lets them meet only in
/// publish. Infer-class objects without weights yet (absent) are not sent to the host.
/// ref_params of a role that has_own_weights: host in init, as train_params; publish never fills
/// them.
#include <optional>
#include <vector>

#include "runtime/plan/place/placement.hpp"
#include "runtime/plan/place/residency.hpp"

namespace cohort::plan {

/// One object of one role on one card, and where it is now.
struct ObjectState {
  const RoleSpec& role;
  CardId card;
  Object object = Object::train_params;
  Place now = Place::absent;
};

/// Returns where the object goes in `phase`; none: it stays.
std::optional<Place> target_of(const PlacementPlan& plan, OffloadPolicy policy, PhaseKind phase,
                               const ObjectState& state);

/// Returns what the card holds at the fullest moment of publish, generate, reference or update
/// under policy `step`, objects that stay from earlier phases included; nothing for other phases,
/// which never hold more than these. Of a shared card in publish it is the larger of two moments:
/// the reference being filled, or the reshard of infer_params.
std::vector<HeldObject> held_in(const PlacementPlan& plan, CardId card, PhaseKind phase);

}  // namespace cohort::plan
