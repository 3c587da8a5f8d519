// What travels in a step: weights to generation by each reshard mode, onload and offload,
// gradients.
#include <algorithm>
#include <array>
#include <map>

#include "runtime/plan/estimate/job_parts.hpp"

namespace cohort::plan::job {
namespace {

const RoleFacts* find(const std::vector<RoleFacts>& roles, std::string_view name) {
  auto found = std::ranges::find(roles, name, [](const RoleFacts& x) { return x.job.name; });
  return found == roles.end() ? nullptr : &*found;
}

ShardLayout layout_of(const RoleFacts& role, std::string name) {
  ShardLayout out;
  out.name = std::move(name);
  out.tp = role.job.tp;
  out.pp = role.job.pp;
  out.dp = role.ways;
  out.ep = role.cut.ep;
  out.expert_tp = role.shape.moe ? role.cut.expert_tp : 1;
  bool is_cut = role.trains() && (role.job.zero_stage >= 3 || role.job.engine == Engine::fsdp);
  out.zero_stage = is_cut ? 3 : 0;
  out.layers_per_stage = role.cut.layers_per_stage;
  out.ranks = role.job.cards;
  return out;
}

double seconds(uint64_t bytes, double gb_per_s) {
  return gb_per_s > 0 ? static_cast<double>(bytes) / (gb_per_s * 1e9) : 0;
}

bool spans_nodes(const JobSpec& spec, const std::vector<CardId>& cards) {
  return std::ranges::any_of(
      cards, [&](CardId x) { return node_of(spec, x) != node_of(spec, cards.front()); });
}

ReshardLine line_of(const JobSpec& spec, const ReshardPlan& plan) {
  ReshardLine line;
  line.mode = plan.options.mode;
  for (const RankBytes& rank : plan.ranks) {
    line.receive_max = std::max(line.receive_max, rank.receive);
    line.send_max = std::max(line.send_max, rank.send);
    line.staging_max = std::max(line.staging_max, rank.staging_peak);
  }
  line.receive_total = plan.receive_total();
  line.lower_bound_total = plan.lower_bound_total();
  double link =
      spans_nodes(spec, plan.cards) ? spec.card.network_gb_per_s : spec.card.link_gb_per_s;
  line.seconds = seconds(std::max(line.receive_max, line.send_max), link);
  return line;
}

TrafficLine moved_objects(const JobSpec& spec, const std::vector<RoleFacts>& roles,
                          const JobPlan& plan) {
  TrafficLine line{"objects between card and host", 0, 0, 0, ""};
  std::map<CardId, uint64_t> bytes;
  for (const RoleFacts& role : roles) {
    const RoleSpec& placed = *plan.placement.find(role.job.name);
    uint64_t per_card = 0;
    for (auto [object, size] : role.card_bytes) {
      bool is_rebuilt =
          object == Object::kv_cache || object == Object::grads || object == Object::critic_grads;
      bool leaves = spec.offload == OffloadPolicy::step && role.trains();
      if (!is_rebuilt && (leaves || !placed.shared_cards.empty())) per_card += 2 * size;
    }
    if (per_card == 0) continue;
    line.arithmetic += (line.arithmetic.empty() ? "" : "; ") + role.job.name + " in and out " +
                       text(per_card) + " per card";
    for (CardId card : role.job.cards) bytes[card] += per_card;
  }
  for (auto [card, size] : bytes) {
    line.bytes_max_card = std::max(line.bytes_max_card, size);
    line.bytes_total += size;
  }
  line.seconds = seconds(line.bytes_max_card, spec.card.host_gb_per_s);
  return line;
}

/// ZeRO's volumes (arXiv 1910.02054, section 7): gradients reduced and results gathered, 2 * shard,
/// once per optimizer step; with cut parameters 3 * shard, once per micro-batch. The built-in
/// engine adds gradients in micro-batch order, so that they travel once per micro-batch at every
/// stage.
std::optional<TrafficLine> gradients(const JobSpec& spec, const RoleFacts& role,
                                     const JobPlan& plan) {
  if (role.ways < 2 || !plan.batch) return std::nullopt;
  bool is_cut = role.job.zero_stage >= 3 || role.job.engine == Engine::fsdp;
  uint64_t steps = plan.batch->optimizer_steps_per_step;
  uint64_t passes = is_cut ? steps * std::max<uint64_t>(plan.batch->accumulation, 1) : steps;
  uint64_t rounds = std::max<uint64_t>(plan.batch->accumulation, 1);
  bool is_ordered = is_builtin_whole(role) && !is_cut;
  uint64_t shard = role.shard.total() * std::max<uint64_t>(role.job.param_bytes, 2);
  if (role.job.lora)
    shard = model_bytes(reshard_tensors_of(role.shape, sizeof(float), role.job.lora));
  uint64_t volume = shard / role.ways * (role.ways - 1) *
                    (is_cut       ? 3
                     : is_ordered ? rounds + 1
                                  : 2);
  TrafficLine line;
  line.name = role.job.name + " collectives";
  line.bytes_max_card = volume * passes;
  line.bytes_total = line.bytes_max_card * role.job.cards.size();
  line.seconds =
      seconds(line.bytes_max_card, spans_nodes(spec, role.job.cards) ? spec.card.network_gb_per_s
                                                                     : spec.card.link_gb_per_s);
  line.arithmetic = std::to_string(passes) +
                    (is_cut       ? " passes * 3"
                     : is_ordered ? " steps * (" + std::to_string(rounds) + " micro-batches + 1)"
                                  : " steps * 2") +
                    " * " + text(shard) + " * " + std::to_string(role.ways - 1) + "/" +
                    std::to_string(role.ways);
  return line;
}

}  // namespace

std::vector<ReshardLine> work_out_reshard(const JobSpec& spec,
                                          const std::vector<RoleFacts>& roles) {
  const RoleFacts *train = find(roles, "actor_train"), *infer = find(roles, "actor_infer");
  if (train == nullptr || infer == nullptr) return {};
  const auto& lora = train->job.lora;
  uint64_t element = lora ? sizeof(float) : std::max<uint64_t>(infer->job.param_bytes, 1);
  ModelTensors model = reshard_tensors_of(train->shape, element, lora);
  std::vector<ReshardLine> lines;
  for (ReshardMode mode : {ReshardMode::all_gather, ReshardMode::tp_then_pp, ReshardMode::directed,
                           ReshardMode::p2p}) {
    ReshardOptions options;
    options.mode = mode;
    options.ranks_per_node =
        spec.cards_per_node > 0 ? spec.cards_per_node : spec.card.cards_per_node;
    options.tables_only = true;
    auto plan =
        plan_reshard(model, layout_of(*train, "train"), layout_of(*infer, "infer"), options);
    ReshardLine line;
    line.mode = mode;
    if (plan)
      line = line_of(spec, *plan);
    else
      line.refused = plan.error().detail;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<TrafficLine> work_out_traffic(const JobSpec& spec, const std::vector<RoleFacts>& roles,
                                          const JobPlan& plan) {
  std::vector<TrafficLine> lines;
  for (const ReshardLine& line : plan.reshard)
    if (line.mode == ReshardMode::p2p && line.refused.empty())
      lines.push_back({"weights to actor_infer", line.receive_max, line.receive_total, line.seconds,
                       "what each card lacks, once (reshard p2p); lower bound " +
                           text(line.lower_bound_total)});
  TrafficLine moved = moved_objects(spec, roles, plan);
  if (moved.bytes_total > 0) lines.push_back(std::move(moved));
  for (const RoleFacts& role : roles)
    if (role.trains())
      if (auto line = gradients(spec, role, plan)) lines.push_back(std::move(*line));
  return lines;
}

}  // namespace cohort::plan::job
