/// {"estimator": a name of the catalogue, "dialect": verl (default) | roll | trl, …}. Inputs as the
/// estimator needs them: token_rewards [B][T] (gdpo: token_rewards_1, _2, … and param weights),
/// mask [B][T], group [B], values [B][T], baseline [B] -> raw_advantages, advantages and returns
/// [B][T], 0 behind the mask. Estimators of turns: scores, group [B], mask, turn_rewards [K] and
/// turn_state [K], a turn being a run of live tokens. TRL: rewards [n][k] -> advantages [n].
#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/estimators/estimator.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

using algorithms::Estimator;
using algorithms::NormScope;
using catalog::AdvEstimator;

/// Returns the row that a name of any dialect means.
std::optional<AdvEstimator> estimator_named(Case& in) {
  const auto rows = catalog::entries(AdvEstimator{});
  std::vector<std::string> known;
  for (const catalog::Dialect dialect : {catalog::Dialect::verl, catalog::Dialect::roll})
    for (const catalog::Name& name : catalog::names(rows, dialect))
      if (rows[name.row].is_built && !std::ranges::count(known, name.text))
        known.emplace_back(name.text);
  const std::string text = in.choice("estimator", known);
  const auto found = catalog::find<AdvEstimator>(text, catalog::Dialect::verl);
  return found ? found : catalog::find<AdvEstimator>(text, catalog::Dialect::roll);
}

NormScope scope_named(Case& in, std::string_view name, const char* fallback) {
  const std::string text = in.choice(name, {"none", "batch", "group"}, fallback);
  return text == "group" ? NormScope::group : text == "batch" ? NormScope::batch : NormScope::none;
}

/// What a config would ask for.
algorithms::RewardNormOptions norm_of(Case& in, AdvEstimator estimator, bool is_roll) {
  const bool is_compared = estimator == AdvEstimator::grpo || estimator == AdvEstimator::gigpo;
  if (is_roll) {
    const char* fallback = is_compared ? "group" : "none";
    return {scope_named(in, "norm_mean_type", fallback),
            scope_named(in, "norm_std_type", fallback)};
  }
  const NormScope mean = is_compared ? NormScope::group : NormScope::none;
  const bool is_divided = in.flag("norm_by_std", true);
  return {mean, is_divided ? mean : NormScope::none, algorithms::Flat::by_formula};
}

/// Returns the sum of each row over its live tokens.
std::vector<double> row_sums(const Array& rewards, const Array& mask) {
  std::vector<double> sums(mask.rows(), 0);
  for (size_t i = 0; i < mask.values.size() && i < rewards.values.size(); ++i)
    if (mask.values[i] != 0) sums[i / mask.columns()] += rewards.values[i];
  return sums;
}

/// One batch of a case, read.
struct Batch {
  AdvEstimator kind = AdvEstimator::grpo;
  Estimator estimator;
  algorithms::AdvantageOptions options;
  algorithms::RewardNormOptions norm;
  Array mask, token_rewards, values;
  std::vector<double> scores, baselines;
  std::vector<uint32_t> groups, lengths;
  std::vector<algorithms::ScorePart> parts;

  bool has(uint32_t needs) const { return catalog::entry(kind).has(needs); }
};

/// Reads how the tokens are credited.
void read_options(Case& in, bool is_roll, Batch& batch) {
  algorithms::AdvantageOptions& options = batch.options;
  options.advantages = batch.estimator.advantages;
  const bool has_token_returns = !batch.has(catalog::need::groups);
  if (is_roll || has_token_returns) options.gamma = in.number("gamma", 1.0);
  if (batch.kind == AdvEstimator::gae) options.lambda = in.number("lam", 1.0);
  const std::string holes =
      in.choice("holes", {"through", "carry", "reset"}, is_roll ? "through" : "carry");
  options.holes = holes == "through" ? algorithms::Holes::through
                  : holes == "carry" ? algorithms::Holes::carry
                                     : algorithms::Holes::reset;
  const bool is_whitened = batch.kind == AdvEstimator::gae && !is_roll;  // verl_translate.cpp
  options.whiten = in.flag("whiten_advantages", is_whitened) || batch.estimator.whitens;
  options.advantage_clip = in.maybe_number("advantage_clip");
}

