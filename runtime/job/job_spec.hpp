#pragma once
/// From a validated config, of either dialect, to the numbers that the planner plans
/// (plan::JobSpec): which roles there are and on which cards, whose arithmetic their bytes
/// follow, which shape, which batch. Pure: reads no file and needs no torch, so that `actor-node
/// plan` and a run's preflight have one source of truth. What the config leaves open (the card
/// type, most often) is settled by a rule and said in `assumptions`. Value types, thread-safe.
/// Bound: a role per section of the config.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/model/lora.hpp"
#include "runtime/plan/estimate/job.hpp"

namespace cohort::job {

struct JobOptions {
  std::string card;  // card type by name; empty: `cards.type`, else it follows from the platform
  std::string config_name;  // file name, a hint at the platform; may be empty
  int64_t vocab_size = 0;   // of the tokenizer of the `model` section
  /// Shapes by the name that the config gives (model_names()); what is not here is looked up in the
  /// planner's own table.
  std::map<std::string, model::ModelShape> models;
  std::optional<model::LoraShape> lora =
      {};  // of adapter_name_or_path; none: lora_target's, if any
};

struct Job {
  plan::JobSpec spec;
  std::string model_name;                      // as the config names the policy
  std::vector<plan::PlanWarning> assumptions;  // what was left open, and how it was settled
};

/// Returns every checkpoint that a role of the plan starts from, as the config names it, each once.
/// Empty: the model is the `model` section.
std::vector<std::string> model_names(const config::RunConfig& config);

/// How the training state is cut over the train cards and where it rests.
struct ZeroSettings {
  uint32_t stage = 0;  // 0 on one card: there is nothing to cut
  bool offload_optimizer = false, offload_params = false, swap_optimizer = false;
  uint32_t expert_ways = 1;  // cards over which routed experts are cut
};

/// Returns what the strategy of a role that trains asks for (actor_train, critic): deepspeed_*'s
/// zero_stage, FSDP as stage 3, Megatron's distributed optimizer as stage 1; ep_size or
/// expert_model_parallel_size. Under an adapter the model is whole on each card, and FSDP is stage
/// 2. `role` is a section of `config`.
ZeroSettings zero_of(const config::RunConfig& config, const config::WorkerConfig& role);

/// Returns the tokens of a judge's dialogue, its reply included: as many as its model has
/// positions, at most four times sequence_length and the reply, since its ids may be others than
/// the policy's.
int64_t judge_context(const config::RunConfig& config, const config::RewardConfig& judge,
                      const model::ModelShape& shape);

/// Returns the adapter that actor_train trains over a model of `shape`, targets resolved; none for
/// full fine-tuning. Returns Errc::config naming the key.
Expected<std::optional<model::LoraShape>> lora_of(const config::RunConfig& config,
                                                  const model::ModelShape& shape);

/// Returns Errc::not_found for a card type or a model without a known shape (with the nearest
/// names), Errc::config for what cannot be planned (a pipeline without rollout).
Expected<Job> job_of(const config::RunConfig& config, const JobOptions& options = {});

}  // namespace cohort::job
