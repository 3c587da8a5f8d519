// The parts of the generation engine that need no thread: sampling, blocks, weight arrival,
// scheduling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "runtime/base/rng.hpp"
#include "runtime/compute/generate/generation_scheduler.hpp"
#include "runtime/compute/generate/kv_cache.hpp"
#include "runtime/compute/generate/sampling.hpp"

namespace cohort::compute {
namespace {

std::vector<float> random_logits(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> logits(count);
  for (float& x : logits) x = static_cast<float>(4 * rng.uniform() - 2);
  return logits;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (float x : logits) sum += p.emplace_back(std::exp(x / temperature));
  for (double& x : p) x /= sum;
  return p;
}

/// Chi-square of `n` draws against `expected`.
double chi_square(const std::vector<float>& logits, const SamplingOptions& options,
                  const std::vector<double>& expected, int n) {
  Sampler sampler(static_cast<int64_t>(logits.size()));
  std::vector<int> seen(logits.size(), 0);
  for (int i = 0; i < n; ++i)
    ++seen[static_cast<size_t>(
        sampler.sample(logits, options, sampling_uniform(42, 3, static_cast<uint64_t>(i))).token)];
  double chi = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(seen[i], 0) << "token " << i << " was filtered";
      continue;
    }
    chi += std::pow(seen[i] - n * expected[i], 2) / (n * expected[i]);
  }
  return chi;
}

TEST(Sampling, DrawsFollowTheSoftmax) {
  const auto logits = random_logits(19, 1);
  constexpr double k_chi_max = 42.3;  // 18 degrees of freedom, p = 0.001
  EXPECT_LT(chi_square(logits, {}, softmax(logits, 1), 20000), k_chi_max);
  EXPECT_LT(chi_square(logits, {.temperature = 0.5F}, softmax(logits, 0.5), 20000), k_chi_max);
  EXPECT_LT(chi_square(logits, {.temperature = 2.F}, softmax(logits, 2), 20000), k_chi_max);
}

TEST(Sampling, TopKAndTopPKeepExactlyTheirTokens) {
  const auto logits = random_logits(23, 2);
  const auto p = softmax(logits, 1);
  std::vector<size_t> order(p.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  auto kept = [&](size_t count) {
    std::vector<double> expected(p.size(), 0);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += p[order[i]];
    for (size_t i = 0; i < count; ++i) expected[order[i]] = p[order[i]] / sum;
    return expected;
  };
  EXPECT_LT(chi_square(logits, {.top_k = 5}, kept(5), 10000), 18.5);  // 4 degrees, p = 0.001
  size_t count = 0;
  for (double sum = 0; sum < 0.8;) sum += p[order[count++]];
  EXPECT_LT(chi_square(logits, {.top_p = 0.8F}, kept(count), 10000), 60);
  EXPECT_EQ(chi_square(logits, {.top_p = 1e-6F}, kept(1), 100), 0);
  EXPECT_EQ(chi_square(logits, {.top_k = 1}, kept(1), 100), 0);
}

TEST(Sampling, TiesGoToTheSmallerId) {
  std::vector<float> logits(8, 1.F);
  Sampler sampler(8);
  EXPECT_EQ(sampler.sample(logits, {.greedy = true}, 0.9).token, 0);
  for (double u : {0.0, 0.3, 0.6, 0.999})
    EXPECT_LT(sampler.sample(logits, {.top_k = 3}, u).token, 3);
}

TEST(Sampling, LogProbIsTheFullSoftmaxAtTemperatureOne) {
  const auto logits = random_logits(31, 3);
  const auto p = softmax(logits, 1);
  Sampler sampler(31);
  const SamplingOptions rows[] = {{}, {.temperature = 0.3F}, {.top_p = 0.5F}, {.greedy = true}};
  for (const SamplingOptions& options : rows) {
    const SampledToken drawn = sampler.sample(logits, options, 0.5);
    EXPECT_NEAR(drawn.logp, std::log(p[static_cast<size_t>(drawn.token)]), 1e-6);
  }
}

// Tokens 0 and 2 are in the context, 2 twice: 2 / 2, and -1 * 2.
TEST(Sampling, ARepetitionPenaltyFormsWhatIsDrawnAndNotItsLogProb) {
  const std::vector<float> logits{2.F, 1.5F, -1.F, 0.F};
  const std::vector<int32_t> context{0, 2, 2, 99};
  const SamplingOptions options{.repetition_penalty = 2.F};
  const auto expected = softmax({1.F, 1.5F, -2.F, 0.F}, 1), raw = softmax(logits, 1);
  Sampler sampler(4);
  std::vector<double> seen(4, 0);
  constexpr int k_draws = 20000;
  for (int i = 0; i < k_draws; ++i) {
    const SampledToken drawn =
        sampler.sample(logits, options, sampling_uniform(7, 0, static_cast<uint64_t>(i)), context);
    const auto at = static_cast<size_t>(drawn.token);
    ++seen[at];
    EXPECT_NEAR(drawn.logp, std::log(raw[at]), 1e-6);
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(seen[i] / k_draws, expected[i], 0.015) << i;
  EXPECT_EQ(sampler.sample(logits, {.repetition_penalty = 2.F, .greedy = true}, 0, context).token,
            1);
  EXPECT_EQ(sampler.sample(logits, {.repetition_penalty = 2.F, .greedy = true}, 0).token, 0);
}

TEST(Sampling, NotANumberGivesNoToken) {
  Sampler sampler(4);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, NAN, 0, 0}, {}, 0.5).token, -1);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, INFINITY, 0, 0}, {}, 0.5).token, -1);
}