void read_rewards(Case& in, Batch& batch) {
  batch.mask = in.array("mask", 2);
  const Packed packed = packed_of(batch.mask);
  for (size_t row = 0; row < batch.mask.rows(); ++row)
    batch.lengths.push_back(static_cast<uint32_t>(
        std::count(packed.mask.begin() + packed.cu_seqlens[row],
                   packed.mask.begin() + packed.cu_seqlens[row + 1], uint8_t{1})));
  if (batch.has(catalog::need::groups)) batch.groups = in.labels("group", batch.mask.rows());
  if (batch.has(catalog::need::parts)) {
    for (double weight : in.numbers("weights")) {
      const std::string name = "token_rewards_" + std::to_string(batch.parts.size() + 1);
      batch.parts.push_back({row_sums(in.array_like(name, batch.mask), batch.mask), weight});
    }
    batch.scores.assign(batch.mask.rows(), 0);
  } else {
    batch.token_rewards = in.array_like("token_rewards", batch.mask);
    batch.scores = row_sums(batch.token_rewards, batch.mask);
  }
  if (batch.has(catalog::need::critic)) batch.values = in.array_like("values", batch.mask);
  if (batch.has(catalog::need::greedy)) {
    batch.baselines = in.array("baseline", 1).values;
    if (batch.baselines.size() != batch.mask.rows())
      in.refuse("inputs: 'baseline' has another number of rows");
  }
}

Json answer_of(const Case& in, const Batch& batch, const algorithms::TokenCredit& credit) {
  Json out{{"raw_advantages", in.answer(credit.raw, batch.mask)},
           {"advantages", in.answer(credit.advantages, batch.mask)},
           {"returns", in.answer(credit.returns, batch.mask)}};
  if (batch.kind == AdvEstimator::reinforce) out["raw_returns"] = out["returns"];
  return out;
}

/// Estimators that compare scores: one reward per row, on its last live token.
Expected<Json> compare_scores(Case& in, const Batch& batch) {
  const Packed packed = packed_of(batch.mask);
  const algorithms::PackedLayout layout{packed.cu_seqlens, packed.mask};
  const std::vector<double> rewards = batch.estimator.rewards(
      {batch.scores, batch.groups, batch.norm, false, batch.lengths, batch.baselines, batch.parts});
  COHORT_ASSIGN(const algorithms::TokenCredit credit,
                algorithms::compute_token_advantages({layout, rewards, {}, {}}, batch.options));
  return answer_of(in, batch, credit);
}

/// Estimators whose recursion reads every token's reward. A baseline comes off the last one.
Expected<Json> credit_token_rewards(Case& in, const Batch& batch) {
  const Packed packed = packed_of(batch.mask);
  algorithms::TokenRewards rewards{.rewards = batch.token_rewards.values,
                                   .layout = {packed.cu_seqlens, packed.mask},
                                   .values = batch.values.values};
  COHORT_ASSIGN(algorithms::TokenCredit credit, algorithms::credit_tokens(rewards, batch.options));
  if (batch.baselines.empty()) return answer_of(in, batch, credit);
  const std::vector<double> left = batch.estimator.rewards(
      {batch.scores, batch.groups, batch.norm, false, batch.lengths, batch.baselines, {}});
  std::vector<double> shifted = batch.token_rewards.values;
  for (size_t row = 0; row < batch.mask.rows(); ++row)
    for (size_t t = (row + 1) * batch.mask.columns(); t-- > row * batch.mask.columns();)
      if (packed.mask[t] != 0) {
        shifted[t] += left[row] - batch.scores[row];
        break;
      }
  rewards.rewards = shifted;
  std::vector<double> returns = std::move(credit.returns);
  COHORT_ASSIGN(credit, algorithms::credit_tokens(rewards, batch.options));
  credit.returns = std::move(returns);
  return answer_of(in, batch, credit);
}

