#include "actors/roles/fill_advantages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "actors/roles/sample_masks.hpp"
#include "algorithms/estimators/estimator.hpp"

namespace cohort::actors {
namespace {

using proto::Trajectory;

// reward_normalization.grouping: trajectories of one group id are compared with each other. RAGEN's
// names, which ROLL's default keeps, mean the trajectories of one map, and of one tag.
std::vector<uint32_t> group_ids(const std::vector<Trajectory>& batch, config::Grouping grouping) {
  using config::Grouping;
  std::map<std::string, uint32_t> tags;
  std::vector<uint32_t> groups;
  for (const Trajectory& t : batch) {
    if (grouping == Grouping::traj_group_id || grouping == Grouping::state)
      groups.push_back(t.key.group);
    else if (grouping == Grouping::tags || grouping == Grouping::inductive)
      groups.push_back(tags.try_emplace(t.tag, static_cast<uint32_t>(tags.size())).first->second);
    else
      groups.push_back(0);
  }
  return groups;
}

/// Pipeline rlvr compares the answers to one prompt, and so do estimators with their own baseline.
config::Grouping grouping_of(const config::RunConfig& config) {
  const bool is_own = catalog::entry(config.adv_estimator).has(catalog::need::own_baseline);
  return config.pipeline == config::Pipeline::rlvr || is_own ? config::Grouping::traj_group_id
                                                             : config.reward_normalization.grouping;
}

std::optional<algorithms::NormScope> scope_of(std::optional<config::NormScope> asked) {
  if (!asked) return std::nullopt;
  switch (*asked) {
    case config::NormScope::batch:
      return algorithms::NormScope::batch;
    case config::NormScope::group:
      return algorithms::NormScope::group;
    case config::NormScope::running:
      return algorithms::NormScope::running;
    case config::NormScope::none:
      break;
  }
  return algorithms::NormScope::none;
}

algorithms::RewardNormOptions norm_of(const config::RunConfig& config) {
  const config::RewardNormalization& norm = config.reward_normalization;
  const bool is_rlvr = config.pipeline == config::Pipeline::rlvr;
  const bool is_batch = grouping_of(config) == config::Grouping::batch;
  algorithms::RewardNormOptions options = algorithms::reward_norm_options(
      is_batch ? algorithms::NormScope::batch : algorithms::NormScope::group,
      is_rlvr ? catalog::NormMethod::identity : norm.method,
      scope_of(is_rlvr ? config.norm_mean_type : norm.norm_mean_type),
      scope_of(is_rlvr ? config.norm_std_type : norm.norm_std_type));
  if (config.dialect == config::Dialect::verl) options.flat = algorithms::Flat::by_formula;
  return options;
}

/// What an estimator is told of a batch, one entry per trajectory.
struct BatchScores {
  std::vector<double> scores;
  std::vector<uint32_t> groups, lengths;
  std::vector<algorithms::ScorePart> parts;
  std::vector<double> baselines = {};  // of greedy answers

