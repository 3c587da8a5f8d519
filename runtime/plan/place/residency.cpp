#include "runtime/plan/place/residency.hpp"

#include "runtime/base/text.hpp"

namespace cohort::plan {

bool is_infer_class(Object object) {
  return object == Object::infer_params || object == Object::kv_cache ||
         object == Object::ref_params;
}

bool is_train_class(Object object) { return !is_infer_class(object); }

std::string_view to_string(Object object) {
  return name_in({"train_params", "grads", "optimizer", "infer_params", "kv_cache", "ref_params",
                  "critic_params", "critic_grads", "critic_optimizer"},
                 object);
}

std::string_view to_string(Place place) { return name_in({"absent", "host", "card"}, place); }

std::string_view to_string(PlacementMode mode) {
  return mode == PlacementMode::separate ? "separate" : "timeshare";
}

std::string_view to_string(OffloadPolicy policy) {
  return policy == OffloadPolicy::never ? "never" : "step";
}

std::string_view to_string(CacheArrival arrival) {
  return arrival == CacheArrival::late ? "late" : "early";
}

std::string_view to_string(PhaseKind phase) {
  return name_in({"init", "publish", "generate", "reference", "update", "evaluate", "checkpoint"},
                 phase);
}

std::string with_thousands(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t left = text.size(); left > 3; left -= 3) text.insert(left - 3, 1, ',');
  return text;
}

std::string to_text(std::span<const CardId> cards) {
  std::string text = "[";
  for (CardId card : cards) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(card.value);
  }
  return text + "]";
}

}  // namespace cohort::plan
