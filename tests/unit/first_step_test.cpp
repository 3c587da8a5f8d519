// The checks of a run's first step: each fault gives its finding and no other, a healthy step none.
#include "runtime/plan/check/first_step.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "runtime/base/rng.hpp"
#include "tests/support/source_path.hpp"

namespace cohort::plan {
namespace {

namespace number = first_number;

/// All numbers of a healthy step, of a run to which every check applies.
FirstStep healthy() {
  FirstStep step;
  step.compares_groups = step.has_weights = step.reads_rows = true;
  step.numbers = {{"failed/rewards.math", 0.0},
                  {"range/math", 1.0},
                  {std::string(number::score_range), 1.0},
                  {std::string(number::flat_groups), 0.5},
                  {std::string(number::same_answers), 0.0},
                  {std::string(number::prompts), 32.0},
                  {std::string(number::truncated), 0.1},
                  {std::string(number::ended_turns), 0.9},
                  {std::string(number::valid_turns), 0.9},
                  {std::string(number::empty_prompts), 0.0},
                  {std::string(number::empty_answers), 0.0},
                  {std::string(number::logprob_gap), 1e-5},
                  {std::string(number::ratio_gap), 1e-5},
                  {std::string(number::policy_kl), 1e-9},
                  {std::string(number::surprise), 0.2},
                  {std::string(number::advantage), 1.7},
                  {std::string(number::finite), 1.0},
                  {std::string(number::grad_norm), 0.4},
                  {std::string(number::rate), 1e-7},
                  {std::string(number::rate_max), 1e-6},
                  {std::string(number::moved), 1.0},
                  {std::string(number::critic_rate_max), 1e-5},
                  {std::string(number::critic_grad_norm), 0.4}};
  return step;
}

std::vector<std::string> names_of(const FirstStep& step) {
  std::vector<std::string> names;
  for (const Finding& found : first_step_findings(step, "RUN")) names.push_back(found.check);
  return names;
}

struct Fault {
  const char* check;
  std::function<void(FirstStep&)> plant;
};
auto set(std::string_view name, double value) {
  return [name, value](FirstStep& step) { step.numbers[std::string(name)] = value; };
}

const Fault k_faults[] = {
    {"reward_failed", set("failed/rewards.math", 0.2)},
    {"reward_constant", set(number::score_range, 0)},
    {"reward_part_constant", set("range/math", 0)},
    {"answers_empty", set(number::empty_answers, 0.1)},
    {"prompts_empty", set(number::empty_prompts, 0.01)},
    {"answers_truncated", set(number::truncated, 1)},
    {"end_never", set(number::ended_turns, 0)},
    {"turns_invalid", set(number::valid_turns, 0)},
    {"answers_same", set(number::same_answers, 1)},
    {"prompts_same", set(number::prompts, 1)},
    {"groups_flat", set(number::flat_groups, 1)},
    {"policy_untrained", set(number::surprise, 0.99)},
    {"logprob_drift", set(number::logprob_gap, 0.02)},
    {"ratio_not_one", set(number::ratio_gap, 0.2)},
    {"policy_kl_not_zero", set(number::policy_kl, 0.01)},
    {"reference_is_policy",
     [](FirstStep& step) {
       step.has_own_reference = true;
       step.numbers[std::string(number::reference_gap)] = 0;
     }},
    {"reference_differs",
     [](FirstStep& step) {
       step.starts_at_reference = true;
       step.numbers[std::string(number::reference_gap)] = 0.3;
     }},
    {"advantage_zero", set(number::advantage, 0)},
    {"gradient_nonfinite", set(number::finite, 0)},
    {"gradient_zero", set(number::grad_norm, 0)},
    {"learning_rate_zero",
     [](FirstStep& step) {
       set(number::rate, 0)(step);
       set(number::rate_max, 0)(step);
     }},
    {"learning_rate_high", set(number::rate_max, 0.1)},
    {"parameters_unmoved", set(number::moved, 0)},
    {"critic_rate_zero", set(number::critic_rate_max, 0)},
    {"critic_gradient_zero", set(number::critic_grad_norm, 0)},
};

TEST(FirstStep, AHealthyOneGivesNoFinding) {
  EXPECT_EQ(names_of(healthy()), (std::vector<std::string>{}));
}

TEST(FirstStep, EachFaultGivesItsOwnFindingAlone) {
  std::set<std::string_view> planted;
  for (const Fault& fault : k_faults) {
    FirstStep step = healthy();
    fault.plant(step);
    EXPECT_EQ(names_of(step), std::vector<std::string>{fault.check});
    planted.insert(fault.check);
  }
  EXPECT_EQ(planted.size(), first_step_checks().size()) << "a check that no fault sets off";
}

TEST(FirstStep, WhatNobodyMeasuredIsNotChecked) {  // CHECK-1
  FirstStep step;
  step.compares_groups = step.has_weights = step.has_own_reference = step.starts_at_reference =
      true;
  EXPECT_TRUE(names_of(step).empty());
}

TEST(FirstStep, OnlyWhatTheRunPromisesIsChecked) {
  const std::pair<const char*, std::function<void(FirstStep&)>> excuses[] = {
      {"logprob_drift", [](FirstStep& x) { x.is_on_policy = false; }},
      {"ratio_not_one", [](FirstStep& x) { x.is_on_policy = false; }},
      {"policy_kl_not_zero", [](FirstStep& x) { x.is_on_policy = false; }},
      {"logprob_drift", [](FirstStep& x) { x.is_half = true; }},
      {"groups_flat", [](FirstStep& x) { x.compares_groups = false; }},
      {"answers_same", [](FirstStep& x) { x.compares_groups = false; }},
      {"end_never", [](FirstStep& x) { x.has_stop_strings = true; }},
      {"prompts_same", [](FirstStep& x) { x.reads_rows = false; }},
      {"policy_untrained", [](FirstStep& x) { x.has_weights = false; }},
      {"reference_is_policy", [](FirstStep& x) { x.has_own_reference = false; }},
      {"reference_differs", [](FirstStep& x) { x.starts_at_reference = false; }},
  };
  for (const auto& [check, excuse] : excuses) {
    FirstStep step = healthy();
    for (const Fault& fault : k_faults)
      if (std::string_view(fault.check) == check) fault.plant(step);
    excuse(step);
    EXPECT_TRUE(names_of(step).empty()) << check;
  }
}

TEST(FirstStep, AWarmUpThatBeginsWithZeroIsNoFault) {
  FirstStep step = healthy();
  set(number::rate, 0)(step);
  EXPECT_TRUE(names_of(step).empty());
}

TEST(FirstStep, AConsequenceIsLeftToItsCause) {  // CHECK-2
  FirstStep step = healthy();
  set(number::score_range, 0)(step);
  set(number::flat_groups, 1)(step);
  set(number::advantage, 0)(step);
  set(number::grad_norm, 0)(step);
  set(number::moved, 0)(step);
  EXPECT_EQ(names_of(step), std::vector<std::string>{"reward_constant"});
}

TEST(FirstStep, NoNumberAtAllIsAFault) {
  for (std::string_view name : {number::grad_norm, number::logprob_gap, number::advantage}) {
    FirstStep step = healthy();
    set(name, std::nan(""))(step);
    EXPECT_EQ(names_of(step).size(), 1U) << name;
  }
}

TEST(FirstStep, FactsComeBackWithTheTrajectoryToLookAt) {
  FirstFacts facts;
  facts.add("failed/rewards.math", 0.5, 31, 7);
  facts.add(number::rate, 0.25);
  std::vector<std::pair<std::string, double>> metrics;
  facts.append_to(metrics);
  FirstStep step;
  for (const auto& [name, value] : metrics) {
    EXPECT_TRUE(name.starts_with(k_check_prefix));
    step.take(name, value, 1);
  }
  EXPECT_EQ(step.numbers, (decltype(step.numbers){{"failed/rewards.math", 0.5}, {"rate", 0.25}}));
  const std::vector<Finding> found = first_step_findings(step, "/out/run");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].trajectory, "1/31/7");
  EXPECT_NE(found[0].sentence.find("reward_failed: rewards.math: "), std::string::npos);
  EXPECT_NE(found[0].sentence.find("is 0.5, healthy is at most 0.05"), std::string::npos);
  EXPECT_TRUE(found[0].sentence.ends_with("; see: traj show /out/run 1/31/7"));
}