TEST(Sampling, BadOptionsAreNamed) {
  EXPECT_NE(validate({.temperature = 0.F}).error().detail.find("temperature"), std::string::npos);
  EXPECT_NE(validate({.top_p = 0.F}).error().detail.find("top_p"), std::string::npos);
  EXPECT_NE(validate({.top_k = -1}).error().detail.find("top_k"), std::string::npos);
  EXPECT_NE(validate({.repetition_penalty = 0.F}).error().detail.find("repetition_penalty"),
            std::string::npos);
  EXPECT_TRUE(validate(SamplingOptions{}));
}

TEST(BlockPool, HandsOutEachBlockOnceAndTakesItBack) {
  BlockPool pool(3);
  std::set<int32_t> owned;
  while (auto block = pool.take()) owned.insert(*block);
  EXPECT_EQ(owned, (std::set<int32_t>{0, 1, 2}));
  const std::vector<int32_t> back{1};
  pool.give_back(back);
  pool.assert_invariants();
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.free_count(), 0);
}

TEST(BlockPoolDeathTest, ABlockGivenBackTwiceAborts) {
  BlockPool pool(2);
  const std::vector<int32_t> block{*pool.take()};
  pool.give_back(block);
  EXPECT_DEATH(pool.give_back(block), "KV-1");
}

// -- scheduling -----------------------------------------------------------------------------------

/// A scheduler whose model always samples `(last token + 1) % 10`.
class Scheduling : public ::testing::Test {
 protected:
  void open(uint32_t max_running, int64_t max_context, int64_t batch_tokens, int32_t blocks) {
    scheduler_ = std::make_unique<LaneScheduler>(SchedulerOptions{.vocab_size = 10,
                                                                  .max_running = max_running,
                                                                  .max_context = max_context,
                                                                  .block_tokens = 16,
                                                                  .batch_tokens = batch_tokens});
    scheduler_->set_cache(blocks);
  }
  void add(uint64_t id, size_t append, int sampled, uint32_t turn = 0, bool is_last = false) {
    LaneTurn t;
    t.request.request_id = id;
    t.request.append_tokens.assign(append, 3);
    t.request.max_new_tokens = sampled;
    t.request.stop_ids = {9};
    t.request.sampling.greedy = true;
    t.request.turn = turn;
    t.request.is_last = is_last;
    scheduler_->add(std::move(t));
  }
  /// One iteration; returns its rows.
  int64_t iterate() {
    const auto batch = scheduler_->plan(0);
    int64_t rows = 0;
    std::vector<float> logits;
    for (const BatchChunk& chunk : batch) {
      rows += chunk.count;
      if (!chunk.is_sampled) continue;
      std::vector<float> row(10, 0.F);
      row[static_cast<size_t>((chunk.tokens[chunk.count - 1] + 1) % 10)] = 5.F;
      logits.insert(logits.end(), row.begin(), row.end());
    }
    if (!batch.empty()) scheduler_->complete({logits.data(), 10}, 1, 0);
    for (LaneOutput& out : scheduler_->take_outputs())
      outputs_[out.output.request_id].push_back(std::move(out.output));
    scheduler_->assert_invariants();
    return rows;
  }
  void drain() {
    for (int i = 0; i < 1000 && iterate() > 0; ++i) {
    }
  }
  WorkerStats stats() const {
    WorkerStats stats;
    scheduler_->report(stats);
    return stats;
  }
  std::unique_ptr<LaneScheduler> scheduler_;
  std::map<uint64_t, std::vector<TurnOutput>> outputs_;
  std::map<uint64_t, uint32_t> turns_handled_;
};

