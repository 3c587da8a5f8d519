// What to change when a job does not fit its cards.
#include <algorithm>
#include <optional>

#include "runtime/plan/estimate/job_parts.hpp"

namespace cohort::plan::job {
namespace {

bool trains(const RoleJob& job) {
  return job.name == Role::actor_train || job.name == Role::critic;
}
/// A changed job and how the change is written in the config.
struct Change {
  std::string key, text;
  JobSpec spec;
  std::string refused;
  void say(const std::string& what) { text += (text.empty() ? "" : ", ") + what; }
  std::optional<Change> if_any() && {
    return text.empty() ? std::nullopt : std::optional(std::move(*this));
  }
};

std::string zero_fragment(const RoleJob& job) {
  return job.zero_stage >= 3 ? "${deepspeed_zero3_cpuoffload}" : "${deepspeed_zero2_cpuoffload}";
}

std::optional<Change> cpu_offload(const JobSpec& spec) {
  Change out{"cpu_offload", "", spec, ""};
  for (RoleJob& job : out.spec.roles) {
    if (!trains(job) || job.cards.empty() || job.offload_optimizer) continue;
    job.offload_optimizer = true;
    if (job.engine == Engine::deepspeed || job.engine == Engine::builtin) {
      job.zero_stage = std::max(job.zero_stage, 2u);
      // ROLL's zero2 fragment offloads parameters too.
      if (job.zero_stage == 2) job.offload_params = true;
      out.say(job.name + ".strategy_args.strategy_config=" + zero_fragment(job));
    } else if (spec.dialect == Dialect::verl) {
      out.say(job.name == Role::critic
                  ? "critic.model.fsdp_config.optimizer_offload=True"
                  : "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True");
    } else {
      out.say(job.name + ": optimizer in host memory (CPU offload)");
    }
  }
  return std::move(out).if_any();
}

std::optional<Change> batch_one(const JobSpec& spec) {
  Change out{"batch_1", "", spec, ""};
  for (RoleJob& job : out.spec.roles) {
    if (!trains(job) || job.cards.empty() || job.packed_tokens > 0 || job.micro_batch <= 1)
      continue;
    uint64_t times = job.micro_batch;
    job.micro_batch = 1;
    std::string by = std::to_string(times);
    if (spec.dialect == Dialect::verl) {
      out.say(std::string(job.name == Role::critic ? "critic" : "actor_rollout_ref.actor") +
              ".ppo_micro_batch_size_per_gpu=1 (accumulation x " + by + ")");
      if (out.spec.batch) out.spec.batch->micro_batch_size = 1;
      continue;
    }
    out.say(job.name +
            ".training_args.per_device_train_batch_size=1, gradient_accumulation_steps x " + by);
    if (!out.spec.batch || job.name != Role::actor_train) continue;
    out.spec.batch->gradient_accumulation_steps *= out.spec.batch->per_device_train_batch_size;
    out.spec.batch->per_device_train_batch_size = 1;
    out.text += " = " + std::to_string(out.spec.batch->gradient_accumulation_steps);
  }
  return std::move(out).if_any();
}

/// Log-probability passes of one sequence: their logits are often the largest thing on a card.
std::optional<Change> log_prob_one(const JobSpec& spec) {
  Change out{"log_prob_batch", "", spec, ""};
  for (RoleJob& job : out.spec.roles) {
    bool computes = trains(job) || is_frozen(job.name);
    if (!computes || job.cards.empty() || job.packed_tokens > 0 || job.log_prob_micro_batch <= 1)
      continue;
    job.log_prob_micro_batch = 1;
    if (job.name == Role::actor_train && out.spec.batch) out.spec.batch->log_prob_batch_size = 1;
    out.say(spec.dialect == Dialect::roll ? job.name + ".infer_batch_size=1"
            : job.name == Role::reference
                ? "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1"
                : "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1");
  }
  return std::move(out).if_any();
}

std::optional<Change> checkpointing(const JobSpec& spec) {
  Change out{"checkpointing", "", spec, ""};
  for (RoleJob& job : out.spec.roles) {
    if (!trains(job) || job.cards.empty() || job.gradient_checkpointing) continue;
    if (job.engine == Engine::builtin) continue;  // it keeps activations
    job.gradient_checkpointing = true;
    out.say(spec.dialect == Dialect::verl
                ? "actor_rollout_ref.model.enable_gradient_checkpointing=True"
                : job.name + ".model_args.disable_gradient_checkpointing=false");
  }
  return std::move(out).if_any();
}

/// Sequences of at most `tokens`, in training and in generation.
std::optional<Change> shorter(const JobSpec& spec, uint64_t tokens) {
  Change out{"max_model_len", "", spec, ""};
  uint64_t length = sequence_length(spec);
  if (tokens == 0 || tokens >= length) return std::nullopt;
  // A context longer than the prompt is what makes an answer possible.
  if (tokens <= spec.prompt_length) return std::nullopt;
  out.spec.sequence_length = tokens;
  if (spec.response_length > 0) out.spec.response_length = tokens - spec.prompt_length;
  for (RoleJob& job : out.spec.roles)
    if (job.max_model_len > 0) job.max_model_len = std::min(job.max_model_len, tokens);
  std::string value = std::to_string(tokens);
  if (spec.dialect == Dialect::verl)
    out.text = "data.max_response_length=" + std::to_string(tokens - spec.prompt_length) +
               " and actor_rollout_ref.rollout.max_model_len=" + value;
  else
    out.text = "actor_infer.strategy_args.strategy_config.max_model_len=" + value +
               (spec.response_length > 0
                    ? " and response_length=" + std::to_string(tokens - spec.prompt_length)
                    : " and sequence_length=" + value);
  return out;
}

/// Sets the share of every serving engine that is above it, or with `is_raised` below it.
std::optional<Change> utilization(const JobSpec& spec, double value, bool is_raised) {
  Change out{"utilization", "", spec, ""};
  bool is_changed = false;
  for (RoleJob& job : out.spec.roles) {
    if (!serves(job) || job.cards.empty() || job.engine == Engine::builtin) continue;
    if (is_raised ? job.memory_utilization >= value : job.memory_utilization <= value) continue;
    job.memory_utilization = value;
    is_changed = true;
  }
  if (!is_changed) return std::nullopt;
  std::string percent = std::to_string(static_cast<int>(value * 100 + 0.5));
  out.text = (spec.dialect == Dialect::verl
                  ? "actor_rollout_ref.rollout.gpu_memory_utilization=0."
                  : "actor_infer.strategy_args.strategy_config.gpu_memory_utilization=0.") +
             percent;
  return out;
}

std::string list_of(const std::vector<CardId>& cards) {
  std::string out = "[";
  for (CardId card : cards) out += (out.size() > 1 ? "," : "") + std::to_string(card.value);
  return out + "]";
}

/// D times the training ranks: accumulation shrinks, so that the optimizer batch stays.
void keep_optimizer_batch(BatchOptions& batch, uint64_t times, Change& out) {
  batch.train_cards *= times;
  if (batch.kind == BatchKind::verl) return;
  if (batch.gradient_accumulation_steps % times != 0) {
    out.refused = "gradient_accumulation_steps " +
                  std::to_string(batch.gradient_accumulation_steps) + " does not divide by " +
                  std::to_string(times) + ", so the optimizer batch would change";
    return;
  }
  batch.gradient_accumulation_steps /= times;
  out.text += fmt::format(" (gradient_accumulation_steps={})", batch.gradient_accumulation_steps);
}

/// `times` the cards of the roles that are on `card`; shared cards stay shared.
std::optional<Change> more_cards(const JobSpec& spec, CardId card, uint32_t times) {
  Change out{"more_cards", "", spec, ""};
  uint32_t next = 0;
  for (const RoleJob& job : spec.roles)
    for (CardId id : job.cards) next = std::max(next, id.value + 1);
  bool has_train = false;
  for (RoleJob& job : out.spec.roles) {
    bool is_on = std::ranges::find(job.cards, card) != job.cards.end();
    if (job.cards.empty() || (!is_on && spec.mode == PlacementMode::separate)) continue;
    // An image of the cards at a distance of `next`: what overlapped overlaps there too.
    std::vector<CardId> old = job.cards;
    for (uint32_t copy = 1; copy < times; ++copy)
      for (CardId id : old) job.cards.push_back({id.value + copy * next});
    has_train = has_train || job.name == Role::actor_train;
    if (job.name == Role::actor_infer && out.spec.batch && out.spec.batch->infer_cards > 0)
      out.spec.batch->infer_cards *= times;
    if (job.cards.size() > 1024) return std::nullopt;
    out.say(job.name + ": " + std::to_string(job.cards.size()) + " cards");
    if (spec.dialect == Dialect::roll && job.cards.size() <= 16)
      out.text += " (device_mapping: " + list_of(job.cards) + ")";
  }
  if (has_train && out.spec.batch) keep_optimizer_batch(*out.spec.batch, times, out);
  return out;
}

Remedy trial(Change change) {
  Remedy out;
  out.key = change.key;
  out.text = change.text;
  out.refused = change.refused;
  if (!out.refused.empty()) return out;
  auto plan = plan_once(change.spec, true);
  if (!plan) {
    out.refused = plan.error().detail;
    return out;
  }
  out.peak_bytes = plan->peak_bytes;
  out.budget_bytes = plan->budget_bytes;
  out.card = plan->peak_card;
  out.phase = plan->peak_phase;
  out.fits = plan->fits;
  return out;
}

/// Keeps the first of a row of ever stronger changes that fits, else the last that was possible.
struct Search {
  std::optional<Remedy> best;
  bool done() const { return best && best->fits; }
  void offer(Remedy remedy) {
    if (!best || remedy.refused.empty() || !best->refused.empty()) best = std::move(remedy);
  }
};

CardId fullest_card(const JobPlan& plan) {
  for (const RolePlan& role : plan.roles)
    if (role.is_cache_too_small) return role.cards.front();
  return plan.peak_card;
}

Change all_together(const JobSpec& spec) {
  Change out{"all", "", spec, ""};
  auto join = [&](const std::optional<Change>& change) {
    if (!change || !change->refused.empty()) return;
    out.spec = change->spec;
    out.text += (out.text.empty() ? "" : "; ") + change->text;
  };
  join(cpu_offload(out.spec));
  join(batch_one(out.spec));
  join(log_prob_one(out.spec));
  join(checkpointing(out.spec));
  join(shorter(out.spec, sequence_length(out.spec) / 2));
  return out;
}

}  // namespace

std::vector<Remedy> try_remedies(const JobSpec& spec, const JobPlan& plan) {
  std::vector<Remedy> remedies;
  // What does not fit and lowers no peak is no remedy.
  auto keep = [&](Remedy remedy) {
    bool helps = remedy.fits || !remedy.refused.empty() || remedy.peak_bytes < plan.peak_bytes;
    if (helps) remedies.push_back(std::move(remedy));
  };
  for (auto make : {cpu_offload, batch_one, log_prob_one, checkpointing})
    if (auto change = make(spec)) keep(trial(std::move(*change)));
  Search lengths, shares, cards;
  uint64_t length = sequence_length(spec);
  bool is_cache_short =
      std::ranges::any_of(plan.roles, [](const RolePlan& role) { return role.is_cache_too_small; });
  for (uint64_t by = 2; by <= 8 && !lengths.done(); by *= 2)
    if (auto change = shorter(spec, length / by)) lengths.offer(trial(std::move(*change)));
  for (int step = 0; step < 8 && !shares.done(); ++step) {
    double share = (is_cache_short ? 20 + 10 * step : 90 - 10 * step) / 100.0;
    if (auto change = utilization(spec, share, is_cache_short))
      shares.offer(trial(std::move(*change)));
  }
  for (uint32_t times = 2; times <= 8 && !cards.done(); times *= 2)
    if (auto change = more_cards(spec, fullest_card(plan), times))
      cards.offer(trial(std::move(*change)));
  for (Search* search : {&lengths, &shares, &cards})
    if (search->best) keep(std::move(*search->best));
  Change all = all_together(spec);
  if (all.text.find("; ") != std::string::npos) keep(trial(std::move(all)));
  return remedies;
}

}  // namespace cohort::plan::job
