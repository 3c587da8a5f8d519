/// verl's cards and batch algebra: what divides what, in prompts, trajectories and ranks.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/config/verl/verl_check.hpp"
#include "runtime/config/verl/verl_rows.hpp"

namespace cohort::config {
namespace {

const char* plural(int64_t count) { return count == 1 ? "" : "s"; }

/// "; nearest that work: 2, 4": the neighbours of `value` among what `works` accepts, up to `max`.
template <class Works>
std::string nearest(int64_t value, int64_t max, const Works& works) {
  static constexpr int64_t k_steps_max = 1 << 16;  // a neighbour further off helps nobody
  int64_t below = std::min(value - 1, max);
  int64_t low = std::max<int64_t>(0, below - k_steps_max);
  while (below > low && !works(below)) --below;
  int64_t over = value + 1;
  int64_t high = std::min(max, over + k_steps_max);
  while (over <= high && !works(over)) ++over;
  std::string text;
  if (below > low) text = fmt::format("{}", below);
  if (over <= high) text += fmt::format("{}{}", text.empty() ? "" : ", ", over);
  return text.empty() ? "" : "; nearest that work: " + text;
}

std::string cards_text(const VerlConfig& c, bool is_pool) {
  if (is_pool)
    return fmt::format("nnodes {} x n_gpus_per_node {}", c.rollout_pool.nnodes.value_or(0),
                       c.rollout_pool.n_gpus_per_node.value_or(0));
  return fmt::format("nnodes {} x n_gpus_per_node {}", c.trainer.nnodes, c.trainer.n_gpus_per_node);
}

/// Data-parallel size of a training role, or 0 with a problem.
int64_t data_parallel(const VerlConfig& c, Findings& f, const std::string& role,
                      VerlStrategy strategy, const VerlMegatron& m, int64_t ulysses,
                      int64_t cards) {
  if (strategy != VerlStrategy::megatron) {
    if (ulysses > 0 && cards % ulysses == 0) return cards / ulysses;
    verl_problem(f, role + ".ulysses_sequence_parallel_size",
                 "{} cards = {} are not a multiple of {}{}", cards, cards_text(c, false), ulysses,
                 nearest(ulysses, cards, [&](int64_t x) { return cards % x == 0; }));
    return 0;
  }
  int64_t rest = m.pipeline_model_parallel_size * m.context_parallel_size;
  int64_t unit = m.tensor_model_parallel_size * rest;
  if (cards % unit != 0) {
    verl_problem(f, role + ".megatron.tensor_model_parallel_size",
                 "{} cards = {} are not a multiple of {} = tensor {} x pipeline {} x context {}{}",
                 cards, cards_text(c, false), unit, m.tensor_model_parallel_size,
                 m.pipeline_model_parallel_size, m.context_parallel_size,
                 nearest(m.tensor_model_parallel_size, cards,
                         [&](int64_t x) { return cards % (x * rest) == 0; }));
    return 0;
  }
  int64_t expert_tensor = m.expert_tensor_parallel_size.value_or(m.tensor_model_parallel_size);
  int64_t expert_rest = expert_tensor * m.pipeline_model_parallel_size;
  // without experts EP and expert TP decide nothing
  if (m.expert_model_parallel_size > 1 && cards % (m.expert_model_parallel_size * expert_rest) != 0)
    verl_problem(f, role + ".megatron.expert_model_parallel_size",
                 "{} cards = {} are not a multiple of {} = expert {} x expert tensor {} x "
                 "pipeline {}{}",
                 cards, cards_text(c, false), m.expert_model_parallel_size * expert_rest,
                 m.expert_model_parallel_size, expert_tensor, m.pipeline_model_parallel_size,
                 nearest(m.expert_model_parallel_size, cards,
                         [&](int64_t x) { return cards % (x * expert_rest) == 0; }));
  return cards / unit;
}

void check_engine_cards(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  const VerlRollout& r = c.rollout;
  const std::string path = "actor_rollout_ref.rollout.";
  int64_t rest = r.data_parallel_size * r.pipeline_model_parallel_size;
  int64_t unit = r.tensor_model_parallel_size * rest;
  if (r.pipeline_model_parallel_size > 1)
    verl_problem(f, path + "pipeline_model_parallel_size",
                 "{}: verl's engines have no pipeline stages; use 1 and a larger "
                 "tensor_model_parallel_size",
                 r.pipeline_model_parallel_size);
  if (n.rollout_cards % unit != 0)
    verl_problem(f, path + "tensor_model_parallel_size",
                 "{} cards = {} are not a multiple of {} = tensor {} x data {} x pipeline {}{}",
                 n.rollout_cards, cards_text(c, !c.hybrid_engine), unit,
                 r.tensor_model_parallel_size, r.data_parallel_size, r.pipeline_model_parallel_size,
                 nearest(r.tensor_model_parallel_size, n.rollout_cards,
                         [&](int64_t x) { return n.rollout_cards % (x * rest) == 0; }));
  else
    n.infer_replicas = n.rollout_cards / unit;
  int64_t experts = r.tensor_model_parallel_size * r.data_parallel_size;
  if (r.expert_parallel_size != 1 && r.expert_parallel_size != experts)
    verl_problem(f, path + "expert_parallel_size", "{} is neither 1 nor {} = tensor {} x data {}",
                 r.expert_parallel_size, experts, r.tensor_model_parallel_size,
                 r.data_parallel_size);
}

struct MicroKeys {
  std::string role;  // "actor_rollout_ref.actor"
  std::string size;  // "ppo_micro_batch_size"
  std::string dynamic;
  std::string tokens;
  bool is_required = true;
};

/// As verl wants: exactly one of the two micro keys, or dynamic batches.
VerlPasses resolve_micro(Findings& f, const VerlMicro& m, const MicroKeys& keys,
                         const VerlPasses& like, int64_t ranks) {
  std::string old_key = keys.role + "." + keys.size;
  std::string new_key = old_key + "_per_gpu";
  VerlPasses passes;
  passes.is_dynamic = m.use_dynamic_bsz.value_or(like.is_dynamic);
  passes.tokens_max = m.max_token_len_per_gpu.value_or(like.tokens_max);
  if (f.broken.contains(old_key) || f.broken.contains(new_key)) return passes;
  if (passes.is_dynamic) {
    for (const std::string& key : {old_key, new_key})
      if (f.has(key))
        f.warn(key, "has no effect under {}: passes are cut at {} tokens", keys.dynamic,
               passes.tokens_max);
    return passes;
  }
  std::string tokens_key = keys.role + "." + keys.tokens;
  if (f.has(tokens_key)) f.warn(tokens_key, "has no effect without {}", keys.dynamic);
  if (m.micro_batch_size && m.micro_batch_size_per_gpu) {
    verl_problem(f, old_key,
                 "given beside {}_per_gpu {}: verl refuses both; remove this one, it is deprecated",
                 keys.size, *m.micro_batch_size_per_gpu);
  } else if (m.micro_batch_size && ranks > 0) {
    passes.per_card = *m.micro_batch_size / ranks;
    if (passes.per_card == 0)
      verl_problem(f, old_key,
                   "{} trajectories over {} ranks are less than one each; use {}_per_gpu",
                   *m.micro_batch_size, ranks, keys.size);
    else
      f.warn(old_key, "deprecated: {} over {} ranks is {}_per_gpu {}", *m.micro_batch_size, ranks,
             keys.size, passes.per_card);
  } else if (m.micro_batch_size_per_gpu) {
    passes.per_card = *m.micro_batch_size_per_gpu;
  } else if (keys.is_required && !m.micro_batch_size) {
    verl_problem(f, new_key, "missing: verl has no default; give it, or {} true", keys.dynamic);
  }
  return passes;
}

void check_token_room(Findings& f, const VerlNumbers& n, const VerlPasses& passes,
                      const std::string& key, int64_t ulysses) {
  if (!passes.is_dynamic || n.prompt == 0 || n.response == 0) return;
  int64_t longest = n.prompt + n.response;
  if (passes.tokens_max * ulysses < longest)
    verl_problem(f, key,
                 "{} x {} card{} of a sequence = {} tokens do not hold the longest "
                 "trajectory: {} = max_prompt_length {} + max_response_length {}",
                 passes.tokens_max, ulysses, plural(ulysses), passes.tokens_max * ulysses, longest,
                 n.prompt, n.response);
}

void check_train_batch(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  int64_t samples = c.rollout.sampling.n;
  int64_t prompts = c.data.train_batch_size;
  bool is_megatron = c.actor.strategy == VerlStrategy::megatron;
  int64_t unit = is_megatron ? n.train_dp * std::max<int64_t>(1, n.train.per_card) : n.train_cards;
  if (!usable(f, {"data.train_batch_size", "actor_rollout_ref.rollout.n"}) || unit == 0) return;
  n.trajectories_per_step = prompts * samples;
  if (n.trajectories_per_step % unit != 0) {
    int64_t step = unit / std::gcd(unit, samples);
    std::string what = is_megatron
                           ? fmt::format("{} = {} data-parallel ranks x {} trajectories a pass",
                                         unit, n.train_dp, std::max<int64_t>(1, n.train.per_card))
                           : fmt::format("{} cards", unit);
    verl_problem(f, "data.train_batch_size",
                 "{} prompts x n {} = {} trajectories are not a multiple of {}{}", prompts, samples,
                 n.trajectories_per_step, what,
                 nearest(prompts, prompts + step, [&](int64_t x) { return x % step == 0; }));
    return;
  }
  n.trajectories_per_rank = n.train_dp > 0 ? n.trajectories_per_step / n.train_dp : 0;
  if (n.trajectories_per_step % c.rollout.agent_num_workers != 0)
    f.warn("actor_rollout_ref.rollout.agent.num_workers",
           "verl would stop: {} trajectories do not split evenly over {} workers; no effect here",
           n.trajectories_per_step, c.rollout.agent_num_workers);
}

/// Mini-batch of a rank as verl normalises it: prompts * n / ranks, rounded down.
int64_t mini_of_rank(const VerlConfig& c, Findings& f, const std::string& key, int64_t prompts,
                     int64_t ranks) {
  int64_t samples = c.rollout.sampling.n;
  if (ranks == 0) return 0;
  int64_t mini = prompts * samples / ranks;
  if (prompts > c.data.train_batch_size) {
    verl_problem(f, key, "{} prompts are more than data.train_batch_size {}", prompts,
                 c.data.train_batch_size);
    return 0;
  }
  if (mini == 0) {
    verl_problem(f, key,
                 "{} prompts x n {} = {} trajectories are fewer than {} data-parallel "
                 "ranks; the smallest that works: {}",
                 prompts, samples, prompts * samples, ranks, (ranks + samples - 1) / samples);
    return 0;
  }
  if (prompts * samples % ranks != 0)
    f.warn(key,
           "{} prompts x n {} = {} trajectories over {} ranks are not whole: "
           "verl rounds down, an optimizer step takes {} x {} = {}",
           prompts, samples, prompts * samples, ranks, ranks, mini, ranks * mini);
  if (int64_t rest = c.data.train_batch_size % prompts; rest != 0)
    f.warn(key,
           "data.train_batch_size {} % {} = {}: verl does not check this and scales the last, "
           "shorter mini-batch wrongly; here it is normalised by its own counts",
           c.data.train_batch_size, prompts, rest);
  return mini;
}

void check_mini_batch(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  const std::string role = "actor_rollout_ref.actor.";
  if (!usable(f, {"actor_rollout_ref.actor.ppo_mini_batch_size", "data.train_batch_size",
                  "actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.ppo_epochs"}))
    return;
  n.mini_batch_per_rank =
      mini_of_rank(c, f, role + "ppo_mini_batch_size", c.actor.ppo_mini_batch_size, n.train_dp);
  if (n.mini_batch_per_rank == 0) return;
  if (n.train.per_card > 0 && n.mini_batch_per_rank % n.train.per_card != 0)
    verl_problem(f,
                 role + (c.actor.micro.micro_batch_size ? "ppo_micro_batch_size"
                                                        : "ppo_micro_batch_size_per_gpu"),
                 "{} does not divide {}, the mini-batch of a rank = "
                 "ppo_mini_batch_size {} x n {} / {} ranks{}",
                 n.train.per_card, n.mini_batch_per_rank, c.actor.ppo_mini_batch_size,
                 c.rollout.sampling.n, n.train_dp,
                 nearest(n.train.per_card, n.mini_batch_per_rank,
                         [&](int64_t x) { return n.mini_batch_per_rank % x == 0; }));
  if (n.trajectories_per_rank > 0)
    n.optimizer_steps_per_step =
        c.actor.ppo_epochs *
        ((n.trajectories_per_rank + n.mini_batch_per_rank - 1) / n.mini_batch_per_rank);
  // The recipe asserts train_batch_size == ppo_mini_batch_size.
  if (n.optimizer_steps_per_step > 1 && !c.actor.recompute_old_log_prob &&
      !c.algorithm.rollout_correction.bypass_mode)
    verl_problem(f, role + "recompute_old_log_prob",
                 "False takes the old log-probabilities from the update's own forward "
                 "pass, which is right only on-policy: data.train_batch_size {} must "
                 "be ppo_mini_batch_size {} and ppo_epochs 1, not {} optimizer steps",
                 c.data.train_batch_size, c.actor.ppo_mini_batch_size, n.optimizer_steps_per_step);
}

void check_critic_batch(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  if (!n.has_critic || !usable(f, {"critic.ppo_mini_batch_size", "data.train_batch_size"})) return;
  int64_t prompts = c.critic.ppo_mini_batch_size.value_or(c.actor.ppo_mini_batch_size);
  n.critic_mini_per_rank = mini_of_rank(c, f, "critic.ppo_mini_batch_size", prompts, n.critic_dp);
  if (n.critic_mini_per_rank > 0 && n.critic.per_card > 0 &&
      n.critic_mini_per_rank % n.critic.per_card != 0)
    verl_problem(f, "critic.ppo_micro_batch_size_per_gpu",
                 "{} does not divide {}, the mini-batch of a rank{}", n.critic.per_card,
                 n.critic_mini_per_rank,
                 nearest(n.critic.per_card, n.critic_mini_per_rank,
                         [&](int64_t x) { return n.critic_mini_per_rank % x == 0; }));
  if (const int64_t batch = n.critic_mini_per_rank * n.critic_dp; batch > 0)
    n.critic_steps_per_step = c.critic.ppo_epochs.value_or(c.actor.ppo_epochs) *
                              ((n.trajectories_per_step + batch - 1) / batch);
}

}  // namespace

void check_verl_cards(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  if (!usable(f, {"trainer.nnodes", "trainer.n_gpus_per_node", "actor_rollout_ref.hybrid_engine"}))
    return;
  n.train_cards = c.trainer.nnodes * c.trainer.n_gpus_per_node;
  int64_t pool = c.rollout_pool.nnodes.value_or(0) * c.rollout_pool.n_gpus_per_node.value_or(0);
  n.rollout_cards = c.hybrid_engine ? n.train_cards : pool;
  if (!c.hybrid_engine && pool == 0)
    verl_problem(f, "actor_rollout_ref.hybrid_engine",
                 "false needs a pool for the rollout: give rollout.nnodes and "
                 "rollout.n_gpus_per_node");
  for (const char* key : {"rollout.nnodes", "rollout.n_gpus_per_node"})
    if (c.hybrid_engine && f.has(key) && pool > 0)
      f.warn(key, "has no effect with hybrid_engine: the rollout is on the trainer's cards");
  const VerlActor& a = c.actor;
  n.train_dp = data_parallel(c, f, "actor_rollout_ref.actor", a.strategy, a.megatron,
                             a.ulysses_sequence_parallel_size, n.train_cards);
  if (n.is_reference_needed && n.train_dp > 0)  // it follows the actor: one problem is enough
    n.ref_dp = data_parallel(
        c, f, "actor_rollout_ref.ref", c.ref.strategy.value_or(a.strategy), c.ref.megatron,
        c.ref.ulysses_sequence_parallel_size.value_or(a.ulysses_sequence_parallel_size),
        n.train_cards);
  if (n.has_critic)
    n.critic_dp = data_parallel(c, f, "critic", c.critic.strategy, c.critic.megatron,
                                c.critic.ulysses_sequence_parallel_size, n.train_cards);
  if (n.rollout_cards > 0) check_engine_cards(c, f, n);
  int64_t shard = a.fsdp_config.fsdp_size;
  if (a.strategy != VerlStrategy::megatron && shard > 0 && n.train_cards % shard != 0)
    verl_problem(f, "actor_rollout_ref.actor.fsdp_config.fsdp_size",

                 "{} cards = {} are not a multiple of {}{}", n.train_cards, cards_text(c, false),
                 shard,
                 nearest(shard, n.train_cards, [&](int64_t x) { return n.train_cards % x == 0; }));
}

void check_verl_batches(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  if (n.train_dp == 0) return;
  const std::string actor = "actor_rollout_ref.actor";
  const std::string ref = "actor_rollout_ref.ref";
  const std::string rollout = "actor_rollout_ref.rollout";
  const std::string log_prob = "log_prob_micro_batch_size";
  n.train =
      resolve_micro(f, c.actor.micro,
                    {actor, "ppo_micro_batch_size", "use_dynamic_bsz", "ppo_max_token_len_per_gpu"},
                    {0, false, 16384}, n.train_dp);
  n.log_prob = resolve_micro(
      f, c.rollout.micro,
      {rollout, log_prob, "log_prob_use_dynamic_bsz", "log_prob_max_token_len_per_gpu"}, n.train,
      n.train_dp);
  if (n.is_reference_needed && n.ref_dp > 0)
    n.ref =
        resolve_micro(f, c.ref.micro,
                      {ref, log_prob, "log_prob_use_dynamic_bsz", "log_prob_max_token_len_per_gpu"},
                      n.train, n.ref_dp);
  if (n.has_critic && n.critic_dp > 0)
    n.critic = resolve_micro(
        f, c.critic.micro,
        {"critic", "ppo_micro_batch_size", "use_dynamic_bsz", "ppo_max_token_len_per_gpu"},
        {0, n.train.is_dynamic, 32768}, n.critic_dp);
  int64_t ulysses = c.actor.ulysses_sequence_parallel_size;
  check_token_room(f, n, n.train, actor + ".ppo_max_token_len_per_gpu", ulysses);
  check_token_room(f, n, n.log_prob, rollout + ".log_prob_max_token_len_per_gpu", ulysses);
  check_token_room(f, n, n.ref, ref + ".log_prob_max_token_len_per_gpu",
                   c.ref.ulysses_sequence_parallel_size.value_or(ulysses));
  check_train_batch(c, f, n);
  check_mini_batch(c, f, n);
  check_critic_batch(c, f, n);
}

namespace {

/// Rows of all training files; 0 where one is not known, with a warning that says why.
int64_t training_rows(const VerlConfig& c, Findings& f) {
  if (c.data.train_rows) return *c.data.train_rows;
  int64_t rows = 0;
  for (const std::string& path : c.data.train_files) {
    auto counted = count_rows(path);
    if (counted) {
      rows += *counted;
      continue;
    }
    auto known = known_rows(path);
    bool is_absent = counted.error().code == Errc::not_found;
    if (!is_absent || !known) {
      f.warn("data.train_files",
             "{}; the number of steps is not known: give "
             "data.train_rows, or trainer.total_training_steps",
             counted.error().detail);
      return 0;
    }
    f.warn("data.train_files",
           "{}; taken for {} with its {} rows, by its name (data.train_rows says otherwise)",
           counted.error().detail, known->dataset, known->rows);
    rows += known->rows;
  }
  return rows;
}

}  // namespace

void check_verl_rows(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  if (!usable(f,
              {"data.train_files", "data.train_rows", "data.train_batch_size",
               "data.train_max_samples", "trainer.total_epochs", "trainer.total_training_steps"}))
    return;
  const VerlTrainer& t = c.trainer;
  n.train_rows = training_rows(c, f);
  if (c.data.train_max_samples > 0 && n.train_rows > 0)
    n.train_rows = std::min(n.train_rows, c.data.train_max_samples);
  n.steps_per_epoch = n.train_rows / c.data.train_batch_size;
  n.total_steps = t.total_training_steps.value_or(n.steps_per_epoch * t.total_epochs);
  if (n.train_rows > 0 && n.steps_per_epoch == 0)
    verl_problem(f, "data.train_batch_size",
                 "{} prompts are more than the {} rows of data.train_files: the last "
                 "batch is dropped, so there is none",
                 c.data.train_batch_size, n.train_rows);
  if (t.total_training_steps && f.has("trainer.total_epochs"))
    f.warn("trainer.total_epochs", "has no effect beside total_training_steps {}",
           *t.total_training_steps);
  if (c.data.filter_overlong_prompts && n.train_rows > 0)
    f.warn("data.filter_overlong_prompts",
           "rows above max_prompt_length {} are dropped at the start: {} rows and {} "
           "steps are upper bounds",
           c.data.max_prompt_length, n.train_rows, n.total_steps);
}

}  // namespace cohort::config