TEST_F(Scheduling, StopIdsAndTheBudgetEndATurn) {
  open(4, 100, 64, 20);
  add(1, 5, 20);
  add(2, 5, 3);
  drain();
  EXPECT_EQ(outputs_[1][0].tokens, (std::vector<int32_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(outputs_[1][0].stop, TurnStop::stop);
  EXPECT_EQ(outputs_[2][0].tokens, (std::vector<int32_t>{4, 5, 6}));
  EXPECT_EQ(outputs_[2][0].stop, TurnStop::length);
}

TEST_F(Scheduling, TheContextEndsATurn) {
  open(4, 24, 64, 20);
  add(1, 22, 9);
  add(2, 24, 9);
  drain();
  EXPECT_EQ(outputs_[1][0].tokens.size(), 2U);
  EXPECT_EQ(outputs_[1][0].stop, TurnStop::length);
  EXPECT_TRUE(outputs_[2][0].tokens.empty());
  EXPECT_EQ(outputs_[2][0].stop, TurnStop::length);
}

TEST_F(Scheduling, ATurnThatCannotFitTheWholeCacheEndsWithLength) {
  open(4, 1000, 64, 2);
  add(1, 30, 9);
  add(2, 50, 9);
  drain();
  EXPECT_EQ(outputs_[1][0].tokens.size(), 2U);  // 32 tokens are all that two blocks hold
  EXPECT_EQ(outputs_[1][0].stop, TurnStop::length);
  scheduler_->remove(1);
  drain();
  EXPECT_EQ(outputs_[2][0].stop, TurnStop::length);
}

TEST_F(Scheduling, PrefillIsCutToTheRowsOfAnIterationAndDecodeGoesFirst) {
  open(4, 100, 16, 20);
  add(1, 4, 5);
  EXPECT_EQ(iterate(), 4);
  add(2, 40, 1);
  EXPECT_EQ(iterate(), 16);  // one decode row and 15 of the 40
  EXPECT_EQ(iterate(), 16);
  EXPECT_EQ(outputs_.count(2), 0U);
  EXPECT_EQ(iterate(), 11);
  EXPECT_EQ(outputs_[2][0].tokens.size(), 1U);
}

TEST_F(Scheduling, ASlotThatIsFinishedIsTakenByTheNextAndNoBlockIsLost) {
  open(2, 100, 64, 8);
  for (uint64_t id = 1; id <= 4; ++id) add(id, 20, 2);
  drain();
  EXPECT_EQ(outputs_.size(), 2U);
  EXPECT_EQ(stats().waiting, 2U);
  scheduler_->remove(1);
  drain();
  EXPECT_EQ(outputs_.count(3), 1U);
  for (uint64_t id = 1; id <= 4; ++id) {
    scheduler_->remove(id);
    drain();
  }
  EXPECT_EQ(outputs_.size(), 4U);
  EXPECT_EQ(stats().blocks_free, 8);
  EXPECT_EQ(stats().running, 0U);
}

TEST_F(Scheduling, ALastTurnLeavesByItself) {
  open(1, 100, 64, 8);
  for (uint64_t id = 1; id <= 3; ++id) add(id, 20, 2, 0, true);
  drain();
  EXPECT_EQ(outputs_.size(), 3U);
  EXPECT_EQ(stats().blocks_free, 8);
}

TEST_F(Scheduling, IdleSlotsLoseTheirBlocksBeforeOthersWait) {
  open(4, 64, 64, 4);
  add(1, 30, 1);
  drain();
  add(2, 20, 1);
  drain();
  EXPECT_EQ(stats().blocks_free, 0);
  add(2, 20, 1, 1);  // needs a third block: 1 is idle
  drain();
  EXPECT_EQ(stats().evictions, 1U);
  EXPECT_EQ(outputs_[2].size(), 2U);
  add(1, 5, 1, 1);  // computed again from its first token
  EXPECT_EQ(iterate(), 36);
  EXPECT_EQ(outputs_[1].size(), 2U);
}

TEST_F(Scheduling, ANewTrajectoryWaitsForBlocksOfTurnsUnderWay) {
  open(4, 64, 64, 3);
  add(1, 30, 6);  // three blocks in the end
  iterate();
  add(2, 30, 1);
  iterate();
  EXPECT_EQ(stats().waiting, 1U);
  drain();  // 1 goes idle, and nothing else is under way: it makes room
  EXPECT_EQ(outputs_[2].size(), 1U);
}

TEST_F(Scheduling, RandomLoadsEndAndLoseNothing) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    outputs_.clear();
    open(static_cast<uint32_t>(1 + rng.below(6)), 80, static_cast<int64_t>(1 + rng.below(40)),
         static_cast<int32_t>(5 + rng.below(12)));
    for (uint64_t id = 1; id <= 12; ++id)
      add(id, 1 + rng.below(25), 1 + static_cast<int>(rng.below(6)));
    int ended = 0;
    for (int i = 0; i < 3000 && ended < 12; ++i) {
      iterate();
      for (const auto& [id, done] : outputs_) {
        const auto turn = static_cast<uint32_t>(done.size());
        uint32_t& handled = turns_handled_[id];
        if (handled == turn) continue;
        handled = turn;
        if (turn < 3)
          add(id, 1 + rng.below(20), 2, turn);
        else
          scheduler_->remove(id);
        ended += turn == 3 ? 1 : 0;
      }
    }
    EXPECT_EQ(ended, 12) << "seed " << seed;
    EXPECT_EQ(stats().blocks_free, stats().blocks_total) << "seed " << seed;
    turns_handled_.clear();
  }
}

}  // namespace
}  // namespace cohort::compute