/// gigpo and step_reinforce.
Expected<Json> credit_turns(Case& in, Batch& batch, bool is_roll) {
  read_options(in, is_roll, batch);
  algorithms::TurnScores turns;
  turns.gamma = in.number("step_reward_gamma", turns.gamma);
  if (batch.kind == AdvEstimator::gigpo) {
    turns.episode_weight = in.number("episode_reward_weight", 1.0);
    turns.turn_weight = in.number("step_reward_weight", 1.0);
  }
  batch.norm = norm_of(in, batch.kind, true);
  batch.mask = in.array("mask", 2);
  batch.scores = in.array("scores", 1).values;
  const Array rewards = in.array("turn_rewards", 1);
  const std::vector<uint32_t> states = in.labels("turn_state", rewards.rows());
  const std::vector<uint32_t> groups = in.labels("group", batch.mask.rows());
  if (batch.scores.size() != batch.mask.rows())
    in.refuse("inputs: 'scores' has another number of rows");
  const Packed packed = packed_of(batch.mask);
  std::vector<uint32_t> rows, ends;
  for (size_t t = 0; t < packed.mask.size(); ++t) {
    const bool is_row_end = (t + 1) % batch.mask.columns() == 0;
    if (packed.mask[t] == 0 || (!is_row_end && packed.mask[t + 1] != 0)) continue;
    ends.push_back(static_cast<uint32_t>(t));
    rows.push_back(static_cast<uint32_t>(t / batch.mask.columns()));
  }
  if (ends.size() != rewards.values.size())
    in.refuse("inputs: " + std::to_string(rewards.values.size()) + " turn_rewards for " +
              std::to_string(ends.size()) + " runs of live tokens");
  COHORT_TRY(in.read());
  turns.trajectories = {batch.scores, groups, batch.norm, false};
  turns.rewards = rewards.values;
  turns.trajectory_of = rows;
  turns.state_of = states;
  const std::vector<double> of_turns = batch.estimator.turn_rewards(turns);
  COHORT_ASSIGN(const algorithms::TokenCredit credit,
                algorithms::compute_token_advantages(
                    {{packed.cu_seqlens, packed.mask}, of_turns, {}, {}, {}, ends}, batch.options));
  Json out = answer_of(in, batch, credit);
  out["turn_rewards"] = in.answer(of_turns, rewards);
  return out;
}

/// TRL's nanmean and nanstd over each `size` rows: the moments of what is no NaN, row by row.
std::vector<algorithms::Moments> block_moments(const std::vector<double>& x, size_t size) {
  std::vector<algorithms::Moments> found(x.size());
  for (size_t begin = 0; begin < x.size(); begin += size) {
    std::vector<size_t> members;
    for (size_t i = begin; i < begin + size; ++i)
      if (!std::isnan(x[i])) members.push_back(i);
    const algorithms::Moments moments = algorithms::moments_of(x, members);
    for (size_t i : members) found[i] = moments;
  }
  return found;
}

