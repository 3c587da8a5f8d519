#include "actors/run/run_report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/compute/model/lora_layout.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report.hpp"
#include "runtime/plan/place/residency.hpp"
#include "runtime/stream/reader.hpp"
#include "runtime/tasks/scripted.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::actors {
namespace {

std::string machine_text() {
  utsname name{};
  uname(&name);
  std::string model = "unknown CPU";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {} cores ({})", model, std::thread::hardware_concurrency(), name.machine);
}

observe::TrajectoryView view_of(const proto::Trajectory& t, const tasks::Tokenizer& tokenizer) {
  observe::TrajectoryView view;
  view.title =
      fmt::format("step {}, group {}, trajectory {}", t.key.step, t.key.group, t.key.index);
  view.kind = t.key.kind == TrajectoryKind::train ? "train"
              : t.key.kind == TrajectoryKind::val ? "held-out, sampled"
                                                  : "held-out, greedy";
  view.seed = t.seed;
  view.score = t.score;
  view.stop_reason = t.stop_reason;
  if (!t.ground_truth.empty()) view.stop_reason += ", ground truth " + t.ground_truth;
  for (const proto::RewardPart& part : t.reward_parts)
    if (!part.detail.empty()) view.stop_reason += fmt::format(", {}: {}", part.name, part.detail);
  for (const proto::Turn& turn : t.turns) {
    observe::TurnView shown{turn.observation, turn.response,     turn.env_reward,
                            turn.is_valid,    turn.is_effective, {}};
    for (uint32_t i = turn.response_begin; i < turn.response_end; ++i)
      shown.tokens.push_back(
          {tokenizer.decode({&t.tokens[i], 1}), t.behavior_logp.empty() ? 0 : t.behavior_logp[i]});
    view.turns.push_back(std::move(shown));
  }
  return view;
}

// A person wants to see the same maps early and late: three held-out groups at the first and the
// last evaluation, and a group of the last training step.
std::vector<observe::TrajectoryView> pick_trajectories(const std::filesystem::path& stream,
                                                       std::span<const observe::MetricRow> rows,
                                                       const tasks::Tokenizer& tokenizer) {
  std::vector<observe::TrajectoryView> views;
  auto reader = stream::Reader::open(stream);
  if (!reader || rows.empty()) return views;
  uint64_t first = rows.front().step();
  uint64_t last_val = first;
  for (const observe::MetricRow& row : rows)
    if (row.number("val/success")) last_val = row.step();
  std::vector<proto::TrajectoryKey> keys;
  for (uint32_t group : {0U, 1U, 2U}) {
    keys.push_back({TrajectoryKind::val, first, group, 0});
    if (last_val != first) keys.push_back({TrajectoryKind::val, last_val, group, 0});
  }
  for (uint32_t index : {0U, 1U})
    keys.push_back({TrajectoryKind::train, rows.back().step(), 0, index});
  for (const proto::TrajectoryKey& key : keys) {
    auto record = reader->find(key);
    if (!record || !*record) continue;
    if (auto trajectory = (*record)->trajectory()) views.push_back(view_of(*trajectory, tokenizer));
  }
  return views;
}

std::string adapter_text(const Preflight& plan) {
  if (!plan.lora) return "";
  const auto trained = compute::lora_layout_of(plan.model, *plan.lora);
  return fmt::format(
      "; trained: an adapter of rank {}, {} parameters", plan.lora->rank,
      plan::with_thousands(static_cast<uint64_t>(compute::parameter_count(trained.flat))));
}

void add_facts(const config::RunConfig& config, const Preflight& plan, const RunFolder& folder,
               const RunLog& log, const RunResult& result, observe::ReportData& report) {
  auto layout = compute::layout_of(plan.model);
  std::string hash =
      fmt::format("{:016x}", tensor::checksum64(std::as_bytes(std::span(config.resolved_yaml))));
  report.facts = {
      {"run", folder.run_id},
      {"seed", std::to_string(config.seed)},
      {"config hash", hash},
      {"policy",
       fmt::format("{} parameters, {} layers, width {}{}",
                   plan::with_thousands(static_cast<uint64_t>(compute::parameter_count(layout))),
                   plan.model.num_hidden_layers, plan.model.hidden_size, adapter_text(plan))},
      {"placement",
       fmt::format("{}, {} cards, {} threads each", plan::to_string(plan.placement.mode),
                   plan.placement.cards.size(), config.cards.threads_per_card)},
      {"machine", machine_text()},
      {"duration", observe::format_duration(log.seconds_since_start())},
      {"finished", fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr)))},
      {"parameter hash", fmt::format("{:016x}", result.param_hash)}};
}

