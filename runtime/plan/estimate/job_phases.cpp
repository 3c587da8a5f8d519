// Phases of a job: what each card holds at the fullest moment, objects and transients.
#include <algorithm>

#include "runtime/plan/estimate/job_parts.hpp"
#include "runtime/plan/place/phases_table.hpp"

namespace cohort::plan::job {
namespace {

const std::vector<TransientBytes>* transients_in(const RoleFacts& role, PhaseKind phase,
                                                 bool is_shared) {
  if (phase == PhaseKind::update) return role.trains() ? &role.update : nullptr;
  if (phase == PhaseKind::generate && role.kind == RoleKind::infer) return &role.generate;
  const auto turn = is_shared ? PhaseKind::reference : PhaseKind::generate;
  return role.kind == RoleKind::reference && phase == turn ? &role.log_prob : nullptr;
}

/// Weights on their way: whole tensors in buckets, at the sender and at the receiver.
std::optional<TransientBytes> staging(const JobSpec& spec, const RoleFacts& role) {
  if (role.kind != RoleKind::train && role.job.name != Role::actor_infer) return std::nullopt;
  uint64_t model = model::parameter_count(role.shape) * std::max<uint64_t>(role.job.param_bytes, 1);
  // The built-in engine hands over, and takes in, a whole copy in host memory.
  if (role.job.engine == Engine::builtin)
    return TransientBytes{role.job.name, "weights in flight",
                          flat_element_count(role.shape) * role.job.param_bytes, "a whole copy"};
  uint64_t bytes = std::min(spec.update_bucket_bytes, model);
  return TransientBytes{
      role.job.name, "reshard bucket", bytes,
      "min(bucket " + text(spec.update_bucket_bytes) + ", model " + text(model) + ")"};
}

/// Policy never: once there, nothing leaves a card of its own.
std::vector<HeldObject> kept_on(const PlacementPlan& placement, CardId card) {
  std::vector<HeldObject> held;
  for (const RoleSpec& role : placement.roles)
    if (std::ranges::binary_search(role.cards, card))
      for (const auto& [object, bytes] : role.bytes_per_card)
        held.push_back({role.role, object, bytes});
  return held;
}

/// Roles of one phase take turns on a card, but for generation, beside which the reference runs.
uint64_t total_of(PhaseKind phase, const std::vector<TransientBytes>& transients) {
  if (phase == PhaseKind::generate) return sum_of(transients);
  uint64_t most = 0, sum = 0;
  std::string role;
  for (const TransientBytes& x : transients) {
    sum = x.role == role ? sum + x.bytes : x.bytes;
    role = x.role;
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

std::vector<JobPhase> work_out_phases(const JobSpec& spec, const std::vector<RoleFacts>& roles,
                                      const PlacementPlan& placement) {
  bool has_publish =
      placement.find(Role::actor_train) != nullptr && placement.find(Role::actor_infer) != nullptr;
  bool counts_transients = spec.card.name != "cpu";  // there they lie in the process's heap
  std::vector<JobPhase> phases;
  for (PhaseKind kind : step_phases(placement)) {
    bool is_served = placement.owner_of(Object::infer_params) != nullptr ||
                     placement.owner_of(Object::ref_params) != nullptr;
    if (kind == PhaseKind::publish && !has_publish) continue;
    if (kind == PhaseKind::generate && !is_served) continue;
    JobPhase phase{kind, {}};
    for (const CardSpec& card : placement.cards) {
      bool is_kept = spec.offload == OffloadPolicy::never;
      CardPhase at{
          card.id, is_kept ? kept_on(placement, card.id) : held_in(placement, card.id, kind),
          {},      0,
          0,       true};
      for (const HeldObject& held : at.objects) at.object_bytes += held.bytes;
      for (const RoleFacts& role : roles) {
        if (!std::ranges::binary_search(role.job.cards, card.id)) continue;
        bool is_shared = placement.find(role.job.name)->is_shared(card.id);
        if (const auto* list = transients_in(role, kind, is_shared))
          at.transients.insert(at.transients.end(), list->begin(), list->end());
        if (auto bucket = staging(spec, role); bucket && kind == PhaseKind::publish)
          at.transients.push_back(*bucket);
      }
      at.transient_bytes = total_of(kind, at.transients);
      uint64_t counted = at.object_bytes + (counts_transients ? at.transient_bytes : 0);
      at.fits = counted <= card.budget_bytes();
      phase.cards.push_back(std::move(at));
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

}  // namespace cohort::plan::job
