// What cards hold: by role with the arithmetic, and by phase with bars.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/job/job_json.hpp"
#include "tools/actor-node/plan_bytes.hpp"
#include "tools/actor-node/plan_text.hpp"

namespace cohort {
namespace {

const plan::RoleJob& asked_of(const PlannedJob& job, const std::string& role) {
  return *std::ranges::find(job.job.spec.roles, role, &plan::RoleJob::name);
}

std::string layout_text(const plan::RolePlan& role, const plan::RoleJob& asked) {
  std::string cut;
  for (auto [name, degree] : {std::pair("TP", role.tp), std::pair("PP", role.pp),
                              std::pair("CP", role.cp), std::pair("EP", role.ep)})
    if (degree > 1) cut += fmt::format("{}{} {}", cut.empty() ? "" : " × ", name, degree);
  bool is_cut_over_ranks = asked.zero_stage > 0;
  std::string out;
  if (role.role == Role::actor_train || role.role == Role::critic || is_cut_over_ranks)
    out = cut + fmt::format("{}DP {}", cut.empty() ? "" : " × ", role.dp);
  else
    out = fmt::format("{} {}{}", role.replicas, role.replicas == 1 ? "replica" : "replicas",
                      cut.empty() ? "" : " of " + cut);
  if (asked.engine == plan::Engine::deepspeed)
    out += fmt::format(", ZeRO {}", asked.zero_stage);
  else if (asked.engine == plan::Engine::megatron && asked.zero_stage > 0)
    out += ", distributed optimizer";
  else if (is_cut_over_ranks)
    out += ", fully sharded";
  if (asked.offload_optimizer || asked.offload_params)
    out += fmt::format(", {} in host memory", !asked.offload_params      ? "optimizer"
                                              : !asked.offload_optimizer ? "weights"
                                                                         : "weights and optimizer");
  return out;
}

/// Work space of a role, each kind once; the same kind may differ between phases.
std::vector<plan::TransientBytes> transients_of(const plan::JobPlan& plan,
                                                const std::string& role) {
  std::vector<plan::TransientBytes> out;
  for (const plan::JobPhase& phase : plan.phases)
    for (const job::CardRange& range : job::equal_cards(phase))
      for (const plan::TransientBytes& x : range.phase->transients)
        if (x.role == role && std::ranges::find(out, x) == out.end()) out.push_back(x);
  return out;
}

/// "actor_train: train_params 236 MiB, grads …", roles in order, what is empty left out.
/// Work space that does not count is a sum at the end.
std::string held_text(const plan::CardPhase& x, const plan::JobPlan& plan, bool counts_work_space,
                      bool stays) {
  std::vector<std::pair<std::string, std::string>> roles;
  auto add = [&](const std::string& role, std::string_view name, uint64_t bytes) {
    if (bytes == 0) return;
    auto at = std::ranges::find(roles, role, &std::pair<std::string, std::string>::first);
    if (at == roles.end()) at = roles.insert(roles.end(), {role, ""});
    at->second +=
        fmt::format("{}{} {}", at->second.empty() ? "" : ", ", name, tied(bytes_text(bytes)));
  };
  for (const plan::HeldObject& held : x.objects) add(held.role, to_string(held.object), held.bytes);
  if (counts_work_space)
    for (const plan::TransientBytes& t : x.transients) add(t.role, t.name, t.bytes);
  std::string out;
  for (const auto& [role, things] : roles)
    out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", role, things);
  if (!counts_work_space && x.transient_bytes > 0)
    out += fmt::format("{}in the process: work space {}", out.empty() ? "" : "; ",
                       tied(bytes_text(x.transient_bytes)));
  if (!out.empty()) return out;
  for (const plan::RolePlan& role : plan.roles)
    if (std::ranges::find(role.cards, x.card) != role.cards.end())
      out += (out.empty() ? "" : ", ") + role.role;
  return stays ? "idle: " + out : "empty: " + out + " waits in host memory";
}

Tone tone_of(bool fits, uint64_t bytes, uint64_t budget) {
  if (!fits) return Tone::bad;
  return bytes > budget / 10 * 9 ? Tone::careful : Tone::plain;
}

/// Returns "the reference's", "the teacher's", both, or "".
std::string frozen_roles(const plan::PlacementPlan& placement) {
  std::string text;
  for (const plan::RoleSpec& role : placement.roles)
    if (is_frozen(role.role))
      text += fmt::format("{}the {}'s", text.empty() ? "" : " and ", role.role);
  return text;
}

/// `frozen`: whose log-probabilities are computed, beside the rollout or in a turn of their own.
std::string phase_meaning(plan::PhaseKind phase, const std::string& frozen, bool is_beside) {
  using plan::PhaseKind;
  switch (phase) {
    case PhaseKind::publish:
      return "weights go from actor_train to actor_infer";
    case PhaseKind::generate:
      return is_beside ? fmt::format("rollout, and {} log-probs beside it", frozen) : "rollout";
    case PhaseKind::reference:
      return frozen + " log-probs, in a turn of its own";
    case PhaseKind::update:
      return "log-probs, gradients, optimizer";
    default:
      return "";
  }
}

constexpr size_t k_label_max = 14;

/// Of all phases, so that their bars stand under each other.
size_t label_width(const plan::JobPlan& plan) {
  size_t width = 0;
  for (const plan::JobPhase& phase : plan.phases)
    for (const job::CardRange& range : job::equal_cards(phase))
      width = std::max(width, text_width(cards_text(range.cards)));
  return std::min(width, k_label_max);
}

}  // namespace

void add_roles(Page& page, const PlannedJob& job) {
  page.heading("ROLES", "what each puts on one of its cards");
  for (const plan::RolePlan& role : job.plan.roles) {
    const plan::RoleJob& asked = asked_of(job, role.role);
    std::string engine =
        role.engine_asked.empty() ? std::string(to_string(asked.engine)) : role.engine_asked;
    page.wrapped("  ",
                 fmt::format("{} · {} · {} · {}", role.role, counted_cards_text(role.cards), engine,
                             layout_text(role, asked)),
                 Tone::heading);
    std::vector<Row> rows;
    for (const plan::PlanNumber& x : role.numbers)
      rows.push_back({{"█ " + x.name, bytes_text(x.value), x.arithmetic}, Tone::plain});
    for (const plan::TransientBytes& x : transients_of(job.plan, role.role))
      rows.push_back({{"▒ " + x.name, bytes_text(x.bytes), x.arithmetic}, Tone::plain});
    page.table(4, {{}, {true, 0}, {}}, rows);
    if (role.kv_tokens > 0)
      page.wrapped("    ",
                   fmt::format("The cache of a replica holds {} tokens: {} sequences of full "
                               "length at once.",
                               plan::with_thousands(role.kv_tokens),
                               plan::with_thousands(role.kv_sequences)),
                   role.is_cache_too_small ? Tone::bad : Tone::plain);
    if (!role.engine_note.empty()) page.wrapped("    ", role.engine_note, Tone::faint);
  }
}

void add_phases(Page& page, const PlannedJob& job) {
  const plan::JobPlan& plan = job.plan;
  const plan::CardType& card = job.job.spec.card;
  page.heading(
      "PHASES OF A STEP",
      fmt::format("a card has {}, {} reserved, {} for use", bytes_text(card.capacity_bytes),
                  bytes_text(card.reserve_bytes), bytes_text(plan.budget_bytes)));
  size_t bar = page.width() >= 100 ? 24 : 14;
  size_t label = label_width(plan);
  bool has_shared = !plan::shared_cards_of(plan.placement.roles).empty();
  for (size_t i = 0; i < plan.phases.size(); ++i) {
    const plan::JobPhase& phase = plan.phases[i];
    const std::string frozen = frozen_roles(plan.placement);
    page.wrapped("  ",
                 fmt::format("{} {} · {}", i + 1, to_string(phase.phase),
                             phase_meaning(phase.phase, frozen, !has_shared && !frozen.empty())));
    std::vector<Row> rows;
    for (const job::CardRange& range : job::equal_cards(phase)) {
      const plan::CardPhase& x = *range.phase;
      uint64_t bytes = job::counted_bytes(job.job, x), budget = plan.budget_bytes;
      bool counts_work_space = bytes == x.bytes();
      rows.push_back({{fmt::format("{:<{}}", cards_text(range.cards), label),
                       bar_text(x.object_bytes, bytes - x.object_bytes, budget, bar),
                       fmt::format("{:>8}", bytes_text(bytes)),
                       fmt::format("{:>5}", percent_text(bytes, budget)),
                       held_text(x, plan, counts_work_space,
                                 job.job.spec.offload == plan::OffloadPolicy::never)},
                      tone_of(x.fits, bytes, budget)});
    }
    page.table(4, {{false, k_label_max}, {}, {true, 0}, {true, 0}, {}}, rows);
  }
  page.line("  █ stays for the phase   ▒ work space that comes and goes   » over", Tone::faint);
}

}  // namespace cohort
