// LOSS-2 and TRAIN-3 over the catalogue: for every policy loss that is built, the parameters after
// an update are the same bits on 1, 2 and 4 cards, for any accumulation of the mini-batch, any
// number of threads and any order in which trajectories arrive; and a token's loss and gradient are
// the same bits in 1, 2, 4 or 8 micro-batches, packed in any order. A loss that is added to the
// catalogue is covered.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "actors/roles/policy_update.hpp"
#include "algorithms/losses/surrogate.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::actors {
namespace {

using algorithms::PolicyLossInput;
using algorithms::PolicyLossOptions;
using catalog::PolicyLossKind;

std::vector<PolicyLossKind> built_losses() {
  std::vector<PolicyLossKind> kinds;
  const auto rows = catalog::entries(PolicyLossKind{});
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].is_built) kinds.push_back(static_cast<PolicyLossKind>(i));
  return kinds;
}

// -- a token's loss and gradient

constexpr int64_t k_sequences = 8;

struct Tokens {
  PolicyLossInput input;  // f32, of 8 sequences with two runs of sampled tokens each
  algorithms::GlobalCounts counts;
  std::vector<int64_t> starts{0};
};

Tokens random_tokens(Rng& rng) {
  std::vector<float> logp, old, advantages, ref, weights, marks;
  std::vector<int64_t> seq_id, segment_id;
  Tokens tokens;
  int64_t segments = 0;
  for (int64_t s = 0; s < k_sequences; ++s) {
    const float mark = rng.below(2) == 0 ? 1.0f : 0.0f;
    for (int run = 0; run < 2; ++run, ++segments)
      for (uint64_t n = 1 + rng.below(6); n > 0; --n) {
        logp.push_back(static_cast<float>(-3 * rng.uniform() - 0.01));
        old.push_back(logp.back() + static_cast<float>(rng.uniform() - 0.5));
        ref.push_back(logp.back() + static_cast<float>(rng.uniform() - 0.5));
        advantages.push_back(static_cast<float>(4 * (rng.uniform() - 0.5)));
        weights.push_back(static_cast<float>(2 * rng.uniform()));
        marks.push_back(mark);
        seq_id.push_back(s);
        segment_id.push_back(segments);
      }
    tokens.starts.push_back(static_cast<int64_t>(logp.size()));
  }
  PolicyLossInput& input = tokens.input;
  input.logp = at::tensor(logp);
  input.old_logp = at::tensor(old);
  input.advantages = at::tensor(advantages);
  input.ref_logp = at::tensor(ref);
  input.weights = at::tensor(weights);
  input.marks = at::tensor(marks);
  input.seq_id = at::tensor(seq_id, at::kLong);
  input.seq_count = k_sequences;
  input.segment_id = at::tensor(segment_id, at::kLong);
  input.segment_count = segments;
  tokens.counts = {static_cast<double>(logp.size()), k_sequences, 17, k_sequences};
  return tokens;
}

PolicyLossOptions random_options(PolicyLossKind kind, Rng& rng) {
  PolicyLossOptions options;
  options.kind = kind;
  options.dual_clip = rng.below(2) == 0;
  options.ratio_level = static_cast<algorithms::RatioLevel>(rng.below(3));
  options.loss_agg =
      static_cast<algorithms::LossAgg>(rng.below(catalog::entries(algorithms::LossAgg{}).size()));
  if (rng.below(2) == 0) options.off_policy_mask = 0.05;
  if (rng.below(2) == 0) options.ratio_cap = 1.2;
  options.use_kl_loss = true;
  options.kl_loss_coef = 0.1;
  options.correction.is_weighted = true;
  options.correction.level = static_cast<catalog::CorrectionLevel>(rng.below(4));
  return options;
}

struct TokenResults {
  at::Tensor loss, gradient;  // [M] in the batch's order
};