/// Random numbers around the limits: the findings are those that the rows say, and explained ones
/// are missing.
TEST(FirstStepProperty, FindingsAreTheRowsThatAreBeyondTheirLimit) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    FirstStep step;
    step.is_half = rng.below(2) == 1;
    step.compares_groups = step.has_weights = step.reads_rows = step.starts_at_reference = true;
    for (const FirstStepCheck& check : first_step_checks()) {
      if (rng.below(4) == 0) continue;
      const double limit = step.is_half ? check.half_limit : check.limit;
      const double values[] = {limit, std::nextafter(limit, -1.0), std::nextafter(limit, 2.0), 0,
                               1};
      step.numbers[std::string(check.number)] = values[rng.below(5)];
    }
    std::set<std::string, std::less<>> found, faults;
    for (const Finding& each : first_step_findings(step, "RUN")) found.insert(each.check);
    for (const FirstStepCheck& check : first_step_checks()) {
      const auto number = step.numbers.find(check.number);
      const bool is_asked =
          number != step.numbers.end() && (check.applies == nullptr || check.applies(step));
      const double limit = step.is_half ? check.half_limit : check.limit;
      const bool is_beyond =
          is_asked && (check.side == FaultSide::above      ? number->second > limit
                       : check.side == FaultSide::at_least ? number->second >= limit
                                                           : number->second <= limit);
      bool is_explained = false;
      for (std::string_view other : check.unless) is_explained |= faults.contains(other);
      if (is_beyond) faults.insert(std::string(check.name));
      EXPECT_EQ(found.contains(check.name), is_beyond && !is_explained) << check.name;
    }
  }
}

TEST(FirstStep, TheTableOfTheDocsHasEveryCheckWithItsLimit) {
  std::ifstream file(cohort::test::source_path("docs/self_checks.md"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const FirstStepCheck& check : first_step_checks()) {
    const size_t at = page.find(fmt::format("| `{}` |", check.name));
    ASSERT_NE(at, std::string::npos) << check.name;
    const std::string row = page.substr(at, page.find('\n', at) - at);
    const char* side = check.side == FaultSide::above      ? "above"
                       : check.side == FaultSide::at_least ? "from"
                                                           : "at most";
    EXPECT_NE(row.find(fmt::format("{} {:g}", side, check.limit)), std::string::npos) << row;
    if (check.half_limit != check.limit) {
      EXPECT_NE(row.find(fmt::format("16 bits: {:g}", check.half_limit)), std::string::npos) << row;
    }
  }
}

}  // namespace
}  // namespace cohort::plan
