#include "tools/traj/recompute/recorded_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/roles/fill_advantages.hpp"
#include "runtime/config/load.hpp"
#include "tools/traj/open_run.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::json;
using stream::RecordType;

/// The JSON records of a stream that belong to a step.
struct StepRecords {
  std::optional<stream::RecordInfo> config, row;
};

/// The config is the last one before the step's row: a resumed run records its config again.
StepRecords find_records(const stream::Index& index, uint64_t step) {
  StepRecords found;
  for (const stream::RecordInfo& info : index.records())
    if (info.type == RecordType::step_result && info.key.step == step) found.row = info;
  for (const stream::RecordInfo& info : index.records())
    if (info.type == RecordType::run_config && (!found.row || info.number < found.row->number))
      found.config = info;
  return found;
}

/// The record of the config: an object with a text 'yaml'.
Expected<Json> config_record(stream::Reader& reader, const StepRecords& records,
                             const std::string& run) {
  if (!records.config)
    return Error{Errc::not_found, fmt::format("{}: its stream has no record run_config", run)};
  COHORT_ASSIGN(const stream::Record record, reader.read(*records.config));
  Json json = Json::parse(record.text(), nullptr, false);
  if (!json.is_object() || !json.contains("yaml") || !json["yaml"].is_string())
    return Error{Errc::corrupt,
                 fmt::format("{}: {} has no text 'yaml'", run, records.config->describe())};
  return json;
}

Expected<std::map<std::string, double>> numbers_of(stream::Reader& reader,
                                                   const StepRecords& records) {
  std::map<std::string, double> numbers;
  if (!records.row) return numbers;
  COHORT_ASSIGN(const stream::Record record, reader.read(*records.row));
  const Json json = Json::parse(record.text(), nullptr, false);
  for (const auto& [name, value] : json.items())
    if (value.is_number()) numbers[name] = value.get<double>();
  return numbers;
}

/// `--estimator` and `--loss` are overrides of the keys that the dialect has for them.
std::vector<std::string> overrides_of(const StepQuestion& question, config::Dialect dialect) {
  const bool is_verl = dialect == config::Dialect::verl;
  std::vector<std::string> overrides;
  if (!question.estimator.empty())
    overrides.push_back((is_verl ? "algorithm.adv_estimator=" : "adv_estimator=") +
                        question.estimator);
  if (!question.loss.empty())
    overrides.push_back(
        (is_verl ? "actor_rollout_ref.actor.policy_loss.loss_mode=" : "actor_train.pg_variant=") +
        question.loss);
  overrides.insert(overrides.end(), question.overrides.begin(), question.overrides.end());
  return overrides;
}

std::vector<proto::Trajectory> kept_of(const std::vector<proto::Trajectory>& trajectories) {
  std::vector<proto::Trajectory> kept;
  std::ranges::copy_if(trajectories, std::back_inserter(kept),
                       [](const auto& t) { return !proto::is_left_out(t); });
  return kept;
}

Expected<std::vector<proto::Trajectory>> trajectories_of(stream::Reader& reader, uint64_t step) {
  std::vector<proto::Trajectory> found;
  COHORT_TRY(for_each_trajectory(
      reader, {step, proto::TrajectoryKind::train, 0},
      [&](const stream::RecordInfo&, const proto::Trajectory& t) { found.push_back(t); }));
  return found;
}

}  // namespace

std::vector<proto::Trajectory> RecordedStep::batch() const { return kept_of(trajectories); }

double RecordedStep::kl_coefficient() const {
  const auto found = row.find("critic/kl_coef");
  return found == row.end() ? asked.init_kl_coef : found->second;
}

Expected<config::RunConfig> recorded_config(stream::Reader& reader, const std::string& run) {
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  COHORT_ASSIGN(const Json record, config_record(reader, find_records(*index, ~uint64_t{0}), run));
  return config::load_text(record["yaml"].get<std::string>(), run + " (record run_config)", {},
                           {.check_files = false});
}

Expected<bool> is_imported(stream::Reader& reader, const std::string& run) {
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  COHORT_ASSIGN(const Json record, config_record(reader, find_records(*index, ~uint64_t{0}), run));
  return record.contains("imported_from");
}

Expected<RecordedStep> read_step(const StepQuestion& question) {
  COHORT_ASSIGN(stream::Reader reader, open_run(question.run));
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  const StepRecords records = find_records(*index, question.step);
  RecordedStep step;
  COHORT_ASSIGN(step.trajectories, trajectories_of(reader, question.step));
  if (step.trajectories.empty())
    return Error{
        Errc::not_found,
        fmt::format("{}: no trajectory of training in step {}; `traj stats` lists the steps",
                    question.run, question.step)};
  COHORT_ASSIGN(const Json config, config_record(reader, records, question.run));
  const auto yaml = config["yaml"].get<std::string>();
  step.is_imported = config.contains("imported_from");
  const std::string name = question.run + " (record run_config)";
  const config::LoadOptions options{.check_files = false};
  COHORT_ASSIGN(step.own, config::load_text(yaml, name, {}, options));
  COHORT_ASSIGN(step.asked,
                config::load_text(yaml, name, overrides_of(question, step.own.dialect), options));
  COHORT_ASSIGN(step.row, numbers_of(reader, records));
  if (actors::has_running_norm(step.own) || actors::has_running_norm(step.asked))
    for (uint64_t before = 1; before < question.step; ++before) {
      COHORT_ASSIGN(const auto earlier, trajectories_of(reader, before));
      step.earlier.push_back(kept_of(earlier));
    }
  for (const proto::Trajectory& t : step.trajectories)
    if (t.behavior_logp.empty() || t.response_mask.empty())
      return Error{Errc::unsupported,
                   fmt::format("{}: {} has no log-probs of a policy that sampled it: nothing has "
                               "advantages there",
                               question.run, proto::to_string(t.key))};
  return step;
}

}  // namespace cohort::traj
