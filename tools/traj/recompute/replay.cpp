#include "tools/traj/recompute/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/clock.hpp"
#include "tools/traj/recompute/replay_near.hpp"
#include "tools/traj/recompute/trained_run.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* k_shown[] = {"loss", "actor/grad_norm"};

struct StepDifference {
  uint64_t step = 0;
  std::string recorded_hash, computed_hash;
  std::map<std::string, double> recorded, computed;
  bool has_checkpoint = false;
  std::optional<TensorDifference> tensor;  // none though there is a checkpoint: it is the same
};

struct Outcome {
  uint64_t first = 0, last = 0, from = 0, equal = 0;
  double seconds = 0, recorded_seconds = 0;  // of the steps that were replayed
  std::optional<StepDifference> difference;
  uint64_t steps() const { return last - first + 1; }
};

/// Which steps, and from which checkpoint.
Expected<Outcome> choose(const TrainedRun& run, const ReplayOptions& options,
                         actors::Checkpoint& from) {
  StepRange range = options.steps;
  const std::vector<uint64_t> steps = run.steps();
  if (steps.empty())
    return Error{Errc::not_found, run.name() + ": its stream has no row of a step (step_result)"};
  if (options.checkpoint) {
    const actors::Checkpoint* found = run.checkpoint_of(*options.checkpoint);
    if (found == nullptr) {
      std::string there;
      for (const actors::Checkpoint& each : run.checkpoints())
        there += fmt::format("{}{}", there.empty() ? "" : ", ", each.number);
      return Error{Errc::not_found,
                   fmt::format("{}: no checkpoint of step {}; there are those of "
                               "steps: {}",
                               run.name(), *options.checkpoint, there.empty() ? "none" : there)};
    }
    from = *found;
    if (!range.first) range.first = from.number + 1;
    if (*range.first <= from.number)
      return Error{Errc::invalid_argument,
                   fmt::format("--checkpoint {}: it is not before step {}, the first of --steps",
                               from.number, *range.first)};
  } else {
    if (!range.first && !run.checkpoints().empty())
      range.first = run.checkpoints().front().number + 1;
    COHORT_ASSIGN(from, run.checkpoint_before(std::max<uint64_t>(1, range.first.value_or(1)) - 1));
  }
  if (!range.last) range.last = std::max(steps.back(), *range.first);
  for (const uint64_t end : {*range.first, *range.last})
    if (!std::ranges::binary_search(steps, end))
      return Error{Errc::not_found,
                   fmt::format("{}: its stream has no row of step {}; it has those of steps {} to "
                               "{}",
                               run.name(), end, steps.front(), steps.back())};
  Outcome outcome;
  outcome.first = *range.first;
  outcome.last = *range.last;
  outcome.from = from.number;
  return outcome;
}

/// The tensors are compared where the run has a checkpoint of the step.
Expected<void> find_tensor(TrainedRun& run, Follower& follower, StepDifference& difference) {
  const actors::Checkpoint* own = run.checkpoint_of(difference.step);
  if (own == nullptr) return {};
  COHORT_ASSIGN(const config::RunConfig config, run.config(difference.step, {}));
  COHORT_ASSIGN(const std::unique_ptr<Trainer> recorded, Trainer::open(config));
  COHORT_TRY(recorded->load(own->folder));
  difference.has_checkpoint = true;
  difference.tensor = first_difference(recorded->engine(), follower.trainer().engine());
  return {};
}

Expected<void> replay_steps(TrainedRun& run, Follower& follower, bool is_json, Outcome& outcome) {
  while (follower.step() < outcome.last) {
    const double start = now_seconds();
    COHORT_ASSIGN(const control::UpdateReport report, follower.next());
    const uint64_t step = follower.step();
    COHORT_ASSIGN(const nlohmann::json row, run.row(step));
    outcome.seconds += now_seconds() - start;
    outcome.recorded_seconds += row.value("time/step_s", 0.0);
    const std::string recorded = row.value("param_hash", "");
    const std::string computed = hash_text(report.param_hash);
    if (recorded != computed) {
      outcome.difference = {step,  recorded,    computed, numbers_of(row), numbers_of(report),
                            false, std::nullopt};
      return find_tensor(run, follower, *outcome.difference);
    }
    if (step < outcome.first) continue;
    ++outcome.equal;
    if (!is_json) fmt::print("step {}: {} equal\n", step, computed);
  }
  return {};
}

void print(const StepDifference& x) {
  fmt::print("step {}: parameters {} recorded, {} computed\n", x.step, x.recorded_hash,
             x.computed_hash);
  for (const char* name : k_shown)
    if (x.recorded.contains(name) && x.computed.contains(name))
      fmt::print("  {}: {:.17g} recorded, {:.17g} computed\n", name, x.recorded.at(name),
                 x.computed.at(name));
  if (x.tensor)
    fmt::print(
        "  first tensor: {}, element {}: {:.9g} recorded, {:.9g} computed; {} of {} tensors "
        "differ\n",
        x.tensor->tensor, x.tensor->element, x.tensor->recorded, x.tensor->computed,
        x.tensor->differ, x.tensor->of);
  else if (x.has_checkpoint)
    fmt::print("  the run's own checkpoint has the computed parameters: the row is another's\n");
}

Json json_of(const Outcome& x) {
  Json json{{"first", x.first},
            {"last", x.last},
            {"checkpoint", x.from},
            {"steps", x.steps()},
            {"equal", x.equal},
            {"seconds", x.seconds},
            {"recorded_seconds", x.recorded_seconds}};
  if (!x.difference) return json;
  const StepDifference& d = *x.difference;
  Json& out = json["difference"] = {
      {"step", d.step}, {"recorded_hash", d.recorded_hash}, {"computed_hash", d.computed_hash}};
  for (const char* name : k_shown)
    if (d.recorded.contains(name) && d.computed.contains(name))
      out[name] = {{"recorded", d.recorded.at(name)}, {"computed", d.computed.at(name)}};
  if (d.tensor)
    out["tensor"] = {{"name", d.tensor->tensor},
                     {"element", d.tensor->element},
                     {"recorded", d.tensor->recorded},
                     {"computed", d.tensor->computed},
                     {"tensors_that_differ", d.tensor->differ},
                     {"tensors", d.tensor->of}};
  return json;
}

}  // namespace

Expected<void> replay(const ReplayOptions& options) {
  COHORT_ASSIGN(TrainedRun run, TrainedRun::open(options.run));
  actors::Checkpoint from;
  COHORT_ASSIGN(Outcome outcome, choose(run, options, from));
  COHORT_ASSIGN(const config::RunConfig config, run.config(outcome.from + 1, {}));
  if (const auto why = why_not_to_the_bit(config); why || options.tolerance)
    return replay_near(
        run, from,
        {outcome.first, outcome.last, options.tolerance.value_or(k_near), why, options.is_json});
  COHORT_ASSIGN(Follower follower, Follower::start(run, from, {}));
  COHORT_TRY(replay_steps(run, follower, options.is_json, outcome));
  if (options.is_json) {
    fmt::print("{}\n", json_of(outcome).dump());
  } else {
    if (outcome.difference) print(*outcome.difference);
    fmt::print("from the checkpoint of step {}; {:.2f} s, the run took {:.2f} s for these steps\n",
               outcome.from, outcome.seconds, outcome.recorded_seconds);
    fmt::print("replay: {} of {} steps equal\n", outcome.equal, outcome.steps());
  }
  if (!outcome.difference) return {};
  return Error{Errc::corrupt, fmt::format("{}: step {} is the first that differs", options.run,
                                          outcome.difference->step)};
}

}  // namespace cohort::traj