void add_headlines(std::span<const observe::MetricRow> rows, const RunResult& result,
                   observe::ReportData& report) {
  auto mean_of = [&](const char* name) {
    double sum = 0;
    double count = 0;
    for (const observe::MetricRow& row : rows)
      if (auto value = row.number(name); value && row.step() > 0) {
        sum += *value;
        ++count;
      }
    return count > 0 ? sum / count : observe::k_not_measured;
  };
  report.headlines = {
      {"trajectories", observe::format_count(static_cast<double>(result.trajectories))},
      {"tokens/s, whole step", observe::format_count(mean_of("tokens_per_s"))},
      {"generation tokens/s", observe::format_count(mean_of("generate_tokens_per_s"))},
      {"training tokens/s", observe::format_count(mean_of("train_tokens_per_s"))},
      {"orchestrator share", observe::format_percent(mean_of("orchestrator_share"))}};
}

}  // namespace

std::string run_config_record(const std::string& run_id, const std::string& yaml) {
  return nlohmann::json{{"run_id", run_id}, {"yaml", yaml}}.dump();
}

std::vector<observe::ReferenceLine> scripted_references(const Preflight& plan,
                                                        const std::string& val_tag, uint64_t seed) {
  // Lines of success over all tags say nothing when some are no lakes.
  if (!plan.seeds || plan.environments.empty()) return {};
  for (const auto& [tag, options] : plan.environments)
    if (!options->lake) return {};
  std::vector<uint64_t> seeds = tasks::validation_seeds(plan.seeds->options());
  const tasks::FrozenLakeConfig& lake = *plan.environments.at(val_tag)->lake;
  Rng rng = Rng(seed).fork(0x5265666572656E63);  // apart from every stream of the run
  auto success = [&](tasks::Player player) {
    return tasks::evaluate_scripted({player, 1}, seeds, lake, rng);
  };
  return {{"random valid", success(tasks::Player::random_valid)},
          {"walk straight, hole-blind", success(tasks::Player::walk_straight)},
          {"shortest path", success(tasks::Player::shortest_path)}};
}

Expected<void> write_run_report(const config::RunConfig& config, const Preflight& plan,
                                const RunFolder& folder, RunLog& log, const RunResult& result) {
  observe::ReportData& report = log.report();
  COHORT_ASSIGN(std::vector<observe::MetricRow> rows, log.rows());
  const bool is_agentic = config.pipeline == config::Pipeline::agentic;
  std::string estimator(config::is_supervised(config.pipeline)
                            ? config::to_string(config.pipeline)
                            : config::to_string(config.adv_estimator));
  for (char& c : estimator) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  report.summary = fmt::format("{} on {}: {} trajectories in {} steps, placement {}.", estimator,
                               is_agentic ? config.train_env_manager.tags.front() : config.exp_name,
                               plan::with_thousands(result.trajectories), result.steps,
                               plan::to_string(plan.placement.mode));
  report.status = !result.is_ok       ? "failed: " + result.error
                  : result.is_stopped ? fmt::format("stopped by Ctrl-C at step {}", result.steps)
                                      : "finished";
  report.evaluation_maps =
      static_cast<uint64_t>(config.derived.val_groups * config.derived.val_group_size);
  add_facts(config, plan, folder, log, result, report);
  add_headlines(rows, result, report);
  report.train_reward = observe::series_of(rows, "reward/mean", "train reward");
  // Step 0 is the warm start: it has none of these signals, and its minute would flatten the steps'
  // milliseconds.
  std::span<const observe::MetricRow> steps = rows;
  if (steps.size() > 1 && steps.front().step() == 0) steps = steps.subspan(1);
  report.charts = observe::standard_charts(steps);
  const bool measures_loss =
      std::ranges::any_of(rows, [](const auto& row) { return row.number("val/loss").has_value(); });
  for (observe::ChartSpec& chart : report.charts)
    if (measures_loss && chart.title == "loss")
      chart.series.push_back(observe::series_of(steps, "val/loss", "held-out rows"));
  report.step_times = observe::step_times_of(steps);
  if (config.recording.enabled)
    report.trajectories = pick_trajectories(folder.path / "stream", rows, *plan.tokenizer);
  return observe::write_report(folder.path / "report.html", report);
}

}  // namespace cohort::actors