  /// Returns those of `members`, in their order.
  BatchScores of(const std::vector<size_t>& members) const {
    BatchScores some;
    some.parts = parts;
    for (algorithms::ScorePart& part : some.parts) part.scores.clear();
    for (size_t i : members) {
      some.scores.push_back(scores[i]);
      some.groups.push_back(groups[i]);
      some.lengths.push_back(lengths[i]);
      if (!baselines.empty()) some.baselines.push_back(baselines[i]);
      for (size_t k = 0; k < parts.size(); ++k) some.parts[k].scores.push_back(parts[k].scores[i]);
    }
    return some;
  }
  algorithms::TrajectoryScores view(const algorithms::RewardNormOptions& asked,
                                    bool is_rlvr) const {
    return {scores, groups, asked, is_rlvr, lengths, baselines, parts};
  }
};

/// The named rewards of each trajectory; none are named: those that the first one's score has.
Expected<std::vector<algorithms::ScorePart>> score_parts(const config::RunConfig& config,
                                                         const std::vector<Trajectory>& batch) {
  std::vector<std::string> names = config.gdpo_reward_keys;
  std::vector<double> weights = config.gdpo_reward_weights;
  if (names.empty() && !batch.empty())
    for (const proto::RewardPart& part : batch.front().reward_parts)
      if (part.weight != 0) {
        names.push_back(part.name);
        weights.push_back(part.weight);
      }
  weights.resize(names.size(), 1);
  std::vector<algorithms::ScorePart> parts;
  for (size_t k = 0; k < names.size(); ++k) {
    algorithms::ScorePart& column = parts.emplace_back();
    column.weight = weights[k];
    for (const Trajectory& t : batch) {
      const auto is_it = [&](const proto::RewardPart& part) {
        return part.name == names[k] || part.name.ends_with("/" + names[k]);
      };
      const auto found = std::ranges::find_if(t.reward_parts, is_it);
      if (found == t.reward_parts.end())
        return Error{Errc::config, fmt::format("gdpo_reward_keys: {} has no reward '{}'",
                                               to_string(t.key), names[k])};
      column.scores.push_back(found->value);
    }
  }
  return parts;
}

/// ROLL's rlvr normalises each domain by itself, and grpo there by group, against the keys of
/// reward_normalization; of verl's keys norm_adv_by_std_in_grpo counts.
std::vector<double> normalise(const config::RunConfig& config,
                              const algorithms::Estimator& estimator,
                              const std::vector<Trajectory>& batch, const BatchScores& all,
                              RunningScores* running) {
  const auto asked_of = [&](const std::string& domain, std::span<const double> scores) {
    algorithms::RewardNormOptions asked = norm_of(config);
    if (!has_running_norm(config)) return asked;
    algorithms::RunningMoments& sofar = (*running)[domain];
    for (const double score : scores) sofar.add(score);
    asked.running = sofar.moments();
    return asked;
  };
  const bool is_roll = config.dialect == config::Dialect::roll;
  if (config.pipeline != config::Pipeline::rlvr || !is_roll)
    return estimator.rewards(all.view(asked_of("", all.scores), false));
  std::map<std::string, std::vector<size_t>> domains;
  for (size_t i = 0; i < batch.size(); ++i) domains[batch[i].tag].push_back(i);
  std::vector<double> rewards(batch.size());
  for (const auto& [domain, members] : domains) {
    const BatchScores of_domain = all.of(members);
    const std::vector<double> normal =
        estimator.rewards(of_domain.view(asked_of(domain, of_domain.scores), true));
    for (size_t i = 0; i < members.size(); ++i) rewards[members[i]] = normal[i];
  }
  return rewards;
}

/// One reward per answered turn, and the token that ends it.
struct TurnRewards {
  std::vector<double> rewards;
  std::vector<uint32_t> ends;
};
TurnRewards reward_turns(const config::RunConfig& config, const algorithms::Estimator& estimator,
                         const std::vector<Trajectory>& batch, const BatchScores& all,
                         std::span<const int32_t> cu_seqlens) {
  TurnRewards turns;
  std::vector<double> paid;
  std::vector<uint32_t> trajectory_of, state_of;
  std::map<std::string_view, uint32_t> states;
  for (size_t i = 0; i < batch.size(); ++i)
    for (const proto::Turn& turn : batch[i].turns) {
      if (turn.response_end <= turn.response_begin) continue;  // nothing was sampled
      paid.push_back(turn.env_reward);
      trajectory_of.push_back(static_cast<uint32_t>(i));
      state_of.push_back(
          states.try_emplace(turn.observation, static_cast<uint32_t>(states.size())).first->second);
      turns.ends.push_back(static_cast<uint32_t>(cu_seqlens[i]) + turn.response_end - 1);
    }
  turns.rewards = estimator.turn_rewards({all.view(norm_of(config), false), paid, trajectory_of,
                                          state_of, config.step_reward_gamma,
                                          config.episode_reward_weight, config.step_reward_weight});
  if (turns.ends.empty()) turns.rewards.assign(batch.size(), 0);
  return turns;
}

/// The columns that the formulas read, widened once.
struct WideColumns {
  explicit WideColumns(const PackedBatch& packed)
      : logp(packed.old_logp.begin(), packed.old_logp.end()),
        ref_logp(packed.ref_logp.begin(), packed.ref_logp.end()),
        teacher_logp(packed.teacher_logp.begin(), packed.teacher_logp.end()),
        values(packed.values.begin(), packed.values.end()) {}
  std::vector<double> logp, ref_logp, teacher_logp, values;
};

/// verl's estimators over groups compare what is left of a score when the KL of all its tokens is
/// off; ROLL's take the KL off each token of what they have compared.
void take_kl_off(const algorithms::AdvantageOptions& options, const PackedBatch& packed,
                 const WideColumns& columns, std::vector<double>& scores) {
  for (size_t i = 0; i < scores.size(); ++i)
    for (auto t = static_cast<size_t>(packed.cu_seqlens[i]);
         t < static_cast<size_t>(packed.cu_seqlens[i + 1]); ++t)
      if (packed.mask[t] != 0)
        scores[i] -= options.kl_coef *
                     algorithms::kl_estimate(options.kl_kind, columns.logp[t], columns.ref_logp[t]);
}

algorithms::AdvantageOptions advantage_options(const config::RunConfig& config, double kl_coef,
                                               const algorithms::Estimator& estimator) {
  algorithms::AdvantageOptions options;
  options.advantages = estimator.advantages;
  options.gamma = config.gamma;
  options.lambda = config.lambd;
  if (config.dialect == config::Dialect::verl) options.holes = algorithms::Holes::carry;
  options.reward_clip = config.reward_clip;
  options.add_token_level_kl = config.add_token_level_kl;
  options.kl_kind = config.kl_penalty;
  options.kl_coef = kl_coef;
  options.whiten_rewards = config.whiten_rewards;
  options.whiten = config.whiten_advantages || estimator.whitens;
  options.advantage_clip = config.advantage_clip;
  return options;
}

/// One reward per trajectory, or per turn: as the estimator compares them; where a teacher alone
/// counts, 0.
TurnRewards compared_rewards(const config::RunConfig& config,
                             const algorithms::Estimator& estimator,
                             const std::vector<Trajectory>& batch, const BatchScores& all,
                             std::span<const int32_t> cu_seqlens, RunningScores* running) {
  if (config.opd.is_pure) return {std::vector<double>(batch.size(), 0), {}};
  if (estimator.turn_rewards != nullptr)
    return reward_turns(config, estimator, batch, all, cu_seqlens);
  return {normalise(config, estimator, batch, all, running), {}};
}

/// The advantages that a teacher gives, per token; none without one. Fills metrics.teacher.
Expected<std::vector<double>> leads_of_teacher(const config::RunConfig& config,
                                               const PackedBatch& packed,
                                               const WideColumns& columns,
                                               AdvantageMetrics& metrics) {
  if (!config.opd.is_asked()) return std::vector<double>();
  if (columns.teacher_logp.size() != packed.mask.size())
    return Error{Errc::unsupported,
                 "distillation: the trajectories have no log-probabilities of a teacher"};
  metrics.teacher = algorithms::teacher_metrics(packed.mask, columns.logp, columns.teacher_logp);
  return algorithms::teacher_leads(
      {config.opd.kind.value_or(config.kl_penalty), config.opd.coef, config.opd.clip}, packed.mask,
      columns.logp, columns.teacher_logp);
}

/// Takes the tokens of trajectories that do not train out of the mask. Returns their share.
double mask_samples(const config::RunConfig& config, const std::vector<Trajectory>& batch,
                    const std::vector<double>& scores, const std::vector<uint32_t>& groups,
                    PackedBatch& packed) {
  packed.trained = trained_samples(config.rlvr, batch, scores, groups);
  double untrained = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (packed.trained[i] != 0) continue;
    ++untrained;
    std::fill(packed.mask.begin() + packed.cu_seqlens[i],
              packed.mask.begin() + packed.cu_seqlens[i + 1], uint8_t{0});
  }
  return untrained / std::max<double>(1, static_cast<double>(batch.size()));
}

}  // namespace