/// Returns (x - mean)/(std + 1e-4), the mean over each `mean_rows`, the std over each `std_rows`
/// rows (none: x - mean). 0 for a value alone, whose std is NaN in TRL, and its advantage 0.
std::vector<double> trl_normal(const std::vector<double>& x, size_t mean_rows,
                               std::optional<size_t> std_rows) {
  constexpr double k_trl_epsilon = 1e-4;
  const auto means = block_moments(x, mean_rows);
  const auto spreads = block_moments(x, std_rows.value_or(mean_rows));
  std::vector<double> normal(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    normal[i] = (x[i] - means[i].mean) / (std_rows ? spreads[i].std + k_trl_epsilon : 1);
  return normal;
}

/// What TRL 1.16's GRPOTrainer makes of a batch's rewards: one column for each function, NaN where
/// it gave none.
struct TrlRewards {
  Array rewards;
  std::vector<double> weights;

  size_t rows() const { return rewards.rows(); }
  bool is_scored(size_t row) const {
    const auto first = rewards.values.begin() + static_cast<std::ptrdiff_t>(row * weights.size());
    return !std::all_of(first, first + static_cast<std::ptrdiff_t>(weights.size()),
                        [](double x) { return std::isnan(x); });
  }
  /// Returns nansum of weight times value over the columns; NaN for a row without a reward.
  std::vector<double> sums(const std::vector<std::vector<double>>& columns) const {
    std::vector<double> total(rows(), std::numeric_limits<double>::quiet_NaN());
    for (size_t row = 0; row < rows(); ++row) {
      if (!is_scored(row)) continue;
      total[row] = 0;
      for (size_t k = 0; k < columns.size(); ++k)
        if (!std::isnan(columns[k][row])) total[row] += weights[k] * columns[k][row];
    }
    return total;
  }
  std::vector<double> column(size_t k) const {
    std::vector<double> values;
    for (size_t row = 0; row < rows(); ++row)
      values.push_back(rewards.values[row * weights.size() + k]);
    return values;
  }
};

/// TRL's GRPOTrainer: groups of num_generations rows. A missing reward leaves the mean and the std
/// of its column; a row without any gets 0.
Expected<Json> scale_as_trl(Case& in) {
  in.choice("estimator", {"grpo"});
  const int64_t group_size = in.integer("num_generations");
  const NormScope scale = scope_named(in, "scale_rewards", "group");
  const std::string order =
      in.choice("multi_objective_aggregation", {"sum_then_normalize", "normalize_then_sum"},
                "sum_then_normalize");
  TrlRewards given{in.array("rewards", 2), in.numbers("reward_weights")};
  const size_t rows = given.rows();
  if (group_size < 1 || rows % static_cast<uint64_t>(group_size) != 0)
    in.refuse("params: 'num_generations' does not divide the " + std::to_string(rows) + " rows");
  if (given.weights.size() != given.rewards.columns())
    in.refuse("params: 'reward_weights' has not one entry per column of rewards");
  if (std::ranges::any_of(given.rewards.values, [](double x) { return std::isinf(x); }))
    in.refuse("inputs: 'rewards' holds what is not finite");
  COHORT_TRY(in.read());
  const auto group_rows = static_cast<size_t>(group_size);
  const bool is_summed = order == "sum_then_normalize";
  std::vector<std::vector<double>> columns;
  for (size_t k = 0; k < given.weights.size(); ++k) {
    columns.push_back(given.column(k));
    if (!is_summed) columns[k] = trl_normal(columns[k], group_rows, group_rows);
  }
  std::optional<size_t> spread = rows;
  if (is_summed && scale == NormScope::group) spread = group_rows;
  if (is_summed && scale == NormScope::none) spread.reset();
  std::vector<double> total =
      trl_normal(given.sums(columns), is_summed ? group_rows : rows, spread);
  for (double& x : total)
    if (std::isnan(x)) x = 0;
  return Json{{"advantages", in.answer(total, Array{{static_cast<int64_t>(rows)}, {}})}};
}

}  // namespace

Expected<Json> advantage(Case& in) {
  const std::string dialect = in.choice("dialect", {"verl", "roll", "trl"}, "verl");
  if (dialect == "trl") return scale_as_trl(in);
  const bool is_roll = dialect == "roll";
  const auto kind = estimator_named(in);
  const auto built = kind ? algorithms::estimator_of(*kind) : std::nullopt;
  if (!built) {
    in.refuse("params: 'estimator' is not built in");
    return in.read().error();
  }
  Batch batch;
  batch.kind = *kind;
  batch.estimator = *built;
  if (batch.estimator.turn_rewards != nullptr) return credit_turns(in, batch, is_roll);
  in.pass_over({"group", "values", "baseline"});
  batch.norm = norm_of(in, *kind, is_roll);
  read_options(in, is_roll, batch);
  read_rewards(in, batch);
  COHORT_TRY(in.read());
  return batch.has(catalog::need::groups) ? compare_scores(in, batch)
                                          : credit_token_rewards(in, batch);
}

}  // namespace cohort::evaluate
