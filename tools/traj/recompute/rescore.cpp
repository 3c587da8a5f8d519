#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/roles/group_sieve.hpp"
#include "actors/roles/reward_actor.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/config/train_groups.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "runtime/job/policy.hpp"
#include "runtime/plugin/open_reward.hpp"
#include "tools/actor-node/score_command.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/recompute/recompute_commands.hpp"
#include "tools/traj/recompute/step_advantages.hpp"
#include "tools/traj/table.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;
using actors::RewardFunction;
using proto::Trajectory;

/// What a reward sees of an imported trajectory: the texts as they were given.
tasks::RewardRow imported_row(const Trajectory& t) {
  tasks::RewardRow row;
  row.id = proto::to_string(t.key);
  if (!t.turns.empty()) {
    row.prompt = t.turns.front().observation;
    row.response = t.turns.back().response;
  }
  row.ground_truth = t.ground_truth;
  row.data_source = t.data_source.empty() ? t.tag : t.data_source;
  row.columns = "{}";
  row.response_tokens = static_cast<uint32_t>(std::ranges::count(t.response_mask, uint8_t{1}));
  row.is_finished = t.stop_reason != "length";
  return row;
}

/// The rewards that score a step again, and what they are told of a trajectory.
struct Scorers {
  std::vector<RewardFunction> rewards;
  bool is_for_all = false;                           // one reward, of every trajectory
  std::shared_ptr<const tasks::ChatFormat> chat;     // null: the texts are an import's
  std::shared_ptr<const actors::PromptSet> prompts;  // of the run's rows; null: it has none

  std::vector<size_t> of(const Trajectory& t) const {
    return is_for_all ? std::vector<size_t>{0} : actors::rewards_of(t, rewards, prompts.get());
  }
  tasks::RewardRow row_of(const Trajectory& t) const {
    return chat ? actors::reward_row(t, prompts.get(), *chat) : imported_row(t);
  }
};

