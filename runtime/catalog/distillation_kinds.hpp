#pragma once
/// How far a student's distribution is from its teacher's, by the names that configs and cases use:
/// ROLL's kd_objective, and gkd. Equations and sources: algorithms/distillation.hpp. Value types.
#include <cstdint>
#include <string_view>

namespace cohort::catalog {

enum class DivergenceKind : uint8_t {
  forward_kl,
  reverse_kl,
  adaptive_kl,
  skewed_forward_kl,
  skewed_reverse_kl,
  js_divergence,
  gkd,
};
constexpr std::string_view names_of(DivergenceKind) {
  return "forward_kl reverse_kl adaptive_kl skewed_forward_kl skewed_reverse_kl js_divergence gkd";
}

}  // namespace cohort::catalog
