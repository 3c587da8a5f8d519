#include "runtime/plan/estimate/job.hpp"

#include <algorithm>
#include <map>

#include "runtime/plan/estimate/job_parts.hpp"

namespace cohort::plan {
namespace job {
namespace {

RoleSpec spec_of(const RoleFacts& role) {
  RoleSpec out;
  out.role = role.job.name;
  out.cards = role.job.cards;
  out.bytes_per_card = role.card_bytes;
  out.is_optimizer_swapped = role.job.swap_optimizer && !role.job.offload_optimizer;
  out.has_own_weights = role.job.has_own_weights;
  return out;
}

Expected<PlacementPlan> place(const JobSpec& spec, const std::vector<RoleFacts>& roles) {
  std::map<CardId, CardSpec> cards;
  std::vector<RoleSpec> specs;
  for (const RoleFacts& role : roles) {
    for (CardId id : role.job.cards)
      cards[id] = {id, spec.card.capacity_bytes, spec.card.reserve_bytes};
    specs.push_back(spec_of(role));
  }
  std::vector<CardSpec> list;
  for (auto& [id, card] : cards) list.push_back(card);
  return lay_out(spec.mode, std::move(list), std::move(specs), spec.init_cache);
}

/// What the built-in engine holds where another engine is asked for.
std::string engine_note(const RoleFacts& role) {
  if (role.job.engine == Engine::builtin) return "";
  std::map<Object, uint64_t> bytes;
  if (role.trains())
    bytes = role.kind == RoleKind::critic
                ? critic_bytes(role.shape, builtin_train_memory(role.job.param_bytes))
                : train_bytes(role.shape, builtin_train_memory(role.job.param_bytes));
  else if (role.kind == RoleKind::infer)
    bytes = infer_bytes(role.shape, builtin_infer_memory(role.job.param_bytes, role.is_on_cpu));
  else
    bytes = reference_bytes(role.shape, state_of(Engine::builtin, role.job.param_bytes).params);
  std::string list;
  for (auto [object, size] : bytes)
    if (size > 0)
      list += (list.empty() ? "" : ", ") + std::string(to_string(object)) + " " + text(size);
  std::string asked = role.job.engine_asked.empty() ? std::string(to_string(role.job.engine))
                                                    : role.job.engine_asked;
  return asked + ": planned by that engine's arithmetic; the built-in engine holds " + list +
         " on one card";
}

RolePlan role_plan(const RoleFacts& role) {
  RolePlan out;
  const RoleJob& job = role.job;
  out.role = job.name;
  out.engine_asked = job.engine_asked;
  out.engine_note = engine_note(role);
  out.cards = job.cards;
  out.tp = job.tp;
  out.pp = job.pp;
  out.cp = job.cp;
  out.ep = job.ep;
  out.dp = role.ways / job.cp;
  out.replicas = role.shape.moe && job.ep > 1 ? std::max(1u, role.expert_ways) : role.ways;
  out.parameters = model::parameter_count(role.shape);
  out.elements_per_card = role.shard.total();
  out.kv_tokens = role.kv_tokens;
  if (role.max_model_len > 0) out.kv_sequences = role.kv_tokens / role.max_model_len;
  out.is_cache_too_small = role.is_cache_too_small;
  out.numbers = role.numbers;
  return out;
}

/// A TP group that leaves its node runs over the network at every layer.
void warn_of_split_groups(const JobSpec& spec, const RoleFacts& role,
                          std::vector<PlanWarning>& warnings) {
  for (size_t first = 0; first < role.job.cards.size(); first += role.job.tp)
    for (size_t i = first; i < first + role.job.tp; ++i) {
      if (node_of(spec, role.job.cards[i]) == node_of(spec, role.job.cards[first])) continue;
      warnings.push_back({role.job.name + ".tensor_parallel",
                          role.job.name + ": the tensor-parallel group of card " +
                              std::to_string(role.job.cards[first].value) +
                              " spans nodes; every layer then waits for the network"});
      return;
    }
}

void add_warnings(const JobSpec& spec, const std::vector<RoleFacts>& roles, JobPlan& plan) {
  for (const RoleFacts& role : roles) warn_of_split_groups(spec, role, plan.warnings);
  if (spec.overlap_is_verl_pool && !shared_cards_of(plan.placement.roles).empty())
    plan.warnings.push_back({"actor_rollout_ref.hybrid_engine",
                             "hybrid_engine makes one pool of cards of all roles: planned as "
                             "placement.mode=timeshare"});
  if (spec.card.name != "cpu") return;
  uint64_t most = 0;
  for (const JobPhase& phase : plan.phases)
    for (const CardPhase& card : phase.cards) most = std::max(most, card.transient_bytes);
  if (most > spec.card.reserve_bytes)
    plan.warnings.push_back({"cards.reserve_bytes",
                             "work space of up to " + text(most) +
                                 " bytes per card lies in the process beyond cards.reserve_bytes " +
                                 text(spec.card.reserve_bytes)});
}

/// On the cpu platform work space lies in the process, not on the card: its peak is of objects.
void find_peak(const JobSpec& spec, JobPlan& plan) {
  for (const JobPhase& phase : plan.phases)
    for (const CardPhase& card : phase.cards) {
      uint64_t bytes = spec.card.name == "cpu" ? card.object_bytes : card.bytes();
      plan.fits = plan.fits && card.fits;
      if (bytes <= plan.peak_bytes) continue;
      plan.peak_bytes = bytes;
      plan.peak_card = card.card;
      plan.peak_phase = phase.phase;
    }
}

/// Everything that is not on its card for good is in host memory once; upper bound.
uint64_t host_bytes(const JobSpec& spec, const std::vector<RoleFacts>& roles,
                    const PlacementPlan& placement) {
  std::map<uint32_t, uint64_t> nodes;
  for (const RoleFacts& role : roles) {
    const RoleSpec& placed = *placement.find(role.job.name);
    for (CardId card : role.job.cards) {
      uint64_t bytes = 0;
      for (auto [object, size] : role.host_bytes) bytes += size;
      bool leaves =
          (role.trains() && spec.offload == OffloadPolicy::step) || placed.is_shared(card);
      for (auto [object, size] : role.card_bytes)
        if (leaves && object != Object::kv_cache && object != Object::grads &&
            object != Object::critic_grads)
          bytes += size;
      nodes[node_of(spec, card)] += bytes;
    }
  }
  uint64_t most = 0;
  for (auto [node, bytes] : nodes) most = std::max(most, bytes);
  return most;
}

}  // namespace

Expected<JobPlan> plan_once(const JobSpec& spec, bool is_trial) {
  JobPlan plan;
  JobSpec sorted = spec;
  for (RoleJob& role : sorted.roles) std::ranges::sort(role.cards);
  COHORT_ASSIGN(std::vector<RoleFacts> roles, work_out_roles(sorted));
  size_caches(sorted, roles, plan.warnings);
  COHORT_ASSIGN(plan.placement, place(sorted, roles));
  COHORT_TRY(check_policy(plan.placement, sorted.offload));
  if (sorted.batch) {
    COHORT_ASSIGN(plan.batch, plan_batch(*sorted.batch));
  }
  plan.phases = work_out_phases(sorted, roles, plan.placement);
  plan.budget_bytes =
      CardSpec{{}, spec.card.capacity_bytes, spec.card.reserve_bytes}.budget_bytes();
  for (const RoleFacts& role : roles) {
    plan.roles.push_back(role_plan(role));
    plan.fits = plan.fits && !role.is_cache_too_small;
  }
  find_peak(spec, plan);
  if (is_trial) return plan;
  plan.host_bytes_per_node = host_bytes(sorted, roles, plan.placement);
  bool is_npu = spec.card.series != Series::unknown;
  plan.notes = engine_notes(plan.placement, is_npu);
  plan.reshard = work_out_reshard(sorted, roles);
  plan.traffic = work_out_traffic(sorted, roles, plan);
  add_warnings(sorted, roles, plan);
  return plan;
}

}  // namespace job

Expected<JobPlan> plan_job(const JobSpec& spec) {
  COHORT_ASSIGN(JobPlan plan, job::plan_once(spec, false));
  if (!plan.fits) plan.remedies = job::try_remedies(spec, plan);
  return plan;
}

}  // namespace cohort::plan