/// Sequences in the order of `order`, cut into `parts` micro-batches.
TokenResults computed(const Tokens& tokens, const PolicyLossOptions& options,
                      const std::vector<int64_t>& order, int64_t parts) {
  const auto size = tokens.input.logp.size(0);
  TokenResults results{at::zeros({size}), at::zeros({size})};
  for (int64_t p = 0; p < parts; ++p) {
    std::vector<at::Tensor> rows;
    for (int64_t i = k_sequences * p / parts; i < k_sequences * (p + 1) / parts; ++i) {
      const auto s = static_cast<size_t>(order[static_cast<size_t>(i)]);
      rows.push_back(at::arange(tokens.starts[s], tokens.starts[s + 1], at::kLong));
    }
    const at::Tensor at = at::cat(rows);
    PolicyLossInput part = tokens.input;
    for (at::Tensor* x : {&part.logp, &part.old_logp, &part.advantages, &part.ref_logp,
                          &part.weights, &part.marks, &part.seq_id, &part.segment_id})
      *x = x->index_select(0, at);
    part.logp.set_requires_grad(true);
    const algorithms::PolicyLoss loss = algorithms::policy_loss(part, options, tokens.counts);
    const auto gradient = torch::autograd::grad({loss.total}, {part.logp});
    results.loss.index_copy_(0, at, loss.tokens);
    results.gradient.index_copy_(0, at, gradient[0]);
  }
  return results;
}

TEST(LossRegistry, ATokenHasTheSameBitsInAnySplitAndOrder) {  // LOSS-2
  Rng rng(7);
  for (PolicyLossKind kind : built_losses())
    for (int trial = 0; trial < 6; ++trial) {
      const Tokens tokens = random_tokens(rng);
      const PolicyLossOptions options = random_options(kind, rng);
      std::vector<int64_t> order(k_sequences);
      std::iota(order.begin(), order.end(), 0);
      const TokenResults whole = computed(tokens, options, order, 1);
      EXPECT_TRUE(whole.gradient.isfinite().all().item<bool>()) << to_string(kind);
      for (int64_t parts : {1, 2, 4, 8}) {
        for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
        const TokenResults cut = computed(tokens, options, order, parts);
        EXPECT_TRUE(cut.loss.equal(whole.loss)) << to_string(kind) << " in " << parts;
        EXPECT_TRUE(cut.gradient.equal(whole.gradient)) << to_string(kind) << " in " << parts;
      }
    }
}

TEST(LossRegistry, OnlyALossWithAFirstPassPicks) {
  for (PolicyLossKind kind : built_losses())
    EXPECT_EQ(algorithms::loss_form(kind).picks != nullptr,
              catalog::entry(kind).has(catalog::need::first_pass))
        << to_string(kind);
}

// -- parameters after an update

/// Answers in two parts, of groups of four, sorted as the train worker sorts them.
std::vector<proto::Trajectory> random_batch() {
  std::vector<proto::Trajectory> batch;
  Rng rng(11);
  for (uint32_t i = 0; i < 8; ++i) {
    proto::Trajectory t;
    t.key.group = i / 4;
    t.key.index = i % 4;
    t.score = static_cast<double>(rng.below(3)) - 0.5;
    if (i % 3 == 0) t.metrics.emplace_back(proto::k_demonstration, 1.0);
    const size_t size = 8 + rng.below(9);
    for (size_t k = 0; k < size; ++k) {
      t.tokens.push_back(static_cast<int32_t>(rng.below(19)));
      t.response_mask.push_back(k > 2 && k != 5 ? 1 : 0);
      t.behavior_logp.push_back(k > 2 && k != 5 ? static_cast<float>(-2.9 + 0.2 * rng.uniform())
                                                : 0);
    }
    batch.push_back(std::move(t));
  }
  return batch;
}

struct Layout {
  int ranks = 1, threads = 1;
  int64_t accumulation = 1;  // of the same optimizer batch
  bool is_shuffled = false;
};

UpdateOptions update_options(PolicyLossKind kind, const Layout& layout) {
  UpdateOptions options;
  config::RunConfig& c = options.config;
  c.actor_train.pg_variant = kind;
  c.actor_train.training_args.gradient_accumulation_steps = layout.accumulation;
  c.actor_train.training_args.per_device_train_batch_size = 8 / layout.accumulation;
  c.derived.optimizer_batch = 8;
  c.derived.total_optimizer_steps = 2;
  c.ppo_epochs = 2;
  const bool is_bypass = kind == PolicyLossKind::bypass_mode;
  c.derived.old_log_probs =
      is_bypass ? config::OldLogProbs::behavior : config::OldLogProbs::recomputed;
  c.train_infer_correction.rules.is_weighted = true;
  c.train_infer_correction.rules.rejections =
      catalog::parse_rejections("token_k1,seq_mean_k2", "0.8_1.9,0.4").value();
  c.adv_estimator = config::AdvEstimator::reinforce;
  c.policy_loss.kl_cov_ratio = c.policy_loss.clip_cov_ratio = 0.2;
  c.policy_loss.clip_cov_lb = 0;
  c.policy_loss.ratio_cap = 1.02;
  c.init_kl_coef = 0;
  c.actor_train.training_args.learning_rate = 0.01;
  c.actor_train.training_args.lr_scheduler_type = config::SchedulerType::constant;
  return options;
}

