// TP-1 … TP-4 with ranks that are threads: one model cut over 2 and 4 ranks computes what the whole
// one does, to rounding; with the size fixed, GEN-1 holds bit by bit.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

#include "runtime/base/clock.hpp"
#include "runtime/compute/generate/kv_cache.hpp"
#include "runtime/compute/generate/tp_link.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/tp_cut.hpp"
#include "tests/support/tp_rig.hpp"

namespace cohort::tests {
namespace {

using compute::BatchChunk;
using compute::ModelConfig;
using compute::TurnOutput;
using compute::TurnStop;

constexpr int64_t k_block = 16;

/// The rows of one iteration over several sequences, and what they point to.
struct Iteration {
  std::vector<std::vector<int32_t>> tokens, blocks;
  std::vector<BatchChunk> chunks;
};

/// `count` sequences: a prefill of random length, then one token each; all logits are wanted.
std::vector<Iteration> random_iterations(uint64_t seed, const ModelConfig& model, size_t count,
                                         size_t decodes) {
  Rng rng(seed);
  std::vector<Iteration> iterations(1 + decodes);
  const int64_t blocks_each = compute::blocks_for(model.max_position, k_block);
  std::vector<int64_t> positions(count, 0);
  for (size_t step = 0; step < iterations.size(); ++step) {
    Iteration& it = iterations[step];
    for (size_t s = 0; s < count; ++s) {
      const size_t rows = step == 0 ? 1 + rng.below(60) : 1;
      auto& tokens = it.tokens.emplace_back();
      for (size_t i = 0; i < rows; ++i)
        tokens.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(model.vocab_size))));
      auto& blocks = it.blocks.emplace_back();
      for (int64_t b = 0; b < blocks_each; ++b)
        blocks.push_back(static_cast<int32_t>(static_cast<int64_t>(s) * blocks_each + b));
    }
    for (size_t s = 0; s < count; ++s) {
      const auto rows = static_cast<int64_t>(it.tokens[s].size());
      it.chunks.push_back({it.tokens[s].data(), rows, positions[s], it.blocks[s].data(), true});
      positions[s] += rows;
    }
  }
  return iterations;
}

/// Runs the iterations on one rank; the leader's logits, row by row.
std::vector<std::vector<float>> logits_of(const ModelConfig& whole, compute::RunnerKind kind,
                                          const std::vector<float>& flat, compute::TpRank at,
                                          compute::TpLink* link,
                                          const std::vector<Iteration>& iterations) {
  const compute::RunnerOptions options{compute::tp_config(whole, at.size).value(),
                                       whole.max_position, 4096, k_block, at};
  auto runner = kind == compute::RunnerKind::aten ? compute::make_aten_runner(options).value()
                                                  : compute::make_cpu_runner(options);
  compute::CardMemory card(CardId{0}, uint64_t{1} << 30);
  auto weights = card.allocate("infer_params", runner->card_bytes()).value();
  const auto sequences = static_cast<int64_t>(iterations[0].chunks.size());
  auto cache = card.allocate("kv_cache",
                             runner->kv_block_bytes() *
                                 static_cast<uint64_t>(
                                     sequences * compute::blocks_for(whole.max_position, k_block)))
                   .value();
  runner->attach({weights.data(), weights.size_bytes()});
  std::vector<std::byte> part(runner->flat_bytes());
  tests::cut_flat(whole, at, sizeof(float), std::as_bytes(std::span(flat)), part);
  runner->load(part).value();
  auto lane = runner->make_lane({cache.data(), cache.size_bytes()}, link);
  std::vector<std::vector<float>> rows;
  for (const Iteration& it : iterations) {
    const auto view = lane->forward(it.chunks).value();
    if (view.data == nullptr) continue;
    for (size_t row = 0; row < it.chunks.size(); ++row)
      rows.emplace_back(view.data + static_cast<int64_t>(row) * view.ld,
                        view.data + static_cast<int64_t>(row) * view.ld + whole.vocab_size);
  }
  return rows;
}

