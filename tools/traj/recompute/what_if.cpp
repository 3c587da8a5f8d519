#include "tools/traj/recompute/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/traj/recompute/trained_run.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::map<std::string, double>;

const std::vector<std::string> k_shown = {"loss", "actor/grad_norm", "actor/approxkl",
                                          "actor/clipfrac", "actor/entropy"};
constexpr size_t k_name_width = 24;

struct ComparedStep {
  uint64_t step = 0;
  Numbers recorded, computed;
  bool is_same = false;  // the parameters after it
};

Expected<ComparedStep> next_step(TrainedRun& run, Follower& follower) {
  COHORT_ASSIGN(const control::UpdateReport report, follower.next());
  COHORT_ASSIGN(const nlohmann::json row, run.row(follower.step()));
  ComparedStep compared{follower.step(), numbers_of(row), numbers_of(report), false};
  compared.is_same = row.value("param_hash", "") == hash_text(report.param_hash);
  return compared;
}

/// Those of the wanted names that an update reports; Errc::not_found names one that it does not.
Expected<std::vector<std::string>> names_of(const ComparedStep& step,
                                            const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const std::string& name : wanted.empty() ? k_shown : wanted) {
    if (step.computed.contains(name))
      names.push_back(name);
    else if (!wanted.empty()) {
      std::string there;
      for (const auto& [each, value] : step.computed) there += (there.empty() ? "" : ", ") + each;
      return Error{
          Errc::not_found,
          fmt::format("--metric {}: an update of this run has none of that name; it has {}", name,
                      there)};
    }
  }
  return names;
}

std::string number_text(const Numbers& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? "-" : fmt::format("{:.5g}", found->second);
}

void print_head(const std::vector<std::string>& names) {
  fmt::print("{:>6}", "step");
  for (const std::string& name : names) fmt::print("  {:>{}}", name, k_name_width);
  fmt::print("\n");
}

void print(const ComparedStep& step, const std::vector<std::string>& names) {
  fmt::print("{:>6}", step.step);
  for (const std::string& name : names)
    fmt::print(
        "  {:>{}}",
        fmt::format("{} -> {}", number_text(step.recorded, name), number_text(step.computed, name)),
        k_name_width);
  fmt::print("{}\n", step.is_same ? "  same parameters" : "");
}

void print_json(const ComparedStep& step, const std::vector<std::string>& wanted) {
  Json line{{"step", step.step}, {"same_parameters", step.is_same}};
  for (const auto& [name, value] : step.computed) {
    if (!wanted.empty() && std::ranges::find(wanted, name) == wanted.end()) continue;
    const auto recorded = step.recorded.find(name);
    line[name] = {{"recorded", recorded == step.recorded.end() ? Json() : Json(recorded->second)},
                  {"computed", value}};
  }
  fmt::print("{}\n", line.dump());
}

Expected<StepRange> range_of(const TrainedRun& run, StepRange range) {
  const std::vector<uint64_t> steps = run.steps();
  if (steps.empty())
    return Error{Errc::not_found, run.name() + ": its stream has no row of a step (step_result)"};
  if (!range.first) {
    if (run.checkpoints().empty()) return run.checkpoint_before(0).error();
    range.first = run.checkpoints().front().number + 1;
  }
  if (!range.last) range.last = std::max(steps.back(), *range.first);
  return range;
}

}  // namespace

Expected<void> what_if(const WhatIfOptions& options) {
  if (options.overrides.empty())
    return Error{Errc::invalid_argument,
                 "what-if: give what is to be otherwise, KEY=VALUE: e.g. "
                 "actor_train.training_args.learning_rate=1.0e-7"};
  COHORT_ASSIGN(TrainedRun run, TrainedRun::open(options.run));
  COHORT_ASSIGN(const StepRange range, range_of(run, options.steps));
  if (*range.first == 0)
    return Error{Errc::invalid_argument, "--steps 0: steps of training begin with 1"};
  COHORT_ASSIGN(const actors::Checkpoint from, run.checkpoint_before(*range.first - 1));
  COHORT_ASSIGN(Follower follower, Follower::start(run, from, {}));
  COHORT_TRY(follower.go_to(*range.first - 1));
  COHORT_TRY(follower.change(options.overrides));
  std::fprintf(stderr, "from the checkpoint of step %lu; changed from step %lu on\n",
               static_cast<unsigned long>(from.number), static_cast<unsigned long>(*range.first));
  std::vector<std::string> names;
  while (follower.step() < *range.last) {
    COHORT_ASSIGN(const ComparedStep step, next_step(run, follower));
    if (step.step == *range.first) {
      COHORT_ASSIGN(names, names_of(step, options.metrics));
      if (!options.is_json) print_head(names);
    }
    if (options.is_json)
      print_json(step, options.metrics);
    else
      print(step, names);
  }
  return {};
}

}  // namespace cohort::traj