bool is_config(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

/// The `rewards` of another config.
Expected<std::map<std::string, config::RewardConfig>> rewards_in(const std::string& path) {
  COHORT_ASSIGN(const std::string text, config::read_text(path));
  COHORT_ASSIGN(config::RunConfig config,
                config::load_text(text, path, {}, {.check_files = false}));
  return std::move(config.rewards);
}

Expected<Scorers> open_scorers(const RecordedStep& recorded, const RewardWords& words) {
  config::RunConfig config = recorded.asked;
  Scorers scorers;
  if (is_config(words.spec.plugin)) {
    COHORT_ASSIGN(config.rewards, rewards_in(words.spec.plugin));
    for (const auto& [name, reward] : config.rewards)
      if (config::is_on_cards(reward))
        return Error{
            Errc::unsupported,
            fmt::format("{}: rewards.{} is a model, which has a card in a run; take the entry out "
                        "(`actor-node logprobs` gives a reward model's scores of ids)",
                        words.spec.plugin, name)};
    COHORT_ASSIGN(scorers.rewards, actors::open_rewards(config));
  } else {
    COHORT_ASSIGN(const plugin::PluginSpec spec, spec_of(words));
    RewardFunction reward{"reward", 1, {}, nullptr, {}};
    COHORT_ASSIGN(reward.scorer, plugin::open_reward(spec));
    scorers.rewards.push_back(std::move(reward));
    scorers.is_for_all = true;
  }
  if (recorded.is_imported) return scorers;
  COHORT_ASSIGN(const job::Policy policy, job::policy_of(config));
  scorers.chat = policy.chat;
  if (config.pipeline == config::Pipeline::rlvr) {
    COHORT_ASSIGN(scorers.prompts, actors::PromptSet::open(config, scorers.chat));
  }
  return scorers;
}

/// Trajectories whose mask says that a reward failed, or that their group had no signal: both can
/// be otherwise under other rewards.
bool is_scored_again(const Trajectory& t) {
  return t.mask_reason.empty() || proto::is_left_out(t) || t.mask_reason.starts_with("rewards.");
}

/// Takes the results of one reward into the trajectories at `places`.
void score_by(const RewardFunction& reward, const Scorers& scorers,
              const std::vector<size_t>& places, uint32_t portion,
              std::vector<Trajectory>& trajectories) {
  if (!reward.scorer) {
    for (size_t at : places)
      actors::add_result(reward, {reward.of_trajectory(trajectories[at]), {}, "", ""},
                         trajectories[at]);
    return;
  }
  std::vector<InputRow> rows;
  for (size_t at : places) rows.push_back({at, scorers.row_of(trajectories[at])});
  const std::vector<tasks::RewardResult> results = score_rows(*reward.scorer, rows, portion);
  for (size_t i = 0; i < places.size(); ++i)
    actors::add_result(reward, results[i], trajectories[places[i]]);
}

/// Judges each group again where the config filters groups.
void sift(const config::RunConfig& config, std::vector<Trajectory>& trajectories) {
  if (!config::has_group_filter(config)) return;
  const actors::GroupSieve sieve(config);
  std::map<uint32_t, std::vector<const Trajectory*>> groups;
  for (const Trajectory& t : trajectories) groups[t.key.group].push_back(&t);
  std::map<uint32_t, std::string> reasons;
  for (const auto& [group, members] : groups) reasons[group] = sieve.judge(members).reason;
  for (Trajectory& t : trajectories)
    if (t.mask_reason.empty() && !reasons[t.key.group].empty())
      t.mask_reason = std::string(proto::k_left_out) + reasons[t.key.group];
}

std::vector<Trajectory> scored_again(const RecordedStep& recorded, const Scorers& scorers,
                                     uint32_t portion) {
  std::vector<Trajectory> trajectories = recorded.trajectories;
  std::vector<std::vector<size_t>> places(scorers.rewards.size());  // by reward
  for (size_t i = 0; i < trajectories.size(); ++i) {
    Trajectory& t = trajectories[i];
    if (!is_scored_again(t)) continue;
    t.mask_reason.clear();
    t.reward_parts.clear();
    for (size_t reward : scorers.of(t)) places[reward].push_back(i);
  }
  for (size_t reward = 0; reward < places.size(); ++reward)
    score_by(scorers.rewards[reward], scorers, places[reward], portion, trajectories);
  for (size_t i = 0; i < trajectories.size(); ++i)
    if (is_scored_again(recorded.trajectories[i]))
      actors::finish_score(trajectories[i], recorded.asked.pipeline == config::Pipeline::rlvr);
  sift(recorded.asked, trajectories);
  return trajectories;
}

/// One trajectory before and after.
struct Change {
  const Trajectory &before, &after;
  std::optional<double> old_advantage, new_advantage;  // means over its tokens; none: not trained
};

std::map<proto::TrajectoryKey, double> mean_advantages(const StepAdvantages& step) {
  std::map<proto::TrajectoryKey, double> means;
  for (size_t i = 0; i < step.trajectories().size(); ++i)
    means[step.trajectories()[i].key] = range_of(step, i).mean;
  return means;
}

std::string parts_of(const Trajectory& t) {
  std::string text;
  for (const proto::RewardPart& part : t.reward_parts)
    if (part.weight != 0)
      text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", printable(part.name), part.value);
  return text;
}

void print_table(const std::vector<Change>& changes) {
  Table table({"GROUP", "INDEX", "OLD", "NEW", "OLD_ADV", "NEW_ADV", "FATE", "PARTS"});
  const auto number = [](const std::optional<double>& x) {
    return x ? fmt::format("{:.6f}", *x) : ".";
  };
  for (const Change& x : changes)
    table.add({fmt::to_string(x.before.key.group), fmt::to_string(x.before.key.index),
               fmt::format("{:.6g}", x.before.score), fmt::format("{:.6g}", x.after.score),
               number(x.old_advantage), number(x.new_advantage), std::string(fate_of(x.after)),
               x.after.mask_reason.empty() ? parts_of(x.after) : printable(x.after.mask_reason)});
  fmt::print("{}", table.render());
}

void print_lines(const std::vector<Change>& changes) {
  for (const Change& x : changes) {
    Json parts = Json::object();
    for (const proto::RewardPart& part : x.after.reward_parts)
      parts[printable(part.name)] = part.value;
    Json line{{"step", x.before.key.step},
              {"group", x.before.key.group},
              {"index", x.before.key.index},
              {"old_score", x.before.score},
              {"new_score", x.after.score},
              {"old_advantage", nullptr},
              {"new_advantage", nullptr},
              {"parts", std::move(parts)},
              {"mask_reason", printable(x.after.mask_reason)}};
    if (x.old_advantage) line["old_advantage"] = *x.old_advantage;
    if (x.new_advantage) line["new_advantage"] = *x.new_advantage;
    fmt::print("{}\n", line.dump());
  }
}

void print_summary(const std::vector<Change>& changes) {
  double old_sum = 0, new_sum = 0;
  size_t changed = 0, flipped = 0, masked = 0;
  for (const Change& x : changes) {
    old_sum += x.before.score;
    new_sum += x.after.score;
    changed += x.before.score != x.after.score ? 1 : 0;
    masked += x.after.mask_reason.starts_with("rewards.") ? 1 : 0;
    flipped += x.old_advantage.value_or(0) * x.new_advantage.value_or(0) < 0 ? 1 : 0;
  }
  const auto count = static_cast<double>(changes.size());
  fmt::print(stderr,
             "{} trajectories: mean score {:.6g}, was {:.6g}; {} scores differ, {} advantages "
             "change their sign, {} have no score\n",
             changes.size(), new_sum / count, old_sum / count, changed, flipped, masked);
}

}  // namespace

Expected<void> rescore(const RescoreOptions& options) {
  COHORT_ASSIGN(const RecordedStep recorded, read_step(options.question));
  COHORT_ASSIGN(const Scorers scorers, open_scorers(recorded, options.reward));
  constexpr uint32_t k_rows_of_a_call = 8;
  RecordedStep again = recorded;
  again.trajectories = scored_again(recorded, scorers, k_rows_of_a_call);
  const AdvantageSources sources{recorded.asked, recorded.kl_coefficient(), nullptr,
                                 recorded.earlier};
  COHORT_ASSIGN(const StepAdvantages before, advantages_of(sources, recorded.batch()));
  COHORT_ASSIGN(const StepAdvantages after, advantages_of(sources, again.batch()));
  const auto old_means = mean_advantages(before), new_means = mean_advantages(after);
  const auto mean_in = [](const auto& means, const proto::TrajectoryKey& key) {
    const auto found = means.find(key);
    return found == means.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < again.trajectories.size(); ++i) {
    const proto::TrajectoryKey& key = recorded.trajectories[i].key;
    changes.push_back({recorded.trajectories[i], again.trajectories[i], mean_in(old_means, key),
                       mean_in(new_means, key)});
  }
  if (options.output == Output::table)
    print_table(changes);
  else
    print_lines(changes);
  print_summary(changes);
  return {};
}

}  // namespace cohort::traj