std::vector<std::vector<float>> tp_logits(int size, const ModelConfig& whole,
                                          compute::RunnerKind kind, const std::vector<float>& flat,
                                          const std::vector<Iteration>& iterations) {
  std::vector<std::vector<float>> rows;
  const auto rendezvous = compute::Rendezvous::in_process();
  on_threads(size, [&](int rank) {
    compute::TpLink link(
        join_groups(rank, size, 1, rendezvous, 20000, compute::CollectiveBackend::memory)[0],
        {whole.vocab_size, 4096, whole.max_position, k_block});
    auto mine = logits_of(whole, kind, flat, {rank, size}, &link, iterations);
    if (rank == 0)
      rows = std::move(mine);
    else
      EXPECT_TRUE(mine.empty());
  });
  return rows;
}

/// Returns the place of the largest logit, or -1 if the second is within `tie` of it.
int argmax(const std::vector<float>& logits, float tie) {
  const auto best = std::max_element(logits.begin(), logits.end());
  for (auto it = logits.begin(); it != logits.end(); ++it)
    if (it != best && *best - *it < tie) return -1;
  return static_cast<int>(best - logits.begin());
}

void expect_agreement(const ModelConfig& whole, compute::RunnerKind kind, size_t sequences) {
  const auto flat = random_weights(whole, 3);
  const auto iterations = random_iterations(5, whole, sequences, 24);
  const auto expected = logits_of(whole, kind, flat, {0, 1}, nullptr, iterations);
  ASSERT_EQ(expected.size(), sequences * 25);
  for (int size : {2, 4}) {
    const auto found = tp_logits(size, whole, kind, flat, iterations);
    ASSERT_EQ(found.size(), expected.size());
    double worst = 0;
    size_t ties = 0;
    for (size_t row = 0; row < expected.size(); ++row) {
      for (size_t t = 0; t < expected[row].size(); ++t) {
        const double a = expected[row][t], b = found[row][t];
        worst = std::max(worst, std::abs(a - b) / std::max(1.0, std::abs(a)));
      }
      const int best = argmax(expected[row], 1e-4F);
      ties += best < 0 ? 1 : 0;
      if (best < 0) continue;
      EXPECT_EQ(best, argmax(found[row], 0.F)) << "row " << row;
    }
    EXPECT_LE(worst, 1e-5) << "size " << size;
    EXPECT_LT(ties, expected.size() / 20);
    std::printf("[ logits ] %lld kv heads, size %d: worst difference %.1e, %zu near-ties of %zu\n",
                static_cast<long long>(whole.num_key_value_heads), size, worst, ties,
                expected.size());
  }
}

TEST(TensorParallelLogits, AgreeWithTheWholeModel) {
  expect_agreement(tp_model(4), compute::RunnerKind::cpu_packed, 12);
  expect_agreement(tp_model(2), compute::RunnerKind::cpu_packed, 12);  // on 4 ranks twice each
}

TEST(TensorParallelLogits, AgreeWithoutTiesAndBiases) {  // Llama's shape
  ModelConfig untied = tp_model(8);
  untied.family = "llama";
  untied.tie_word_embeddings = false;
  untied.attention_bias = false;
  expect_agreement(untied, compute::RunnerKind::cpu_packed, 5);
}

TEST(TensorParallelLogits, AgreeOnTheAtenRunner) {
  expect_agreement(tp_model(2), compute::RunnerKind::aten, 3);
}

/// Experts are cut by their width, latent attention by heads; the latents are on every rank.
TEST(TensorParallelLogits, AgreeForExpertsAndLatents) {
  for (const ModelConfig& model : expert_models(tp_model(4)))
    expect_agreement(model, compute::RunnerKind::aten, 3);
}

bool same_bits(const TurnOutput& a, const TurnOutput& b) {
  return a.tokens == b.tokens && a.stop == b.stop && a.logp.size() == b.logp.size() &&
         std::memcmp(a.logp.data(), b.logp.data(), a.logp.size() * sizeof(float)) == 0;
}

constexpr uint32_t k_turns = 3;

