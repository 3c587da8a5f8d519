#pragma once
/// Words of placement: residency objects, where they are, cards, modes, phases. Value types, pure.
///
/// An object of a role is on each card of that role either absent, on the host or on the card.
/// Train-class objects belong to the optimisation of a policy or critic, infer-class objects to
/// generation and to the frozen reference; in separate mode the two classes never meet on a card
/// (PLACE-1, ledger.hpp).
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/ids.hpp"

namespace cohort::plan {

enum class Object : uint8_t {
  train_params = 0,
  grads = 1,
  optimizer = 2,
  infer_params = 3,
  kv_cache = 4,
  ref_params = 5,
  critic_params = 6,
  critic_grads = 7,
  critic_optimizer = 8,
};

inline constexpr std::array k_objects = {
    Object::train_params,  Object::grads,        Object::optimizer,
    Object::infer_params,  Object::kv_cache,     Object::ref_params,
    Object::critic_params, Object::critic_grads, Object::critic_optimizer};

enum class Place : uint8_t { absent = 0, host = 1, card = 2 };
enum class PlacementMode : uint8_t { separate = 0, timeshare = 1 };
/// never: objects stay on their cards; step: they leave when their phase has ended.
enum class OffloadPolicy : uint8_t { never = 0, step = 1 };
/// late: kv_cache comes in generate, when on a shared card the train objects have left; early: in
/// publish, beside the infer_params and what trains, as an engine that makes it when it starts.
enum class CacheArrival : uint8_t { late = 0, early = 1 };

/// A stretch of a step in which the residency of cards does not change.
enum class PhaseKind : uint8_t {
  init = 0,
  publish = 1,    // weights move from the train to the infer layout (reshard)
  generate = 2,   // rollout and, beside it, the reference's log-probs
  reference = 3,  // log-probs of the reference alone, when it takes turns with other roles
  update = 4,     // the supervised warm start is an update too
  evaluate = 5,
  checkpoint = 6,
};

inline constexpr std::array k_phases = {
    PhaseKind::init,   PhaseKind::publish,  PhaseKind::generate,  PhaseKind::reference,
    PhaseKind::update, PhaseKind::evaluate, PhaseKind::checkpoint};

struct CardSpec {
  CardId id;
  uint64_t capacity_bytes = 0;
  uint64_t reserve_bytes = 0;  // kept free: allocator slack, collectives' buffers
  /// Returns the bytes that objects may take.
  uint64_t budget_bytes() const {
    return reserve_bytes < capacity_bytes ? capacity_bytes - reserve_bytes : 0;
  }
  bool operator==(const CardSpec&) const = default;
};

bool is_train_class(Object object);
bool is_infer_class(Object object);

std::string_view to_string(Object object);
std::string_view to_string(Place place);
std::string_view to_string(PlacementMode mode);
std::string_view to_string(OffloadPolicy policy);
std::string_view to_string(CacheArrival arrival);
std::string_view to_string(PhaseKind phase);

/// Returns e.g. "1,614,848".
std::string with_thousands(uint64_t value);
/// Returns e.g. "[0, 1, 5]".
std::string to_text(std::span<const CardId> cards);

}  // namespace cohort::plan
