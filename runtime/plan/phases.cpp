#include "runtime/plan/phases.hpp"

#include <algorithm>

namespace cohort::plan {
namespace {

using Verb = Command::Verb;

/// Where the head table sends train-class objects under policy `step`; none = stays.
std::optional<Place> train_target(PhaseKind phase, Object object) {
  bool is_grads = object == Object::grads || object == Object::critic_grads;
  switch (phase) {
    case PhaseKind::init:
    case PhaseKind::generate:
    case PhaseKind::reference:
    case PhaseKind::evaluate:
      return is_grads ? Place::absent : Place::host;
    case PhaseKind::publish:
      return object == Object::train_params ? std::optional{Place::card} : std::nullopt;
    case PhaseKind::update:
      return Place::card;
    case PhaseKind::checkpoint:
      return std::nullopt;
  }
  return std::nullopt;
}

/// The same for infer-class objects.
std::optional<Place> infer_target(PhaseKind phase, Object object) {
  bool generates = phase == PhaseKind::generate || phase == PhaseKind::evaluate;
  if (phase == PhaseKind::init) return std::nullopt;
  switch (object) {
    case Object::kv_cache:
      return generates ? Place::card : Place::absent;
    case Object::infer_params:
      return generates || phase == PhaseKind::publish ? std::optional{Place::card} : std::nullopt;
    case Object::ref_params:
      return phase == PhaseKind::publish || phase == PhaseKind::generate ||
                     phase == PhaseKind::reference
                 ? std::optional{Place::card}
                 : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Place> target_of(OffloadPolicy policy, PhaseKind phase, Object object) {
  if (policy == OffloadPolicy::never && phase == PhaseKind::init)
    return is_train_class(object) ? std::optional{Place::card} : std::nullopt;
  auto target = is_train_class(object) ? train_target(phase, object) : infer_target(phase, object);
  if (policy == OffloadPolicy::never && target != Place::card) return std::nullopt;
  return target;
}

/// Parameters come before what is computed from them, the cache comes last.
int arrival_rank(Object object) {
  switch (object) {
    case Object::train_params:
    case Object::infer_params:
    case Object::ref_params:
    case Object::critic_params:
      return 0;
    case Object::optimizer:
    case Object::critic_optimizer:
      return 1;
    case Object::grads:
    case Object::critic_grads:
      return 2;
    case Object::kv_cache:
      return 3;
  }
  return 4;
}

Command move_to(Place to, PhaseKind phase, const RoleSpec& role, CardId card, Object object,
                uint64_t bytes) {
  bool is_cache = object == Object::kv_cache;
  Verb verb = to == Place::card ? (is_cache ? Verb::init_cache : Verb::onload)
                                : (is_cache ? Verb::free_cache : Verb::offload);
  return {verb, phase, role.role, card, object, to, to == Place::card ? bytes : 0};
}

/// Appends the moves of one direction: `to_card` says which.
void add_moves(std::vector<Command>& commands, const PlacementPlan& plan, const Ledger& ledger,
               PhaseKind phase, OffloadPolicy policy, bool to_card) {
  size_t first = commands.size();
  for (const RoleSpec& role : plan.roles)
    for (const auto& [object, bytes] : role.bytes_per_card) {
      auto target = target_of(policy, phase, object);
      if (!target || (*target == Place::card) != to_card) continue;
      for (CardId card : role.cards)
        if (ledger.place_of(role.role, card, object) != *target)
          commands.push_back(move_to(*target, phase, role, card, object, bytes));
    }
  auto begin = commands.begin() + static_cast<ptrdiff_t>(first);
  std::stable_sort(begin, commands.end(), [&](const Command& a, const Command& b) {
    int rank_a = arrival_rank(a.object), rank_b = arrival_rank(b.object);
    return to_card ? rank_a < rank_b : rank_a > rank_b;
  });
}

/// Returns true if the publish to come must also fill the reference: it has never had weights.
bool is_unfilled_reference(const RoleSpec& role, const Ledger& ledger) {
  return role.has(Object::ref_params) && std::ranges::any_of(role.cards, [&](CardId card) {
           return ledger.place_of(role.role, card, Object::ref_params) == Place::absent;
         });
}

void add_reshards(std::vector<Command>& commands, const PlacementPlan& plan, const Ledger& ledger) {
  for (const RoleSpec& role : plan.roles)
    for (Object object : {Object::infer_params, Object::ref_params}) {
      if (!role.has(object)) continue;
      if (object == Object::ref_params && !is_unfilled_reference(role, ledger)) continue;
      for (CardId card : role.cards)
        commands.push_back({Verb::reshard, PhaseKind::publish, role.role, card, object, Place::card,
                            role.bytes_per_card.at(object)});
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
    bool takes_part = has_part(role, phase);
    bool is_only_reference = role.has(Object::ref_params) && !role.has(Object::infer_params);
    if (phase == PhaseKind::publish && is_only_reference && !is_unfilled_reference(role, ledger))
      takes_part = false;
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
  switch (phase) {
    case PhaseKind::init:
      return {{}, PhaseKind::init};
    case PhaseKind::publish:
      return {{Object::train_params}, PhaseKind::init};
    case PhaseKind::update:
    case PhaseKind::checkpoint:
      return {{Object::train_params, Object::optimizer, Object::critic_params,
               Object::critic_optimizer},
              PhaseKind::init};
    case PhaseKind::generate:
      return {{Object::infer_params, Object::ref_params}, PhaseKind::publish};
    case PhaseKind::reference:
      return {{Object::ref_params}, PhaseKind::publish};
    case PhaseKind::evaluate:
      return {{Object::infer_params}, PhaseKind::publish};
  }
  return {{}, PhaseKind::init};
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

}  // namespace

Expected<std::vector<Command>> commands_for(const PlacementPlan& plan, const Ledger& ledger,
                                            PhaseKind phase, OffloadPolicy policy) {
  if (ledger.has_in_flight())
    return Error{Errc::protocol, "phases: phase " + std::string(to_string(phase)) +
                                     " is asked for while a transition is in flight"};
  COHORT_TRY(check_needs(plan, ledger, phase));
  std::vector<Command> commands;
  add_moves(commands, plan, ledger, phase, policy, false);
  if (phase == PhaseKind::publish) add_begin(commands, plan, ledger, phase);
  add_moves(commands, plan, ledger, phase, policy, true);
  if (phase == PhaseKind::publish)
    add_reshards(commands, plan, ledger);
  else
    add_begin(commands, plan, ledger, phase);
  return commands;
}

std::optional<Transition> transition_of(const Command& x) {
  if (x.verb == Verb::reshard || x.verb == Verb::begin_phase) return std::nullopt;
  return Transition{x.role, x.card, x.object, x.to, x.bytes};
}

std::vector<Object> required_objects(const RoleSpec& role, PhaseKind phase) {
  std::vector<Object> wanted;
  switch (phase) {
    case PhaseKind::init:
    case PhaseKind::checkpoint:  // saves from where the objects are
      break;
    case PhaseKind::publish:
      wanted = {Object::train_params, Object::infer_params, Object::ref_params};
      break;
    case PhaseKind::generate:
      wanted = {Object::infer_params, Object::kv_cache, Object::ref_params};
      break;
    case PhaseKind::reference:
      wanted = {Object::ref_params};
      break;
    case PhaseKind::update:
      wanted = {Object::train_params,  Object::grads,        Object::optimizer,
                Object::critic_params, Object::critic_grads, Object::critic_optimizer};
      break;
    case PhaseKind::evaluate:
      wanted = {Object::infer_params, Object::kv_cache};
      break;
  }
  std::erase_if(wanted, [&](Object object) { return !role.has(object); });
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
    for (Object object : required_objects(*role, phase)) {
      auto found = ledger.entries().find({card, role->role, object});
      Place place = ledger.place_of(role->role, card, object);
      bool is_moving = found != ledger.entries().end() && found->second.in_flight;
      if (place != Place::card || is_moving)
        return Error{Errc::placement, what + ": " + std::string(to_string(object)) + " on card " +
                                          std::to_string(card.value) + " is " +
                                          (is_moving ? "moving" : std::string(to_string(place)))};
    }
  return {};
}

std::string_view to_string(OffloadPolicy policy) {
  return policy == OffloadPolicy::never ? "never" : "step";
}

std::string_view to_string(Command::Verb verb) {
  switch (verb) {
    case Verb::onload:
      return "onload";
    case Verb::offload:
      return "offload";
    case Verb::init_cache:
      return "init_cache";
    case Verb::free_cache:
      return "free_cache";
    case Verb::reshard:
      return "reshard";
    case Verb::begin_phase:
      return "begin_phase";
  }
  return "unknown_verb";
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