TEST(TensorParallelInvariance, BatchLaneChunkingAndEvictionDoNotChangeABit) {  // GEN-1
  struct Row {
    const char* what;
    uint32_t lanes;
    int64_t batch_tokens;
    int64_t cache_blocks;
  };
  std::vector<uint64_t> ids;
  for (uint64_t id = 1; id <= 24; ++id) ids.push_back(id);
  for (int size : {2, 4}) {
    RigOptions options;
    options.model = tp_model(2);
    const auto weights = random_weights(options.model);
    std::map<uint64_t, std::vector<TurnOutput>> expected;
    {
      TpRig alone(size, options);
      alone.serve(weights);
      for (uint64_t id : {3, 17}) expected[id] = play_all(alone.leader(), {id}, k_turns).at(id);
    }
    for (const Row& row : {Row{"one lane", 1, 256, 1024}, Row{"two lanes", 2, 256, 1024},
                           Row{"chunks of 7", 1, 7, 1024}, Row{"small cache", 1, 256, 60}}) {
      options.lanes = row.lanes;
      options.batch_tokens = row.batch_tokens;
      options.cache_blocks = row.cache_blocks;
      TpRig rig(size, options);
      rig.serve(weights);
      const auto found = play_all(rig.leader(), ids, k_turns);
      for (const auto& [id, turns] : expected)
        for (size_t turn = 0; turn < turns.size(); ++turn)
          EXPECT_TRUE(same_bits(turns[turn], found.at(id)[turn]))
              << row.what << ", size " << size << ", id " << id << ", turn " << turn;
      if (row.cache_blocks == 60) {
        EXPECT_GT(rig.leader().engine->stats().total.evictions, 0U);
      }
    }
  }
}

TEST(TensorParallelInvariance, LongPromptsNeedMoreThanOneMessage) {
  RigOptions options;
  options.model = tp_model(4);
  options.model.max_position = 4096;
  options.batch_tokens = 4096;
  options.cache_blocks = 600;
  const auto weights = random_weights(options.model);
  GenerationRig whole(options);
  whole.serve(weights);
  TpRig cut(2, options);
  cut.serve(weights);
  auto request = turn_request(1, 0, 3000, 4);
  request.sampling.greedy = true;
  const TurnOutput a = whole.play(request), b = cut.leader().play(request);
  ASSERT_EQ(a.tokens, b.tokens);
  for (size_t i = 0; i < a.logp.size(); ++i) EXPECT_NEAR(a.logp[i], b.logp[i], 1e-4);
}

/// What a group's engines said when it was lost.
class Losses {
 public:
  std::function<void(const Error&)> sink() {
    return [this](const Error& error) {
      std::lock_guard lock(mutex_);
      texts_.push_back(error.detail);
      arrived_.notify_all();
    };
  }
  std::string wait_for_one() {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::seconds(20), [this] { return !texts_.empty(); });
    return texts_.empty() ? "" : texts_.front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::string> texts_;
};

TEST(TensorParallelCommands, RanksThatServeOtherVersionsComputeNothing) {  // TP-2, PLACE-5
  RigOptions options;
  options.model = tp_model(2);
  const auto first = random_weights(options.model, 1), second = random_weights(options.model, 2);
  TpRig rig(2, options);
  rig.serve(first);
  const TurnOutput before = rig.leader().play(turn_request(1, 0, 9, 4));
  EXPECT_EQ(before.stop, TurnStop::length);
  rig.leader().publish(2, second);
  const TurnOutput between = rig.leader().play(turn_request(2, 0, 9, 4));
  EXPECT_EQ(between.stop, TurnStop::error);
  EXPECT_TRUE(between.tokens.empty());
  rig.ranks[1]->publish(2, second);
  const TurnOutput after = rig.leader().play(turn_request(3, 0, 9, 4));
  EXPECT_EQ(after.stop, TurnStop::length);
  EXPECT_EQ(after.versions.front(), 2U);
  rig.ranks[1]->engine->free_cache().value();
  EXPECT_EQ(rig.leader().play(turn_request(4, 0, 9, 4)).stop, TurnStop::error);
  rig.ranks[1]->engine->init_cache(rig.ranks[1]->cache_bytes).value();
  EXPECT_EQ(rig.leader().play(turn_request(5, 0, 9, 4)).stop, TurnStop::length);
}