bool has_running_norm(const config::RunConfig& config) {
  const algorithms::RewardNormOptions norm = norm_of(config);
  return norm.mean == algorithms::NormScope::running || norm.std == algorithms::NormScope::running;
}

bool compares_groups(const config::RunConfig& config) {
  if (config.opd.is_pure) return false;
  const config::Grouping grouping = grouping_of(config);
  if (grouping != config::Grouping::traj_group_id && grouping != config::Grouping::state)
    return false;
  const algorithms::RewardNormOptions norm = norm_of(config);
  const bool is_rlvr_grpo = config.pipeline == config::Pipeline::rlvr &&
                            config.adv_estimator == catalog::AdvEstimator::grpo;
  return is_rlvr_grpo || catalog::entry(config.adv_estimator).has(catalog::need::own_baseline) ||
         norm.mean == algorithms::NormScope::group || norm.std == algorithms::NormScope::group;
}

Expected<AdvantageMetrics> fill_advantages(const config::RunConfig& config, double kl_coef,
                                           const std::vector<Trajectory>& batch,
                                           PackedBatch& packed, RunningScores* running) {
  using catalog::need::critic, catalog::need::groups, catalog::need::parts;
  AdvantageMetrics metrics;
  const auto estimator = algorithms::estimator_of(config.adv_estimator);
  const catalog::Entry& row = catalog::entry(config.adv_estimator);
  if (!estimator || (row.has(critic) && packed.values.size() != packed.mask.size()))
    return Error{Errc::unsupported, fmt::format("adv_estimator: {} is not built in, or lacks {}",
                                                row.name(), catalog::needs_text(row.needs))};
  if (has_running_norm(config) && running == nullptr)
    return Error{Errc::unsupported,
                 "norm_mean_type, norm_std_type: running needs the scores of all steps before"};
  algorithms::AdvantageOptions options = advantage_options(config, kl_coef, *estimator);
  options.add_token_level_kl = options.add_token_level_kl && !packed.ref_logp.empty();
  const WideColumns columns(packed);
  BatchScores all{{}, group_ids(batch, grouping_of(config)), {}, {}};
  for (const Trajectory& t : batch) {
    all.scores.push_back(t.score);
    all.lengths.push_back(static_cast<uint32_t>(std::ranges::count(t.response_mask, 1)));
  }
  if (row.has(parts)) {
    COHORT_ASSIGN(all.parts, score_parts(config, batch));
  }
  all.baselines = packed.baselines;
  const std::vector<double> scores = all.scores;
  metrics.groups = algorithms::group_stats(scores, all.groups);
  if (options.add_token_level_kl && row.has(groups) && config.dialect == config::Dialect::verl) {
    take_kl_off(options, packed, columns, all.scores);
    options.add_token_level_kl = false;
  }
  const TurnRewards turns =
      compared_rewards(config, *estimator, batch, all, packed.cu_seqlens, running);
  if (has_sample_masks(config))
    metrics.untrained = mask_samples(config, batch, scores, all.groups, packed);
  COHORT_ASSIGN(const std::vector<double> leads,
                leads_of_teacher(config, packed, columns, metrics));
  COHORT_ASSIGN(const algorithms::TokenCredit credit,
                algorithms::compute_token_advantages({{packed.cu_seqlens, packed.mask},
                                                      turns.rewards,
                                                      columns.logp,
                                                      columns.ref_logp,
                                                      columns.values,
                                                      turns.ends,
                                                      leads},
                                                     options));
  metrics.summary = credit.summary;
  for (size_t t = 0; t < credit.advantages.size(); ++t)
    packed.advantages[t] = static_cast<float>(credit.advantages[t]);
  if (!packed.ref_logp.empty()) {
    std::vector<double> kl(packed.mask.size());
    for (size_t i = 0; i < kl.size(); ++i)
      kl[i] = algorithms::kl_estimate(options.kl_kind, columns.logp[i], columns.ref_logp[i]);
    metrics.kl = algorithms::sequence_mean(kl, packed.mask, packed.cu_seqlens);
  }
  return metrics;
}

