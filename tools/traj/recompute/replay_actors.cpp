#include "tools/traj/recompute/replay_actors.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "actors/run/run_folder.hpp"
#include "runtime/platform/process.hpp"
#include "tools/traj/recompute/trained_run.hpp"

namespace cohort::traj {
namespace {

constexpr std::chrono::hours k_run_limit{24};

std::string program_beside(const std::string& name) {
  std::error_code ignored;
  return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name).string();
}

Expected<std::string> only_config(TrainedRun& run) {
  const std::vector<uint64_t> steps = run.steps();
  if (steps.empty())
    return Error{Errc::not_found, run.name() + ": its stream has no row of a step (step_result)"};
  COHORT_ASSIGN(std::string yaml, run.yaml(steps.front()));
  for (const uint64_t step : steps) {
    COHORT_ASSIGN(const std::string own, run.yaml(step));
    if (own != yaml)
      return Error{Errc::unsupported,
                   fmt::format("{}: from step {} on it ran under another config; replay the "
                               "updates without --actors",
                               run.name(), step)};
  }
  return yaml;
}

/// The parameter hash of each step that the run in `out` has done.
std::map<uint64_t, std::string> hashes_under(const std::filesystem::path& out) {
  std::map<uint64_t, std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out, ignored)) {
    if (entry.path().filename() != "metrics.jsonl") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      if (row.is_object() && row.contains("step") && row.contains("param_hash"))
        found[row["step"].get<uint64_t>()] = row["param_hash"].get<std::string>();
    }
  }
  return found;
}

}  // namespace

Expected<void> replay_actors(const std::string& name, bool is_paced) {
  COHORT_ASSIGN(TrainedRun run, TrainedRun::open(name));
  COHORT_ASSIGN(const std::string yaml, only_config(run));
  COHORT_ASSIGN(const ScratchFolder scratch, ScratchFolder::make());
  const std::string config = (scratch.path() / "config.yaml").string();
  COHORT_TRY(actors::write_file(config, yaml));
  std::error_code ignored;
  const std::string stream = std::filesystem::absolute(name, ignored).string();
  platform::CommandOptions options;
  options.time_limit = k_run_limit;
  options.env = platform::process_environment();
  COHORT_ASSIGN(const platform::CommandResult result,
                platform::run_command_line(
                    {program_beside("actor-node"), "run", "--plain", "--quiet", config,
                     "--from-stream", stream, "output_dir=" + (scratch.path() / "out").string(),
                     "save_steps=1000000", "resume_from_checkpoint=false",
                     std::string("++from_stream_paced=") + (is_paced ? "true" : "false")},
                    options));
  if (result.exit_code != 0)
    return Error{Errc::io, fmt::format("actor-node run --from-stream {}: exit code {}: {}", stream,
                                       result.exit_code, result.output)};
  const std::map<uint64_t, std::string> computed = hashes_under(scratch.path() / "out");
  uint64_t equal = 0;
  std::optional<Error> first;
  for (const uint64_t step : run.steps()) {
    COHORT_ASSIGN(const nlohmann::json row, run.row(step));
    const std::string recorded = row.value("param_hash", "");
    const auto found = computed.find(step);
    const std::string own = found == computed.end() ? "none" : found->second;
    if (own == recorded) {
      ++equal;
      fmt::print("step {}: {} equal\n", step, own);
    } else if (!first) {
      first = Error{Errc::corrupt, fmt::format("{}: step {} is the first that differs: parameters "
                                               "{} recorded, {} computed",
                                               name, step, recorded, own)};
    }
  }
  fmt::print("replay: {} of {} steps equal\n", equal, run.steps().size());
  return first ? Expected<void>(*first) : Expected<void>();
}

}  // namespace cohort::traj