TEST(TensorParallelCommands, TurnsGoToTheLeaderAndHoldTheVersion) {
  RigOptions options;
  options.model = tp_model(2);
  const auto weights = random_weights(options.model);
  TpRig rig(2, options);
  for (auto& rank : rig.ranks) {
    rank->engine->onload_params().value();
    rank->publish(1, weights);
    rank->engine->init_cache(rank->cache_bytes).value();
  }
  EXPECT_EQ(rig.ranks[1]->engine->submit(turn_request(1, 0, 3, 1)).error().code,
            Errc::invalid_argument);
  rig.leader().engine->submit(turn_request(1, 0, 3, 1)).value();  // not started: it waits
  rig.leader().engine->begin_weights(2).value();
  EXPECT_EQ(rig.leader().engine->commit_weights(2).error().code, Errc::placement);
  EXPECT_EQ(rig.leader().engine->weight_version(), 1U);
  rig.leader().engine->finish(1);
  rig.leader().engine->commit_weights(2).value();
}

TEST(TensorParallelCommands, GroupsMustFitTheLanesAndTheModel) {
  RigOptions options;
  options.model = tp_model(2);
  TpRig rig(2, options);
  compute::BuiltInOptions o;
  o.model = options.model;
  o.card = &rig.leader().card;
  o.lanes = 2;
  const auto rendezvous = compute::Rendezvous::in_process();
  std::vector<Groups> groups(3);
  on_threads(3, [&](int rank) {
    groups[static_cast<size_t>(rank)] = join_groups(rank, 3, 1, rendezvous);
  });
  o.groups = groups[1];
  EXPECT_NE(compute::open_built_in(o).error().detail.find("1 tensor-parallel groups"),
            std::string::npos);
  o.lanes = 1;
  EXPECT_NE(compute::open_built_in(o).error().detail.find("num_attention_heads = 8"),
            std::string::npos);
}

TEST(TensorParallelLoss, AFollowerThatStopsEndsTheTurnsAndIsNamed) {  // TP-4, COLL-2
  RigOptions options;
  options.model = tp_model(2);
  options.lanes = 2;
  Losses losses;
  options.on_group_lost = losses.sink();
  TpRig rig(2, options);
  rig.serve(random_weights(options.model));
  for (uint64_t id = 0; id < 8; ++id)
    rig.leader().engine->submit(turn_request(id, 0, 4, 150)).value();
  rig.ranks[1]->engine->stop();
  for (uint64_t id = 0; id < 8; ++id)
    EXPECT_NE(rig.leader().wait(id, 0).stop, TurnStop::none) << id;
  // If the first ones had ended before, this one finds the group gone.
  (void)rig.leader().engine->submit(turn_request(99, 0, 4, 150));
  EXPECT_NE(losses.wait_for_one().find("card 1"), std::string::npos) << losses.wait_for_one();
  const auto refused = rig.leader().engine->submit(turn_request(100, 0, 4, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::closed);
}

TEST(TensorParallelLoss, AnIdleLeaderKeepsTheGroupAlive) {
  RigOptions options;
  options.model = tp_model(2);
  options.group_beat_ms = 20;
  Losses losses;
  options.on_group_lost = losses.sink();
  constexpr int k_timeout_ms = 1000;
  TpRig rig(2, options, k_timeout_ms);
  rig.serve(random_weights(options.model));
  EXPECT_EQ(rig.leader().play(turn_request(1, 0, 4, 4)).stop, TurnStop::length);
  const double begin = now_seconds();
  while (now_seconds() - begin < 1.5 * k_timeout_ms / 1000) ::usleep(10000);
  EXPECT_EQ(rig.leader().play(turn_request(2, 0, 4, 4)).stop, TurnStop::length);
}

}  // namespace
}  // namespace cohort::tests
