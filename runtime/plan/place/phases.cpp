#include "runtime/plan/place/phases.hpp"

#include <algorithm>

#include "runtime/base/text.hpp"
#include "runtime/plan/place/phases_table.hpp"

namespace cohort::plan {
namespace {

using Verb = Command::Verb;

/// Parameters come before what is computed from them, the cache comes last.
int arrival_rank(Object object) {
  // In the order of Object's values: parameters, then the optimizer, gradients, the cache.
  static constexpr std::array<int, k_objects.size()> k_ranks = {0, 2, 1, 0, 3, 0, 0, 2, 1};
  return k_ranks.at(static_cast<size_t>(object));
}

Command move_to(Place to, PhaseKind phase, const RoleSpec& role, CardId card, Object object,
                uint64_t bytes) {
  bool is_cache = object == Object::kv_cache;
  Verb verb = to == Place::card ? (is_cache ? Verb::init_cache : Verb::onload)
                                : (is_cache ? Verb::free_cache : Verb::offload);
  return {verb, phase, role.role, card, object, to, to == Place::card ? bytes : 0};
}

/// Returns true if the reference computes in a phase of its own.
bool takes_turns(const RoleSpec& role) {
  return role.has(Object::ref_params) && !role.shared_cards.empty();
}

/// Returns true if the publish to come must also fill the reference: it has never had weights.
bool is_unfilled_reference(const RoleSpec& role, const Ledger& ledger) {
  return role.has(Object::ref_params) && std::ranges::any_of(role.cards, [&](CardId card) {
           return ledger.place_of(role.role, card, Object::ref_params) == Place::absent;
         });
}

/// Appends the moves of one direction: `to_card` says which.
void add_moves(std::vector<Command>& commands, const PlacementPlan& plan, const Ledger& ledger,
               PhaseKind phase, OffloadPolicy policy, bool to_card) {
  size_t first = commands.size();
  for (const RoleSpec& role : plan.roles)
    for (const auto& [object, bytes] : role.bytes_per_card)
      for (CardId card : role.cards) {
        Place now = ledger.place_of(role.role, card, object);
        auto target = target_of(plan, policy, phase, {role, card, object, now});
        if (target && *target != now && (*target == Place::card) == to_card)
          commands.push_back(move_to(*target, phase, role, card, object, bytes));
      }
  auto begin = commands.begin() + static_cast<ptrdiff_t>(first);
  std::stable_sort(begin, commands.end(), [&](const Command& a, const Command& b) {
    int rank_a = arrival_rank(a.object), rank_b = arrival_rank(b.object);
    return to_card ? rank_a < rank_b : rank_a > rank_b;
  });
}

void add_reshards(std::vector<Command>& commands, const RoleSpec& role, Object object) {
  for (CardId card : role.cards)
    commands.push_back({Verb::reshard, PhaseKind::publish, role.role, card, object, Place::card,
                        role.bytes_per_card.at(object)});
}

/// Appends the fill of a reference that takes turns: it comes, gets its weights, and leaves its
/// shared cards before infer_params need the room.
void add_fill(std::vector<Command>& commands, const RoleSpec& role, const Ledger& ledger) {
  uint64_t bytes = role.bytes_per_card.at(Object::ref_params);
  for (CardId card : role.cards)
    if (ledger.place_of(role.role, card, Object::ref_params) != Place::card)
      commands.push_back(
          move_to(Place::card, PhaseKind::publish, role, card, Object::ref_params, bytes));
  add_reshards(commands, role, Object::ref_params);
  for (CardId card : role.shared_cards)
    commands.push_back(
        move_to(Place::host, PhaseKind::publish, role, card, Object::ref_params, bytes));
}

/// Appends what follows begin_phase in publish: arrivals, fills and reshards.
void add_publish(std::vector<Command>& commands, const PlacementPlan& plan, const Ledger& ledger,
                 OffloadPolicy policy) {
  std::vector<Command> arrivals, fills;
  add_moves(arrivals, plan, ledger, PhaseKind::publish, policy, true);
  for (const RoleSpec& role : plan.roles) {
    if (!takes_turns(role) || !is_unfilled_reference(role, ledger)) continue;
    std::erase_if(arrivals, [&](const Command& x) { return x.role == role.role; });
    add_fill(fills, role, ledger);
  }
  if (!fills.empty()) {
    auto infer = std::stable_partition(arrivals.begin(), arrivals.end(), [](const Command& x) {
      return x.object != Object::infer_params && x.object != Object::kv_cache;
    });
    arrivals.insert(infer, fills.begin(), fills.end());
  }
  commands.insert(commands.end(), arrivals.begin(), arrivals.end());
  for (const RoleSpec& role : plan.roles) {
    if (role.has(Object::infer_params)) add_reshards(commands, role, Object::infer_params);
    if (!takes_turns(role) && is_unfilled_reference(role, ledger))
      add_reshards(commands, role, Object::ref_params);
  }
}

bool has_part(const RoleSpec& role, PhaseKind phase) {
  if (phase == PhaseKind::init) return true;
  if (phase == PhaseKind::checkpoint)
    return std::ranges::any_of(role.bytes_per_card,
                               [](const auto& x) { return is_train_class(x.first); });
  return !required_objects(role, phase).empty();
}

void add_begin(std::vector<Command>& commands, const PlacementPlan& plan, const Ledger& ledger,
               PhaseKind phase) {
  for (const RoleSpec& role : plan.roles) {
    bool is_only_reference = role.has(Object::ref_params) && !role.has(Object::infer_params);
    bool takes_part = phase == PhaseKind::publish && is_only_reference
                          ? is_unfilled_reference(role, ledger)
                          : has_part(role, phase);
    if (!takes_part) continue;
    for (CardId card : role.cards)
      commands.push_back(
          {Verb::begin_phase, phase, role.role, card, Object::train_params, Place::absent, 0});
  }
}

/// Returns which weights must exist somewhere before the phase, and the phase that makes them.
struct Need {
  std::vector<Object> objects;
  PhaseKind after;
};
Need need_of(PhaseKind phase) {
  if (phase == PhaseKind::init) return {{}, PhaseKind::init};
  if (phase == PhaseKind::publish) return {{Object::train_params}, PhaseKind::init};
  if (phase == PhaseKind::reference) return {{Object::ref_params}, PhaseKind::publish};
  if (phase == PhaseKind::evaluate) return {{Object::infer_params}, PhaseKind::publish};
  if (phase == PhaseKind::generate)
    return {{Object::infer_params, Object::ref_params}, PhaseKind::publish};
  return {{Object::train_params, Object::optimizer, Object::critic_params,  // update, checkpoint
           Object::critic_optimizer},
          PhaseKind::init};
}

Expected<void> check_needs(const PlacementPlan& plan, const Ledger& ledger, PhaseKind phase) {
  if (phase == PhaseKind::reference && !plan.owner_of(Object::ref_params))
    return Error{Errc::protocol, "phases: phase reference, but no role holds ref_params"};
  Need need = need_of(phase);
  for (const RoleSpec& role : plan.roles)
    for (Object object : need.objects)
      for (CardId card : role.has(object) ? role.cards : std::vector<CardId>{})
        if (ledger.place_of(role.role, card, object) == Place::absent)
          return Error{Errc::protocol, "phases: phase " + std::string(to_string(phase)) +
                                           " needs " + role.role + "." +
                                           std::string(to_string(object)) + ", absent from card " +
                                           std::to_string(card.value) + "; phase " +
                                           std::string(to_string(need.after)) + " comes first"};
  return {};
}

/// Returns Errc::placement, beginning with `what`, unless the object is on the card and at rest.
Expected<void> check_there(const Ledger& ledger, const RoleSpec& role, CardId card, Object object,
                           const std::string& what) {
  auto found = ledger.entries().find({card, role.role, object});
  Place place = ledger.place_of(role.role, card, object);
  bool is_moving = found != ledger.entries().end() && found->second.in_flight;
  if (place == Place::card && !is_moving) return {};
  return Error{Errc::placement, what + ": " + std::string(to_string(object)) + " on card " +
                                    std::to_string(card.value) + " is " +
                                    (is_moving ? "moving" : std::string(to_string(place)))};
}

}  // namespace

Expected<std::vector<Command>> commands_for(const PlacementPlan& plan, const Ledger& ledger,
                                            PhaseKind phase, OffloadPolicy policy) {
  if (ledger.has_in_flight())
    return Error{Errc::protocol, "phases: phase " + std::string(to_string(phase)) +
                                     " is asked for while a transition is in flight"};
  COHORT_TRY(check_policy(plan, policy));
  COHORT_TRY(check_needs(plan, ledger, phase));
  std::vector<Command> commands;
  add_moves(commands, plan, ledger, phase, policy, false);
  if (phase == PhaseKind::publish) {
    add_begin(commands, plan, ledger, phase);
    add_publish(commands, plan, ledger, policy);
  } else {
    add_moves(commands, plan, ledger, phase, policy, true);
    add_begin(commands, plan, ledger, phase);
  }
  return commands;
}

Expected<void> check_policy(const PlacementPlan& plan, OffloadPolicy policy) {
  if (plan.mode != PlacementMode::timeshare || policy != OffloadPolicy::never) return {};
  for (const SharedCards& x : shared_cards_of(plan.roles))
    return Error{Errc::placement,
                 "phases: offload policy never keeps every object on its card, but " +
                     x.train_role + " and " + x.infer_role + " take turns on cards " +
                     to_text(x.cards) + "; say placement.offload=step"};
  return {};
}

std::vector<PhaseKind> step_phases(const PlacementPlan& plan) {
  std::vector<PhaseKind> phases = {PhaseKind::publish, PhaseKind::generate};
  if (std::ranges::any_of(plan.roles, takes_turns)) phases.push_back(PhaseKind::reference);
  phases.push_back(PhaseKind::update);
  return phases;
}

std::optional<Transition> transition_of(const Command& x) {
  if (x.verb == Verb::reshard || x.verb == Verb::begin_phase) return std::nullopt;
  return Transition{x.role, x.card, x.object, x.to, x.bytes};
}

std::vector<Object> required_objects(const RoleSpec& role, PhaseKind phase) {
  std::vector<Object> wanted;  // none for init, and for checkpoint, which saves from where they are
  if (phase == PhaseKind::publish)
    wanted = {Object::train_params, Object::infer_params, Object::ref_params};
  if (phase == PhaseKind::generate)
    wanted = {Object::infer_params, Object::kv_cache, Object::ref_params};
  if (phase == PhaseKind::reference) wanted = {Object::ref_params};
  if (phase == PhaseKind::update)
    wanted = {Object::train_params,  Object::grads,        Object::optimizer,
              Object::critic_params, Object::critic_grads, Object::critic_optimizer};
  if (phase == PhaseKind::evaluate) wanted = {Object::infer_params, Object::kv_cache};
  std::erase_if(wanted, [&](Object object) { return !role.has(object); });
  if (takes_turns(role) && phase != PhaseKind::reference) std::erase(wanted, Object::ref_params);
  return wanted;
}

Expected<void> check_compute(const PlacementPlan& plan, const Ledger& ledger, std::string_view name,
                             PhaseKind phase) {
  std::string what = "PLACE-4: " + std::string(name) + " may not compute in phase " +
                     std::string(to_string(phase));
  const RoleSpec* role = plan.find(name);
  if (!role) return Error{Errc::not_found, what + ": no such role"};
  if (!has_part(*role, phase))
    return Error{Errc::invalid_argument, what + ": it has no part in it"};
  if (ledger.phase() != phase)
    return Error{Errc::placement,
                 what + ": the ledger is in phase " +
                     std::string(ledger.phase() ? to_string(*ledger.phase()) : "none")};
  for (CardId card : role->cards)
    for (Object object : required_objects(*role, phase))
      COHORT_TRY(check_there(ledger, *role, card, object, what));
  return {};
}

Expected<void> check_command(const PlacementPlan& plan, const Ledger& ledger, const Command& x) {
  if (x.verb == Verb::begin_phase) {
    const RoleSpec* role = plan.find(x.role);
    bool is_free =
        x.phase == PhaseKind::publish || (role && required_objects(*role, x.phase).empty());
    return is_free ? Expected<void>{} : check_compute(plan, ledger, x.role, x.phase);
  }
  if (x.verb != Verb::reshard) return {};
  const RoleSpec* role = plan.find(x.role);
  const RoleSpec* train = plan.owner_of(Object::train_params);
  std::string what = "PLACE-4: " + to_text(x);
  if (!role || !train) return Error{Errc::not_found, what + ": no such role, or none that trains"};
  COHORT_TRY(check_there(ledger, *role, x.card, x.object, what));
  return check_compute(plan, ledger, train->role, PhaseKind::publish);
}

std::string_view to_string(Command::Verb verb) {
  return name_in({"onload", "offload", "init_cache", "free_cache", "reshard", "begin_phase"}, verb);
}

std::string to_text(const Command& x) {
  std::string where = " on card " + std::to_string(x.card.value);
  if (x.verb == Verb::begin_phase)
    return "begin_phase " + std::string(to_string(x.phase)) + " " + x.role + where;
  std::string text = std::string(to_string(x.verb)) + " " + x.role + "." +
                     std::string(to_string(x.object)) + where;
  if (x.to != Place::card) return text + " to " + std::string(to_string(x.to));
  return text + " (" + with_thousands(x.bytes) + " bytes)";
}

}  // namespace cohort::plan
