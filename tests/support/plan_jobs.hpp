#pragma once
/// Jobs of the seed documents as specs, for tests of the job planner.
#include <string>
#include <vector>

#include "runtime/plan/estimate/job.hpp"

namespace cohort::test {

inline std::vector<CardId> card_range(uint32_t first, uint32_t end) {
  std::vector<CardId> cards;
  for (uint32_t i = first; i < end; ++i) cards.push_back({i});
  return cards;
}

inline plan::RoleJob role_job(std::string name, plan::Engine engine, std::vector<CardId> cards) {
  plan::RoleJob job;
  job.name = std::move(name);
  job.engine = engine;
  job.engine_asked = std::string(plan::to_string(engine));
  job.cards = std::move(cards);
  return job;
}

/// Example 2 of the seed: Qwen3-8B, 8 + 4 + 4 cards, 2048 + 8192 tokens.
inline plan::JobSpec seed_two() {
  plan::JobSpec spec;
  spec.card = *plan::find_card_type("A3");
  spec.model = *model::find_model("Qwen/Qwen3-8B-Base");
  spec.prompt_length = 2048;
  spec.response_length = 8192;
  auto train = role_job("actor_train", plan::Engine::deepspeed, card_range(0, 8));
  train.zero_stage = 3;
  auto infer = role_job("actor_infer", plan::Engine::vllm, card_range(8, 12));
  infer.memory_utilization = 0.8;
  infer.max_model_len = 8000;
  spec.roles = {train, infer, role_job("reference", plan::Engine::hf, card_range(12, 16))};
  plan::BatchOptions batch;
  batch.kind = plan::BatchKind::rlvr;
  batch.rollout_batch_size = 32;
  batch.group_size = 8;
  batch.gradient_accumulation_steps = 32;
  batch.train_cards = 8;
  batch.infer_cards = 4;
  batch.has_kl = true;
  spec.batch = batch;
  return spec;
}

/// The quickstart of the verl seed: Qwen2.5-0.5B, one pool of 8 cards.
inline plan::JobSpec quickstart_job() {
  plan::JobSpec spec;
  spec.dialect = plan::Dialect::verl;
  spec.mode = plan::PlacementMode::timeshare;
  spec.overlap_is_verl_pool = true;
  spec.card = *plan::find_card_type("A2");
  spec.model = *model::find_model("Qwen/Qwen2.5-0.5B-Instruct");
  spec.prompt_length = 512;
  spec.response_length = 128;
  spec.update_bucket_bytes = uint64_t{2} << 30;
  auto train = role_job("actor_train", plan::Engine::fsdp, card_range(0, 8));
  train.micro_batch = 20;
  auto infer = role_job("actor_infer", plan::Engine::vllm, card_range(0, 8));
  infer.tp = 2;
  infer.memory_utilization = 0.6;
  auto reference = role_job("reference", plan::Engine::fsdp, card_range(0, 8));
  reference.log_prob_micro_batch = 40;
  reference.offload_params = true;
  spec.roles = {train, infer, reference};
  plan::BatchOptions batch;
  batch.kind = plan::BatchKind::verl;
  batch.rollout_batch_size = 128;
  batch.group_size = 5;
  batch.mini_batch_size = 64;
  batch.micro_batch_size = 20;
  batch.train_cards = 8;
  batch.infer_cards = 8;
  batch.infer_tp = 2;
  batch.max_steps = 0;
  batch.dataset_rows = 7473;
  spec.batch = batch;
  return spec;
}

/// The A3 recipe: DeepSeek-V3 on 256 dies, train TP4 PP8 and 32 expert slots, infer TP2 EP256.
inline plan::JobSpec a3_recipe() {
  plan::JobSpec spec;
  spec.dialect = plan::Dialect::verl;
  spec.mode = plan::PlacementMode::timeshare;
  spec.card = *plan::find_card_type("A3");
  spec.model = *model::find_model("DeepSeek-V3");
  spec.prompt_length = 1024;
  spec.response_length = 3072;
  auto train = role_job("actor_train", plan::Engine::megatron, card_range(0, 256));
  train.tp = 4;
  train.pp = 8;
  train.ep = 32;
  train.zero_stage = 1;
  train.swap_optimizer = true;
  train.layers_per_stage = {7, 7, 8, 8, 8, 8, 8, 7};
  auto infer = role_job("actor_infer", plan::Engine::vllm, card_range(0, 256));
  infer.tp = 2;
  infer.ep = 256;
  infer.max_batched_tokens = 1024;
  infer.max_running = 64;
  spec.roles = {train, infer};
  return spec;
}

}  // namespace cohort::test
