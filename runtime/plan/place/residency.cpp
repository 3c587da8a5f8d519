#include "runtime/plan/place/residency.hpp"

namespace cohort::plan {

bool is_infer_class(Object object) {
  return object == Object::infer_params || object == Object::kv_cache ||
         object == Object::ref_params;
}

bool is_train_class(Object object) { return !is_infer_class(object); }

std::string_view to_string(Object object) {
  switch (object) {
    case Object::train_params:
      return "train_params";
    case Object::grads:
      return "grads";
    case Object::optimizer:
      return "optimizer";
    case Object::infer_params:
      return "infer_params";
    case Object::kv_cache:
      return "kv_cache";
    case Object::ref_params:
      return "ref_params";
    case Object::critic_params:
      return "critic_params";
    case Object::critic_grads:
      return "critic_grads";
    case Object::critic_optimizer:
      return "critic_optimizer";
  }
  return "unknown_object";
}

std::string_view to_string(Place place) {
  switch (place) {
    case Place::absent:
      return "absent";
    case Place::host:
      return "host";
    case Place::card:
      return "card";
  }
  return "unknown_place";
}

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
  switch (phase) {
    case PhaseKind::init:
      return "init";
    case PhaseKind::publish:
      return "publish";
    case PhaseKind::generate:
      return "generate";
    case PhaseKind::reference:
      return "reference";
    case PhaseKind::update:
      return "update";
    case PhaseKind::evaluate:
      return "evaluate";
    case PhaseKind::checkpoint:
      return "checkpoint";
  }
  return "unknown_phase";
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