nlohmann::json json_of(const RunningScores& running) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [domain, x] : running) json[domain] = {x.count, x.mean, x.squares};
  return json;
}

RunningScores running_scores_of(const nlohmann::json& json) {
  RunningScores running;
  if (!json.is_object()) return running;
  for (const auto& [domain, x] : json.items())
    if (x.is_array() && x.size() == 3 && x[0].is_number_unsigned() && x[1].is_number() &&
        x[2].is_number())
      running[domain] = {x[0].get<uint64_t>(), x[1].get<double>(), x[2].get<double>()};
  return running;
}

PackedBatch pack(const std::vector<Trajectory>& batch) {
  PackedBatch packed;
  bool has_reference = !batch.empty() && !batch.front().ref_logp.empty();
  for (const Trajectory& t : batch) {
    packed.mask.insert(packed.mask.end(), t.response_mask.begin(), t.response_mask.end());
    packed.old_logp.insert(packed.old_logp.end(), t.behavior_logp.begin(), t.behavior_logp.end());
    if (has_reference)
      packed.ref_logp.insert(packed.ref_logp.end(), t.ref_logp.begin(), t.ref_logp.end());
    packed.teacher_logp.insert(packed.teacher_logp.end(), t.teacher_logp.begin(),
                               t.teacher_logp.end());
    packed.values.insert(packed.values.end(), t.values.begin(), t.values.end());
    packed.cu_seqlens.push_back(static_cast<int32_t>(packed.mask.size()));
  }
  packed.advantages.resize(packed.mask.size());
  return packed;
}

}  // namespace cohort::actors
