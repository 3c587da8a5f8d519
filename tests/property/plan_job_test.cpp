// MEM-1 over random cuts, monotony of the memory model, and remedies that keep their word.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/plan/estimate/job.hpp"
#include "tests/support/plan_gen.hpp"
#include "tests/support/plan_jobs.hpp"

namespace cohort::plan {
namespace {

using model::parameter_count;

uint64_t power(Rng& rng, uint64_t most) { return uint64_t{1} << rng.below(most + 1); }

ModelShape random_shape(Rng& rng) {
  const auto below = [&](uint64_t end) { return static_cast<int64_t>(rng.below(end)); };
  ModelShape x;
  x.vocab_size = 8 * (1 + rng.below(500));
  x.num_key_value_heads = power(rng, 3);
  x.num_attention_heads = x.num_key_value_heads * power(rng, 2);
  x.head_dim = 2 * (1 + rng.below(40));
  x.hidden_size = 8 * (1 + rng.below(60));
  x.intermediate_size = 8 * (1 + rng.below(100));
  x.num_hidden_layers = 1 + rng.below(12);
  x.attention_bias = rng.below(2);
  x.qk_norm = rng.below(2);
  x.tie_word_embeddings = rng.below(2);
  if (rng.below(3) == 0) {
    model::MoeShape moe;
    moe.num_experts = 8 * power(rng, 2);
    moe.experts_per_token = 1 + rng.below(moe.num_experts);
    moe.moe_intermediate_size = 8 * (1 + rng.below(20));
    moe.shared_intermediate_size = rng.below(2) * moe.moe_intermediate_size;
    moe.first_moe_layer = rng.below(x.num_hidden_layers);
    moe.router_bias = rng.below(2);
    x.moe = moe;
  }
  if (rng.below(4) == 0)
    x.mla = model::MlaShape{.q_lora_rank = below(2) * 24,
                            .kv_lora_rank = 8 * (1 + below(4)),
                            .qk_rope_head_dim = 2 * (1 + below(4)),
                            .qk_nope_head_dim = 2 * (1 + below(8)),
                            .v_head_dim = 2 * (1 + below(8))};
  return x;
}

ShardCut random_cut(Rng& rng, const ModelShape& x) {
  ShardCut cut;
  cut.tp = static_cast<uint32_t>(power(rng, 4));
  while (!check_cut(x, cut, "role")) cut.tp /= 2;
  cut.pp = static_cast<uint32_t>(1 + rng.below(x.num_hidden_layers));
  cut.expert_tp = cut.tp;
  if (x.moe && rng.below(2)) {
    cut.ep = static_cast<uint32_t>(power(rng, 3));
    cut.expert_tp = 1;
  }
  if (!check_cut(x, cut, "role")) cut.expert_tp = 1;
  return cut;
}

/// Elements of all ranks that hold different shards.
uint64_t over_ranks(const ModelShape& x, const ShardCut& cut) {
  uint64_t sum = 0;
  for (uint32_t stage = 0; stage < cut.pp; ++stage) {
    ShardElements at = shard_elements(x, cut, stage);
    sum += at.dense * cut.tp + at.experts * cut.ep * cut.expert_tp;
  }
  return sum;
}

TEST(MemoryProperty, ShardsOfAllRanksHoldTheModel) {  // MEM-1
  Rng rng{test::property_seed(21)};
  uint64_t exact_cases = 0;
  for (int round = 0; round < 3000; ++round) {
    ModelShape x = random_shape(rng);
    ASSERT_TRUE(check_shape(x)) << check_shape(x).error().detail;
    ShardCut cut = random_cut(rng, x);
    ASSERT_TRUE(check_cut(x, cut, "role"));
    uint64_t exact = parameter_count(x), all = over_ranks(x, cut);
    ASSERT_GE(all, exact);
    if (cut.tp > 1 || (x.tie_word_embeddings && cut.pp > 1)) continue;
    ASSERT_EQ(all, exact) << "pp " << cut.pp << " ep " << cut.ep;
    ++exact_cases;
  }
  EXPECT_GT(exact_cases, 300u);
}

TEST(MemoryProperty, FlatBuffersHoldTheModelAndLittleMore) {
  Rng rng{test::property_seed(22)};
  for (int round = 0; round < 1000; ++round) {
    ModelShape x = random_shape(rng);
    uint64_t tensors = 0;
    for (const ShapeTensor& tensor : families_of(x)) tensors += tensor.count();
    ASSERT_GE(flat_element_count(x), parameter_count(x));
    ASSERT_LE(flat_element_count(x), parameter_count(x) + 15 * tensors);
    ASSERT_EQ(flat_element_count(x) % k_alignment_elements, 0u);
  }
}

TEST(MemoryProperty, BytesGrowWithTheShape) {
  Rng rng{test::property_seed(23)};
  constexpr int64_t ModelShape::*k_fields[] = {
      &ModelShape::vocab_size, &ModelShape::hidden_size, &ModelShape::num_hidden_layers,
      &ModelShape::intermediate_size, &ModelShape::head_dim};
  for (int round = 0; round < 1000; ++round) {
    ModelShape small = random_shape(rng), large = small;
    large.*k_fields[rng.below(5)] += 1 + rng.below(20);
    ASSERT_LE(parameter_count(small), parameter_count(large));
    for (auto [object, bytes] : train_bytes(small, builtin_train_memory(2)))
      ASSERT_LE(bytes, train_bytes(large, builtin_train_memory(2)).at(object));
    ASSERT_LE(kv_bytes_per_token(small, 2), kv_bytes_per_token(large, 2));
    ASSERT_LE(panel_word_count(small, 32, 4), panel_word_count(large, 32, 4));
  }
}

TEST(MemoryProperty, MoreRanksNeverHoldMorePerRank) {
  Rng rng{test::property_seed(24)};
  for (int round = 0; round < 1000; ++round) {
    ModelShape x = random_shape(rng);
    ShardCut cut = random_cut(rng, x), finer = cut;
    finer.tp *= 2;
    if (cut.ep == 1) finer.expert_tp *= 2;
    if (!check_cut(x, finer, "role")) continue;
    for (uint32_t stage = 0; stage < cut.pp; ++stage)
      ASSERT_LE(shard_elements(x, finer, stage).total(), shard_elements(x, cut, stage).total());
    ASSERT_LE(kv_bytes_on_card(x, finer, 2), kv_bytes_on_card(x, cut, 2));
  }
}

/// A job near the edge of its cards, in either mode.
JobSpec random_job(Rng& rng) {
  static constexpr const char* k_models[] = {"Qwen2.5-1.5B", "Qwen2.5-7B", "Qwen3-8B", "Qwen3-14B",
                                             "Qwen3-30B-A3B"};
  static constexpr const char* k_cards[] = {"910A", "A2", "H100", "A100-40"};
  JobSpec spec = test::seed_two();
  spec.model = *model::find_model(k_models[rng.below(5)]);
  spec.card = *find_card_type(k_cards[rng.below(4)]);
  spec.response_length = 2048 * (1 + rng.below(7));
  auto train = static_cast<uint32_t>(power(rng, 3)), infer = static_cast<uint32_t>(power(rng, 2));
  bool is_shared = rng.below(3) == 0;
  uint32_t first = is_shared ? 0 : train;
  spec.mode = is_shared ? PlacementMode::timeshare : PlacementMode::separate;
  spec.roles[0].cards = test::card_range(0, train);
  spec.roles[0].zero_stage = static_cast<uint32_t>(1 + rng.below(3));
  spec.roles[0].micro_batch = power(rng, 3);
  spec.roles[0].gradient_checkpointing = rng.below(2);
  spec.roles[1].cards = test::card_range(first, first + infer);
  spec.roles[1].max_model_len = rng.below(2) ? 0 : 2048 + spec.response_length;
  spec.roles[1].memory_utilization = 0.5 + 0.1 * static_cast<double>(rng.below(6));
  spec.roles[2].cards = spec.roles[1].cards;
  spec.batch->train_cards = train;
  spec.batch->infer_cards = infer;
  spec.batch->per_device_train_batch_size = spec.roles[0].micro_batch;
  spec.batch->gradient_accumulation_steps = 256 / (train * spec.roles[0].micro_batch);
  return spec;
}

/// The number after the last `label` in `text`, 0 without it.
double number_after(const std::string& text, const std::string& label) {
  size_t at = text.rfind(label);
  return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + label.size(), nullptr);
}

/// Does by hand what the remedy's text says.
bool apply(const Remedy& remedy, JobSpec& spec) {
  RoleJob &train = spec.roles[0], &infer = spec.roles[1];
  if (remedy.key == "cpu_offload") {
    train.offload_optimizer = true;
    train.zero_stage = remedy.text.find("zero3") != std::string::npos ? 3 : 2;
    if (train.zero_stage == 2) train.offload_params = true;
  } else if (remedy.key == "batch_1") {
    train.micro_batch = 1;
    spec.batch->per_device_train_batch_size = 1;
    spec.batch->gradient_accumulation_steps =
        static_cast<uint64_t>(number_after(remedy.text, " = "));
  } else if (remedy.key == "checkpointing") {
    train.gradient_checkpointing = true;
  } else if (remedy.key == "utilization") {
    infer.memory_utilization = number_after(remedy.text, "gpu_memory_utilization=");
  } else if (remedy.key == "max_model_len") {
    auto tokens = static_cast<uint64_t>(number_after(remedy.text, "max_model_len="));
    if (infer.max_model_len > 0) infer.max_model_len = tokens;
    spec.response_length = tokens - spec.prompt_length;
  } else {
    return false;
  }
  return true;
}

TEST(RemedyProperty, WhatIsSaidToFitFits) {
  Rng rng{test::property_seed(25)};
  uint64_t fitting = 0, misfits = 0;
  for (int round = 0; round < 120; ++round) {
    JobSpec spec = random_job(rng);
    auto plan = plan_job(spec);
    ASSERT_TRUE(plan) << plan.error().detail;
    if (plan->fits) {
      ASSERT_TRUE(plan->remedies.empty());
      continue;
    }
    ++misfits;
    ASSERT_FALSE(plan->remedies.empty());
    for (const Remedy& remedy : plan->remedies) {
      JobSpec changed = spec;
      if (!remedy.refused.empty() || !apply(remedy, changed)) continue;
      auto again = plan_job(changed);
      ASSERT_TRUE(again) << again.error().detail;
      ASSERT_EQ(again->fits, remedy.fits) << remedy.key << ": " << remedy.text;
      ASSERT_EQ(again->peak_bytes, remedy.peak_bytes) << remedy.key;
      // the optimizer batch is what it was
      ASSERT_EQ(again->batch->optimizer_batch, plan->batch->optimizer_batch);
      fitting += remedy.fits;
    }
  }
  EXPECT_GT(misfits, 30u);
  EXPECT_GT(fitting, 20u);
}

TEST(JobProperty, FitsExactlyWhenEveryCardHasRoomAndEveryCacheASequence) {
  Rng rng{test::property_seed(26)};
  for (int round = 0; round < 120; ++round) {
    auto plan = plan_job(random_job(rng));
    ASSERT_TRUE(plan) << plan.error().detail;
    bool fits = true;
    uint64_t peak = 0;
    for (const JobPhase& phase : plan->phases)
      for (const CardPhase& card : phase.cards) {
        uint64_t objects = 0;
        for (const HeldObject& held : card.objects) objects += held.bytes;
        ASSERT_EQ(objects, card.object_bytes);
        fits = fits && card.bytes() <= plan->budget_bytes;
        peak = std::max(peak, card.bytes());
      }
    for (const RolePlan& role : plan->roles) fits = fits && !role.is_cache_too_small;
    ASSERT_EQ(plan->fits, fits);
    ASSERT_EQ(plan->peak_bytes, peak);
  }
}

}  // namespace
}  // namespace cohort::plan