struct Outcome {
  uint64_t hash = 0;
  double loss = 0;
  std::vector<std::byte> weights;
  bool operator==(const Outcome&) const = default;
};

/// An update on one rank; the whole group calls it.
struct Update {
  PolicyLossKind kind;
  Layout layout = {};
  int64_t micro_batch_tokens = 16;
  double adam_eps = 1e-8;

  Outcome run(compute::Collectives* group) const {
    std::vector<proto::Trajectory> batch = random_batch();
    if (layout.is_shuffled) {
      std::reverse(batch.begin(), batch.end());
      std::ranges::sort(batch, {}, [](const proto::Trajectory& t) {
        return std::pair(t.key.group, t.key.index);
      });
    }
    compute::TrainEngineOptions engine = tests::tiny_options();
    engine.threads = layout.threads;
    engine.micro_batch_tokens = micro_batch_tokens;
    engine.optimizer.eps = adam_eps;
    engine.zero.group = group;
    tests::TrainRig rig(engine);
    rig.onload_all();
    PolicyUpdater updater(update_options(kind, layout));
    const auto report = updater.update(*rig.engine, control::UpdateRequest{}, batch);
    EXPECT_TRUE(report) << to_string(kind) << ": " << report.error().detail;
    if (!report) return {};
    const auto loss =
        std::ranges::find(report->metrics, "loss", &std::pair<std::string, double>::first);
    return {report->param_hash, loss->second, tests::flat_weights(*rig.engine)};
  }
};

std::vector<Outcome> on_cards(const Update& update) {
  const int ranks = update.layout.ranks;
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  auto rendezvous = compute::Rendezvous::in_process();
  tests::on_threads(ranks, [&](int rank) {
    std::unique_ptr<compute::Collectives> group;
    if (ranks > 1)
      group = compute::Collectives::join(tests::group_options(rank, ranks, "losses", rendezvous))
                  .value();
    outcomes[static_cast<size_t>(rank)] = update.run(group.get());
  });
  return outcomes;
}

double distance(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const auto* x = reinterpret_cast<const float*>(a.data());
  const auto* y = reinterpret_cast<const float*>(b.data());
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; std::isfinite(worst) && i < a.size() / sizeof(float); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(x[i] - y[i])));
  return worst;
}

TEST(LossRegistry, ParametersHaveTheSameBitsOnAnyCards) {  // TRAIN-3
  for (PolicyLossKind kind : built_losses()) {
    const Outcome expected = Update{kind}.run(nullptr);
    for (const Layout& layout :
         std::vector<Layout>{{2, 1, 2, false}, {4, 1, 4, true}, {1, 3, 8, true}, {2, 2, 8, true}})
      for (const Outcome& outcome : on_cards({kind, layout}))
        EXPECT_TRUE(outcome == expected)
            << to_string(kind) << ": " << layout.ranks << " cards, accumulation "
            << layout.accumulation << ", " << layout.threads << " threads";
  }
}

// How many tokens the engine packs into one pass decides where its sums over rows round (PACK-2):
// the parameters agree to rounding. Adam with a large epsilon does not turn the rounding of a
// gradient that is 0 into a step.
TEST(LossRegistry, ParametersAgreeToRoundingForAnyPacking) {
  for (PolicyLossKind kind : built_losses()) {
    const Outcome expected = Update{kind, {}, 1, 1.0}.run(nullptr);
    for (int64_t tokens : {24, 60, 1 << 20}) {
      const Outcome packed = Update{kind, {}, tokens, 1.0}.run(nullptr);
      EXPECT_NEAR(packed.loss, expected.loss, 1e-5 * (1 + std::abs(expected.loss)))
          << to_string(kind);
      EXPECT_LE(distance(packed.weights, expected.weights), 2.5e-7) << to_string(kind);
    }
  }
}

TEST(LossRegistry, EveryLossMovesTheParameters) {
  tests::TrainRig start(tests::tiny_options());
  for (PolicyLossKind kind : built_losses())
    EXPECT_NE(Update{kind}.run(nullptr).hash, start.engine->param_hash()) << to_string(kind);
}

}  // namespace
}  // namespace cohort::actors
