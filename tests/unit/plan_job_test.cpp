// The job planner on the seeds' jobs: numbers by hand, refusals, remedies.
#include <gtest/gtest.h>

#include "runtime/plan/estimate/job.hpp"
#include "tests/support/plan_jobs.hpp"

namespace cohort::plan {
namespace {

using test::a3_recipe;
using test::card_range;
using test::quickstart_job;
using test::role_job;
using test::seed_two;

std::string refusal(const JobSpec& spec) {
  auto plan = plan_job(spec);
  return plan ? "accepted" : plan.error().detail;
}

const JobPhase& phase_of(const JobPlan& plan, PhaseKind kind) {
  for (const JobPhase& phase : plan.phases)
    if (phase.phase == kind) return phase;
  ADD_FAILURE() << "no phase " << to_string(kind);
  return plan.phases.front();
}

const CardPhase& card_in(const JobPlan& plan, PhaseKind kind, uint32_t card) {
  for (const CardPhase& at : phase_of(plan, kind).cards)
    if (at.card.value == card) return at;
  ADD_FAILURE() << "no card " << card;
  return plan.phases.front().cards.front();
}

uint64_t object_on(const CardPhase& at, Object object) {
  for (const HeldObject& held : at.objects)
    if (held.object == object) return held.bytes;
  return 0;
}

uint64_t transient_on(const CardPhase& at, std::string_view name) {
  for (const TransientBytes& x : at.transients)
    if (x.name == name) return x.bytes;
  ADD_FAILURE() << "no transient " << name;
  return 0;
}

const Remedy& remedy(const JobPlan& plan, std::string_view key) {
  for (const Remedy& x : plan.remedies)
    if (x.key == key) return x;
  ADD_FAILURE() << "no remedy " << key;
  return plan.remedies.front();
}

TEST(PlanJob, SeedTwoByHand) {
  auto plan = plan_job(seed_two());
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_TRUE(plan->fits);
  EXPECT_TRUE(plan->remedies.empty());
  constexpr uint64_t k_parameters = 8'190'735'360;
  const CardPhase& update = card_in(*plan, PhaseKind::update, 0);
  EXPECT_EQ(object_on(update, Object::train_params), k_parameters / 8 * 2);
  EXPECT_EQ(object_on(update, Object::grads), k_parameters / 8 * 2);
  EXPECT_EQ(object_on(update, Object::optimizer), k_parameters / 8 * 12);
  EXPECT_EQ(transient_on(update, "logits"), uint64_t{10240} * 151936 * 10);
  const CardPhase& generate = card_in(*plan, PhaseKind::generate, 8);
  EXPECT_EQ(object_on(generate, Object::infer_params), k_parameters * 2);
  // vLLM: weights, work space and cache are the share of the card, to a block.
  uint64_t share = static_cast<uint64_t>(0.8 * static_cast<double>(uint64_t{64} << 30));
  uint64_t block = uint64_t{16} * 2 * 36 * 8 * 128 * 2;
  EXPECT_LE(generate.bytes(), share);
  EXPECT_GT(generate.bytes() + block, share);
  EXPECT_EQ(object_on(card_in(*plan, PhaseKind::generate, 12), Object::ref_params),
            k_parameters * 2);
  EXPECT_EQ(plan->batch->trajectories, 256u);
}

TEST(PlanJob, ReshardTableAndTraffic) {
  auto plan = plan_job(seed_two());
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->reshard.size(), 4u);
  const ReshardLine& p2p = plan->reshard.back();
  EXPECT_TRUE(p2p.refused.empty()) << p2p.refused;
  EXPECT_EQ(p2p.receive_total, 4u * 8'190'735'360 * 2);  // disjoint cards: 4 whole copies
  EXPECT_EQ(p2p.receive_total, p2p.lower_bound_total);
  for (const ReshardLine& line : plan->reshard) EXPECT_GE(line.receive_total, p2p.receive_total);
  EXPECT_NEAR(p2p.seconds, 8'190'735'360 * 2 / 196e9, 0.05);
  ASSERT_EQ(plan->traffic.size(), 3u);
  EXPECT_EQ(plan->traffic[2].name, "actor_train collectives");
}

TEST(PlanJob, SharedReferenceCutsTheCacheAndSaysSo) {  // seed 3: 7B, reference on the infer cards
  JobSpec spec = seed_two();
  spec.cards_per_node = 8;
  spec.card = *find_card_type("A2");
  spec.model = *model::find_model("/data/models/Qwen2.5-7B");
  spec.response_length = 4096;
  spec.roles[0].offload_optimizer = true;
  spec.roles[1].cards = spec.roles[2].cards = card_range(8, 16);
  spec.roles[2].log_prob_micro_batch = 1;
  auto plan = plan_job(spec);
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_TRUE(plan->fits);
  ASSERT_EQ(plan->warnings.size(), 1u);
  EXPECT_EQ(plan->warnings[0].key, "actor_infer.gpu_memory_utilization");
  const CardPhase& update = card_in(*plan, PhaseKind::update, 0);
  EXPECT_EQ(object_on(update, Object::optimizer), 0u);
  // 12 B of master and moments, 2 B of gradients and 2 B of parameters wait on the host
  EXPECT_EQ(plan->host_bytes_per_node, 7'615'616'512u * 16);
  // strategy 2: both halves on both nodes
  spec.roles[0].cards = {{0}, {1}, {2}, {3}, {8}, {9}, {10}, {11}};
  spec.roles[1].cards = spec.roles[2].cards = {{4}, {5}, {6}, {7}, {12}, {13}, {14}, {15}};
  auto second = plan_job(spec);
  ASSERT_TRUE(second) << second.error().detail;
  EXPECT_EQ(second->host_bytes_per_node, 7'615'616'512u * 16 / 2);
  EXPECT_GT(second->reshard[3].seconds, 0);
}

TEST(PlanJob, QuickstartTakesTurns) {
  auto plan = plan_job(quickstart_job());
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_TRUE(plan->fits);
  ASSERT_EQ(plan->phases.size(), 4u);
  EXPECT_EQ(plan->phases[0].phase, PhaseKind::publish);
  EXPECT_EQ(plan->phases[2].phase, PhaseKind::reference);
  const CardPhase& publish = card_in(*plan, PhaseKind::publish, 3);
  EXPECT_GT(object_on(publish, Object::train_params), 0u);
  EXPECT_GT(object_on(publish, Object::infer_params), 0u);
  EXPECT_EQ(object_on(publish, Object::kv_cache), 0u);
  const CardPhase& generate = card_in(*plan, PhaseKind::generate, 3);
  EXPECT_EQ(object_on(generate, Object::train_params), 0u);
  EXPECT_GT(object_on(generate, Object::kv_cache), 0u);
  EXPECT_LE(generate.bytes(), static_cast<uint64_t>(0.6 * static_cast<double>(uint64_t{64} << 30)));
  EXPECT_EQ(object_on(card_in(*plan, PhaseKind::reference, 3), Object::ref_params), 0u);  // host
  EXPECT_EQ(plan->roles[1].replicas, 4u);
  ASSERT_FALSE(plan->warnings.empty());
  EXPECT_EQ(plan->warnings.back().key, "actor_rollout_ref.hybrid_engine");
  EXPECT_EQ(plan->batch->steps, 58u);
}

TEST(PlanJob, OverlapInSeparateModeNamesRolesCardsAndTheOverride) {
  JobSpec spec = seed_two();
  spec.roles[1].cards = card_range(6, 10);
  std::string text = refusal(spec);
  for (const char* part : {"actor_train", "actor_infer", "[6, 7]", "placement.mode=timeshare"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(plan_job(spec).error().code, Errc::placement);
  spec.mode = PlacementMode::timeshare;
  auto plan = plan_job(spec);
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_FALSE(plan->notes.empty());
}

TEST(PlanJob, A3RecipeByTheReshardTable) {
  auto plan = plan_job(a3_recipe());
  ASSERT_TRUE(plan) << plan.error().detail;
  const CardPhase& generate = card_in(*plan, PhaseKind::generate, 0);
  // EP256: one expert of each of 58 layers, 4.758 GiB; non-routed at TP2 about 16.9 GiB
  uint64_t routed = uint64_t{58} * 44'040'192 * 2;
  uint64_t weights = object_on(generate, Object::infer_params);
  EXPECT_NEAR(static_cast<double>(routed) / (1 << 30), 4.758, 0.001);
  EXPECT_NEAR(static_cast<double>(weights - routed) / (1 << 30), 16.9, 0.1);
  EXPECT_EQ(plan->roles[1].replicas, 1u);
  ASSERT_EQ(plan->reshard.size(), 4u);
  for (const ReshardLine& line : plan->reshard) EXPECT_EQ(line.refused, "");
  EXPECT_LT(plan->reshard[3].receive_max, plan->reshard[2].receive_max);
  EXPECT_EQ(plan->reshard[3].receive_total, plan->reshard[3].lower_bound_total);
  // MLA: 576 values a token and layer, all layers, not cut by TP
  EXPECT_EQ(object_on(generate, Object::kv_cache) % (uint64_t{61} * 576 * 2 * 16), 0u);
}

TEST(PlanJob, BuiltInEngineOnCpuToTheByte) {  // the FrozenLake demo's shape
  JobSpec spec;
  spec.card = *find_card_type("cpu");
  spec.card.capacity_bytes = uint64_t{2} << 30;
  spec.card.reserve_bytes = uint64_t{64} << 20;
  spec.model = {.vocab_size = 60,
                .hidden_size = 64,
                .num_hidden_layers = 2,
                .num_attention_heads = 4,
                .num_key_value_heads = 2,
                .head_dim = 16,
                .intermediate_size = 192,
                .attention_bias = true};
  spec.sequence_length = 1024;
  auto train = role_job("actor_train", Engine::builtin, card_range(0, 1));
  train.param_bytes = 4;
  auto infer = role_job("actor_infer", Engine::builtin, card_range(1, 2));
  infer.param_bytes = 4;
  infer.max_running = 64;
  spec.roles = {train, infer};
  auto plan = plan_job(spec);
  ASSERT_TRUE(plan) << plan.error().detail;
  uint64_t n = flat_element_count(spec.model);
  const CardPhase& update = card_in(*plan, PhaseKind::update, 0);
  EXPECT_EQ(object_on(update, Object::train_params), 4 * n);
  EXPECT_EQ(object_on(update, Object::optimizer), 8 * n);
  EXPECT_EQ(object_on(card_in(*plan, PhaseKind::generate, 1), Object::kv_cache),
            uint64_t{64} * 1024 * 2 * 2 * 2 * 16 * 4);
  EXPECT_EQ(plan->roles[0].engine_note, "");
  EXPECT_GT(update.transient_bytes, 0u);
  for (const JobPhase& phase : plan->phases)
    for (const CardPhase& at : phase.cards) EXPECT_LE(at.object_bytes, plan->peak_bytes);
  // work space beyond the reserve is said, and costs no card anything
  spec.card.reserve_bytes = 1;
  auto bare = plan_job(spec);
  ASSERT_TRUE(bare);
  EXPECT_TRUE(bare->fits);
  ASSERT_EQ(bare->warnings.size(), 1u);
  EXPECT_EQ(bare->warnings[0].key, "cards.reserve_bytes");
}

/// 7B on 4 cards of 64 GiB with 4 sequences of 8192: the seed's FAQ entry.
JobSpec seven_billion_on_four() {
  JobSpec spec = seed_two();
  spec.card = *find_card_type("A2");
  spec.model = *model::find_model("Qwen2.5-7B");
  spec.prompt_length = 2048;
  spec.response_length = 6144;
  spec.roles.pop_back();
  spec.roles[0].cards = card_range(0, 4);
  spec.roles[0].micro_batch = 4;
  spec.roles[1].cards = card_range(4, 8);
  spec.roles[1].max_model_len = 8192;
  spec.batch->train_cards = 4;
  spec.batch->per_device_train_batch_size = 4;
  spec.batch->gradient_accumulation_steps = 16;
  return spec;
}

TEST(PlanJob, SevenBillionOnFourCardsGetsTheSeedsRemedies) {
  auto plan = plan_job(seven_billion_on_four());
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_FALSE(plan->fits);
  EXPECT_EQ(plan->peak_phase, PhaseKind::update);
  EXPECT_GT(plan->peak_bytes, plan->budget_bytes);
  const Remedy& batch = remedy(*plan, "batch_1");
  EXPECT_TRUE(batch.fits);
  EXPECT_NE(batch.text.find("per_device_train_batch_size=1, gradient_accumulation_steps x 4 = 64"),
            std::string::npos)
      << batch.text;
  const Remedy& offload = remedy(*plan, "cpu_offload");
  EXPECT_NE(offload.text.find("${deepspeed_zero3_cpuoffload}"), std::string::npos);
  EXPECT_LT(offload.peak_bytes, plan->peak_bytes);
  EXPECT_TRUE(remedy(*plan, "max_model_len").fits);
  EXPECT_NE(remedy(*plan, "max_model_len").text.find("max_model_len=4096"), std::string::npos);
  EXPECT_NE(remedy(*plan, "more_cards").text.find("actor_train: "), std::string::npos);
  EXPECT_TRUE(remedy(*plan, "all").fits);
  for (const Remedy& x : plan->remedies) EXPECT_EQ(x.fits, x.peak_bytes <= x.budget_bytes) << x.key;
}

TEST(PlanJob, CacheBelowOneSequenceDoesNotFit) {
  JobSpec spec = seed_two();
  spec.roles[1].memory_utilization = 0.25;
  auto plan = plan_job(spec);
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_FALSE(plan->fits);
  EXPECT_TRUE(plan->roles[1].is_cache_too_small);
  ASSERT_FALSE(plan->warnings.empty());
  EXPECT_EQ(plan->warnings.front().key, "actor_infer.kv_cache");
}

TEST(PlanJob, CheckpointingKeepsOneLayer) {
  JobSpec spec = seed_two();
  uint64_t with =
      transient_on(card_in(*plan_job(spec), PhaseKind::update, 0), "activations (checkpointed)");
  EXPECT_GE(with, uint64_t{10240} * 36 * 4096 * 2);
  spec.roles[0].gradient_checkpointing = false;
  auto plan = plan_job(spec);
  ASSERT_TRUE(plan);
  uint64_t without = transient_on(card_in(*plan, PhaseKind::update, 0), "activations");
  // per token and layer: 8 H + 2 (2 q + 3 kv + q) + 8 I bytes, the header's count
  EXPECT_EQ(without, uint64_t{10240} * 36 * (8 * 4096 + 2 * (3 * 4096 + 3 * 1024) + 8 * 12288));
  EXPECT_GT(without, 5 * with);
  EXPECT_FALSE(plan->fits);
  EXPECT_TRUE(remedy(*plan, "checkpointing").fits);
}

TEST(PlanJob, ZeroStagesCutOneObjectAfterTheOther) {
  auto bytes = [](uint32_t stage) {
    JobSpec spec = seed_two();
    spec.roles[0].zero_stage = stage;
    auto plan = plan_job(spec);
    const CardPhase& at = card_in(*plan, PhaseKind::update, 0);
    return std::vector<uint64_t>{object_on(at, Object::train_params), object_on(at, Object::grads),
                                 object_on(at, Object::optimizer)};
  };
  constexpr uint64_t k_n = 8'190'735'360;
  EXPECT_EQ(bytes(0), (std::vector<uint64_t>{2 * k_n, 2 * k_n, 12 * k_n}));
  EXPECT_EQ(bytes(1), (std::vector<uint64_t>{2 * k_n, 2 * k_n, 12 * k_n / 8}));
  EXPECT_EQ(bytes(2), (std::vector<uint64_t>{2 * k_n, 2 * k_n / 8, 12 * k_n / 8}));
  EXPECT_EQ(bytes(3), (std::vector<uint64_t>{2 * k_n / 8, 2 * k_n / 8, 12 * k_n / 8}));
}

TEST(PlanJob, SpecsThatMakeNoSenseAreRefused) {
  JobSpec spec = seed_two();
  spec.roles[1].tp = 3;
  EXPECT_NE(refusal(spec).find("4 cards are not a multiple of TP*PP*CP = 3*1*1 = 3; nearest "
                               "numbers of cards that work: 3, 6"),
            std::string::npos)
      << refusal(spec);
  spec = seed_two();
  spec.roles[0].pp = 8;
  spec.model.num_hidden_layers = 4;
  EXPECT_EQ(refusal(spec), "actor_train: pipeline parallel 8 for 4 layers; at most 4");
  spec = seed_two();
  spec.roles[2].name = "actor_infer";
  EXPECT_EQ(refusal(spec), "job: role actor_infer is there twice");
  spec = seed_two();
  spec.roles[0].cards.push_back({3});
  EXPECT_EQ(refusal(spec), "actor_train: a card is named twice; name each once");
  spec = seed_two();
  spec.response_length = spec.prompt_length = 0;
  EXPECT_NE(refusal(spec).find("sequence_length 0 is not in 1..2^24"), std::string::npos);
  spec = seed_two();
  for (RoleJob& role : spec.roles) role.cards.clear();
  EXPECT_EQ(refusal(spec), "job: no role has cards; give one a device_mapping");
  spec = seed_two();
  spec.roles[1].memory_utilization = 1.5;
  EXPECT_EQ(refusal(spec), "actor_infer: memory utilization is not in (0, 1]");
  spec = a3_recipe();
  spec.roles[0].ep = 16;
  spec.roles[0].expert_tp = 4;
  EXPECT_NE(refusal(spec).find("expert parallel 16 * expert TP 4 does not divide the 32 cards"),
            std::string::npos)
      << refusal(spec);
}

TEST(PlanJob, TensorParallelOverNodesIsWarnedAbout) {
  JobSpec spec = seed_two();
  spec.cards_per_node = 8;
  spec.roles[1].cards = {{14}, {15}, {16}, {17}};
  spec.roles[1].tp = 4;
  spec.roles[2].cards = card_range(8, 12);
  auto plan = plan_job(spec);
  ASSERT_TRUE(plan) << plan.error().detail;
  ASSERT_FALSE(plan->warnings.empty());
  EXPECT_EQ(plan->warnings.back().key, "actor_infer.tensor_parallel");
}

}  // namespace
}  // namespace cohort::plan
