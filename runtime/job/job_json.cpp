#include "runtime/job/job_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

// How elements of lists are written, found by nlohmann's library by their types.
namespace cohort {
using Json = nlohmann::ordered_json;

static void to_json(Json& j, const CardId& card) { j = card.value; }

namespace plan {

static void to_json(Json& j, const PlanNumber& x) {
  j = {{"name", x.name}, {"value", x.value}, {"arithmetic", x.arithmetic}};
}

static void to_json(Json& j, const HeldObject& x) {
  j = {{"role", x.role}, {"object", to_string(x.object)}, {"bytes", x.bytes}};
}

static void to_json(Json& j, const TransientBytes& x) {
  j = {{"role", x.role}, {"name", x.name}, {"bytes", x.bytes}, {"arithmetic", x.arithmetic}};
}

static void to_json(Json& j, const ReshardLine& x) {
  j = {{"mode", to_string(x.mode)}};
  if (!x.refused.empty())
    j["refused"] = x.refused;
  else
    j.update({{"receive_total_bytes", x.receive_total},
              {"receive_max_bytes", x.receive_max},
              {"send_max_bytes", x.send_max},
              {"staging_max_bytes", x.staging_max},
              {"lower_bound_total_bytes", x.lower_bound_total},
              {"seconds", x.seconds}});
}

static void to_json(Json& j, const TrafficLine& x) {
  j = {{"name", x.name},
       {"bytes_max_card", x.bytes_max_card},
       {"bytes_total", x.bytes_total},
       {"seconds", x.seconds},
       {"arithmetic", x.arithmetic}};
}

static void to_json(Json& j, const Remedy& x) {
  j = {{"key", x.key}, {"text", x.text}, {"fits", x.refused.empty() && x.fits}};
  if (!x.refused.empty())
    j["refused"] = x.refused;
  else
    j["peak"] = {{"card", x.card.value},
                 {"phase", to_string(x.phase)},
                 {"bytes", x.peak_bytes},
                 {"budget_bytes", x.budget_bytes}};
}

static void to_json(Json& j, const PlanWarning& x) { j = {{"key", x.key}, {"text", x.text}}; }

}  // namespace plan

namespace config {
static void to_json(Json& j, const Note& x) {
  j = {{"key", x.key}, {"where", x.where}, {"text", x.text}};
}
}  // namespace config

namespace job {
namespace {

Json card_json(const plan::JobSpec& spec) {
  const plan::CardType& card = spec.card;
  uint32_t per_node = spec.cards_per_node > 0 ? spec.cards_per_node : card.cards_per_node;
  return {{"type", card.name},
          {"device", card.device},
          {"capacity_bytes", card.capacity_bytes},
          {"reserve_bytes", card.reserve_bytes},
          {"cards_per_node", per_node},
          {"link_gb_per_s", card.link_gb_per_s},
          {"network_gb_per_s", card.network_gb_per_s},
          {"host_gb_per_s", card.host_gb_per_s}};
}

Json model_json(const Job& job) {
  const model::ModelShape& x = job.spec.model;
  Json out = {{"name", job.model_name},
              {"shape_of", x.name},
              {"parameters", model::parameter_count(x)},
              {"vocab_size", x.vocab_size},
              {"hidden_size", x.hidden_size},
              {"num_hidden_layers", x.num_hidden_layers},
              {"num_attention_heads", x.num_attention_heads},
              {"num_key_value_heads", x.num_key_value_heads},
              {"head_dim", x.head_dim},
              {"intermediate_size", x.intermediate_size},
              {"tie_word_embeddings", x.tie_word_embeddings}};
  if (x.moe) {
    out["num_experts"] = x.moe->num_experts;
    out["num_experts_per_tok"] = x.moe->experts_per_token;
    out["moe_intermediate_size"] = x.moe->moe_intermediate_size;
  }
  return out;
}

Json roles_json(const Job& job, const plan::JobPlan& plan) {
  Json out = Json::array();
  for (const plan::RolePlan& role : plan.roles) {
    Json bytes = Json::object();
    if (const plan::RoleSpec* placed = plan.placement.find(role.role))
      for (const auto& [object, size] : placed->bytes_per_card)
        bytes[std::string(plan::to_string(object))] = size;
    auto asked = std::ranges::find(job.spec.roles, role.role, &plan::RoleJob::name);
    Json entry = {{"role", role.role},
                  {"cards", role.cards},
                  {"engine_asked", role.engine_asked},
                  {"engine", plan::to_string(asked->engine)},
                  {"engine_note", role.engine_note},
                  {"tp", role.tp},
                  {"pp", role.pp},
                  {"cp", role.cp},
                  {"ep", role.ep},
                  {"dp", role.dp},
                  {"zero_stage", asked->zero_stage},
                  {"replicas", role.replicas},
                  {"parameters", role.parameters},
                  {"elements_per_card", role.elements_per_card},
                  {"bytes_per_card", bytes},
                  {"numbers", role.numbers}};
    if (role.kv_tokens > 0) {
      entry["kv_tokens"] = role.kv_tokens;
      entry["kv_sequences"] = role.kv_sequences;
      entry["is_cache_too_small"] = role.is_cache_too_small;
    }
    out.push_back(std::move(entry));
  }
  return out;
}

Json batch_json(const plan::BatchPlan& x) {
  return {{"trajectories", x.trajectories},
          {"groups", x.groups},
          {"per_rank", x.per_rank},
          {"optimizer_batch", x.optimizer_batch},
          {"mini_per_rank", x.mini_per_rank},
          {"micro_batch", x.micro_batch},
          {"accumulation", x.accumulation},
          {"optimizer_steps_per_step", x.optimizer_steps_per_step},
          {"optimizer_steps_total", x.optimizer_steps_total},
          {"steps", x.steps},
          {"log_prob_passes", x.log_prob_passes},
          {"replicas", x.replicas},
          {"waves", x.waves},
          {"val_trajectories", x.val_trajectories},
          {"val_groups", x.val_groups},
          {"recompute_old_log_prob", x.recompute_old_log_prob},
          {"numbers", x.numbers}};
}

Json phases_json(const plan::JobPlan& plan) {
  Json out = Json::array();
  for (const plan::JobPhase& phase : plan.phases) {
    Json cards = Json::array();
    for (const CardRange& range : equal_cards(phase)) {
      const plan::CardPhase& x = *range.phase;
      cards.push_back({{"cards", range.cards},
                       {"objects", x.objects},
                       {"transients", x.transients},
                       {"object_bytes", x.object_bytes},
                       {"transient_bytes", x.transient_bytes},
                       {"bytes", x.bytes()},
                       {"fits", x.fits}});
    }
    out.push_back({{"phase", plan::to_string(phase.phase)}, {"cards", std::move(cards)}});
  }
  return out;
}

}  // namespace

std::vector<CardRange> equal_cards(const plan::JobPhase& phase) {
  std::vector<CardRange> ranges;
  for (const plan::CardPhase& card : phase.cards) {
    auto same = std::ranges::find_if(ranges, [&](const CardRange& range) {
      return range.phase->objects == card.objects && range.phase->transients == card.transients;
    });
    if (same == ranges.end()) same = ranges.insert(ranges.end(), {{}, &card});
    same->cards.push_back(card.card);
  }
  return ranges;
}

uint64_t counted_bytes(const Job& job, const plan::CardPhase& phase) {
  return job.spec.card.name == "cpu" ? phase.object_bytes : phase.bytes();
}

Json job_json(const config::RunConfig& config, const Job& job, const plan::JobPlan& plan) {
  Json out;
  out["plan_format"] = 1;
  out["exp_name"] = config.exp_name;
  out["dialect"] = config::to_string(config.dialect);
  out["pipeline"] = config::to_string(config.pipeline);
  out["mode"] = plan::to_string(plan.placement.mode);
  out["offload"] = plan::to_string(job.spec.offload);
  out["init_cache"] = plan::to_string(job.spec.init_cache);
  out["fits"] = plan.fits;
  out["peak"] = {{"card", plan.peak_card.value},
                 {"phase", plan::to_string(plan.peak_phase)},
                 {"bytes", plan.peak_bytes},
                 {"budget_bytes", plan.budget_bytes}};
  out["host_bytes_per_node"] = plan.host_bytes_per_node;
  out["card"] = card_json(job.spec);
  out["model"] = model_json(job);
  out["roles"] = roles_json(job, plan);
  if (plan.batch) out["batch"] = batch_json(*plan.batch);
  out["phases"] = phases_json(plan);
  out["reshard"] = plan.reshard;
  out["traffic"] = plan.traffic;
  out["remedies"] = plan.remedies;
  out["assumptions"] = job.assumptions;
  out["engine_notes"] = plan.notes;
  out["keys_without_effect"] = config.notes;
  out["config_warnings"] = config.warnings;
  out["plan_warnings"] = plan.warnings;
  return out;
}

}  // namespace job
}  // namespace cohort
