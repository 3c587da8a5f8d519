#include "runtime/plan/place/phases_table.hpp"

#include <algorithm>

namespace cohort::plan {
namespace {

bool is_grads(Object object) { return object == Object::grads || object == Object::critic_grads; }

bool is_optimizer(Object object) {
  return object == Object::optimizer || object == Object::critic_optimizer;
}

bool generates(PhaseKind phase) {
  return phase == PhaseKind::generate || phase == PhaseKind::evaluate;
}

/// Returns true for what is filled in init: the trainer's objects, and a reference's own weights.
bool comes_in_init(const RoleSpec& role, Object object) {
  return is_train_class(object) || (object == Object::ref_params && role.has_own_weights);
}

/// The first head table: train-class objects of cards of one class.
std::optional<Place> train_target(PhaseKind phase, Object object) {
  if (phase == PhaseKind::publish && object == Object::train_params) return Place::card;
  if (phase == PhaseKind::publish || phase == PhaseKind::checkpoint) return std::nullopt;
  if (phase == PhaseKind::update) return Place::card;
  return is_grads(object) ? Place::absent : Place::host;
}

Place cache_target(CacheArrival cache, PhaseKind phase) {
  const bool is_early = cache == CacheArrival::early && phase == PhaseKind::publish;
  return generates(phase) || is_early ? Place::card : Place::absent;
}

/// The same for infer-class objects.
std::optional<Place> infer_target(CacheArrival cache, PhaseKind phase, Object object) {
  if (phase == PhaseKind::init) return std::nullopt;
  if (object == Object::kv_cache) return cache_target(cache, phase);
  const bool is_reference = object == Object::ref_params;
  const bool is_needed = phase == PhaseKind::publish || phase == PhaseKind::generate ||
                         phase == (is_reference ? PhaseKind::reference : PhaseKind::evaluate);
  return is_infer_class(object) && is_needed ? std::optional{Place::card} : std::nullopt;
}

/// The second head table. `stays`: the object has the "*" of publish.
std::optional<Place> shared_target(CacheArrival cache, PhaseKind phase, Object object, bool stays) {
  if (phase == PhaseKind::init || phase == PhaseKind::checkpoint) {
    if (object == Object::train_params) return Place::host;
    return phase == PhaseKind::init
               ? is_train_class(object) ? train_target(phase, object) : std::nullopt
               : infer_target(cache, phase, object);
  }
  const bool is_publish = phase == PhaseKind::publish, is_update = phase == PhaseKind::update;
  const auto card_if = [](bool is_there) { return is_there ? Place::card : Place::host; };
  if (object == Object::kv_cache) return cache_target(cache, phase);
  if (object == Object::train_params) return card_if(is_publish || is_update);
  if (object == Object::infer_params) return card_if(is_publish || generates(phase));
  if (object == Object::ref_params) return card_if(phase == PhaseKind::reference);
  if (is_grads(object)) return is_update ? Place::card : Place::absent;
  return is_publish && stays ? std::nullopt : std::optional{card_if(is_update)};
}

/// Returns true for what may stay on a shared card through a publish that follows an update.
bool may_stay(const RoleSpec& role, Object object) {
  if (is_optimizer(object)) return !role.is_optimizer_swapped;
  return object == Object::critic_params;
}

template <class Wanted>
std::vector<HeldObject> objects_on(const PlacementPlan& plan, CardId card, Wanted wanted) {
  std::vector<HeldObject> held;
  for (const RoleSpec& role : plan.roles) {
    if (!std::ranges::binary_search(role.cards, card)) continue;
    for (const auto& [object, bytes] : role.bytes_per_card)
      if (wanted(role, object)) held.push_back({role.role, object, bytes});
  }
  return held;
}

std::vector<HeldObject> held_while_publishing(const PlacementPlan& plan, CardId card,
                                              bool with_stayers) {
  const bool is_early = plan.cache == CacheArrival::early;
  auto moment = [&](Object arriving) {
    return objects_on(plan, card, [&](const RoleSpec& role, Object object) {
      const bool arrives =
          object == arriving && !(object == Object::ref_params && role.has_own_weights);
      return object == Object::train_params || arrives ||
             (is_early && arriving == Object::infer_params && object == Object::kv_cache) ||
             (with_stayers && may_stay(role, object));
    });
  };
  auto reshard = moment(Object::infer_params), fill = moment(Object::ref_params);
  return total_of(reshard) >= total_of(fill) ? reshard : fill;
}

/// Returns true if every "*" object of publish fits beside both parameter sets.
bool has_room_in_publish(const PlacementPlan& plan, CardId id) {
  auto card = std::ranges::find(plan.cards, id, &CardSpec::id);
  return card != plan.cards.end() &&
         total_of(held_while_publishing(plan, id, true)) <= card->budget_bytes();
}

bool is_shared(const PlacementPlan& plan, CardId card) {
  return std::ranges::any_of(plan.roles, [&](const RoleSpec& x) { return x.is_shared(card); });
}

bool is_held_alone(CacheArrival cache, PhaseKind phase, Object object) {
  if (is_train_class(object)) return phase == PhaseKind::publish || phase == PhaseKind::update;
  return object != Object::kv_cache || cache_target(cache, phase) == Place::card;
}

}  // namespace

std::optional<Place> target_of(const PlacementPlan& plan, OffloadPolicy policy, PhaseKind phase,
                               const ObjectState& x) {
  if (policy == OffloadPolicy::never && phase == PhaseKind::init)
    return comes_in_init(x.role, x.object) ? std::optional{Place::card} : std::nullopt;
  if (phase == PhaseKind::init && x.object == Object::ref_params)
    return x.role.has_own_weights ? std::optional{Place::host} : std::nullopt;
  if (!x.role.is_shared(x.card)) {
    auto target = is_train_class(x.object) ? train_target(phase, x.object)
                                           : infer_target(plan.cache, phase, x.object);
    if (policy == OffloadPolicy::never && target != Place::card) return std::nullopt;
    return target;
  }
  bool stays = phase == PhaseKind::publish && may_stay(x.role, x.object) &&
               has_room_in_publish(plan, x.card);
  auto target = shared_target(plan.cache, phase, x.object, stays);
  if (target == Place::host && is_infer_class(x.object) && x.now == Place::absent)
    return std::nullopt;
  return target;
}

std::vector<HeldObject> held_in(const PlacementPlan& plan, CardId card, PhaseKind phase) {
  if (phase != PhaseKind::publish && phase != PhaseKind::generate &&
      phase != PhaseKind::reference && phase != PhaseKind::update)
    return {};
  if (!is_shared(plan, card))
    return objects_on(plan, card, [&](const RoleSpec&, Object object) {
      return is_held_alone(plan.cache, phase, object);
    });
  if (phase == PhaseKind::publish)
    return held_while_publishing(plan, card, has_room_in_publish(plan, card));
  return objects_on(plan, card, [&](const RoleSpec&, Object object) {
    return shared_target(plan.cache, phase, object, false) == Place::card;
  });
}

}  // namespace cohort::plan
