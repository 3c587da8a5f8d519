#pragma once
/// The numbers of a run's first update against those of a healthy run: what an engineer would look
/// at by hand, one row a check (docs/self_checks.md shows the table). Pure. Bound: the numbers that
/// it is given.
///
/// CHECK-1: a number that nobody measured is not checked. CHECK-2: a fault that follows from an
/// earlier one is not told, so that the first one is the cause.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::plan {

/// Names of the numbers. A role measures each where it has what it needs, and leaves it out
/// elsewhere. Shares are of the step's trajectories without masked ones, unless said otherwise.
namespace first_number {
// of the collected trajectories
inline constexpr std::string_view failed = "failed/";     // + who: share it masked, of all
inline constexpr std::string_view part_range = "range/";  // + reward: greatest - least value
inline constexpr std::string_view score_range = "score_range";
inline constexpr std::string_view flat_groups = "flat_groups";    // share of groups with one score
inline constexpr std::string_view same_answers = "same_answers";  // share of groups of one answer
inline constexpr std::string_view prompts = "prompts";          // different ones, of several groups
inline constexpr std::string_view truncated = "truncated";      // share
inline constexpr std::string_view ended_turns = "ended_turns";  // share of turns
inline constexpr std::string_view valid_turns = "valid_turns";  // share of turns
inline constexpr std::string_view empty_prompts = "empty_prompts";  // share
inline constexpr std::string_view empty_answers = "empty_answers";  // share
// of the first optimizer step
inline constexpr std::string_view logprob_gap = "logprob_gap";  // mean |trainer - engine|, a token
inline constexpr std::string_view ratio_gap = "ratio_gap";      // mean |importance ratio - 1|
inline constexpr std::string_view policy_kl = "policy_kl";      // mean k3 of old to current policy
inline constexpr std::string_view reference_gap = "reference_gap";  // mean |policy - reference|
inline constexpr std::string_view surprise = "surprise";    // mean -log-prob, in those of a guess
inline constexpr std::string_view advantage = "advantage";  // greatest |advantage|
inline constexpr std::string_view finite = "finite";        // 1: loss and gradient are numbers
inline constexpr std::string_view grad_norm = "grad_norm";
inline constexpr std::string_view rate = "rate";          // learning rate
inline constexpr std::string_view rate_max = "rate_max";  // of the run
inline constexpr std::string_view moved = "moved";        // 1: parameters differ from those before
// of a critic's first optimizer step
inline constexpr std::string_view critic_rate_max = "critic_rate_max";  // of the run
inline constexpr std::string_view critic_grad_norm = "critic_grad_norm";
}  // namespace first_number

/// The check whose finding says as much as an event of an optimizer step that was left out.
inline constexpr std::string_view k_nonfinite_check = "gradient_nonfinite";

/// Facts travel as metrics with this prefix; the run's books keep them out of its rows.
inline constexpr std::string_view k_check_prefix = "check/";

struct FirstStep {
  std::map<std::string, double, std::less<>> numbers;      // by name
  std::map<std::string, std::string, std::less<>> places;  // by name: STEP/GROUP/INDEX, to look at
  // What of the run decides whether a number means something.
  bool is_on_policy = true;      // the policy that trains has sampled the answers
  bool is_half = false;          // trainer or engine computes in 16 bits
  bool compares_groups = false;  // an advantage depends on the group
  bool has_weights = false;      // the policy comes from a folder
  bool has_stop_strings = false;
  bool reads_rows = false;           // prompts are rows of files
  bool has_own_reference = false;    // from another folder than the policy
  bool starts_at_reference = false;  // policy and reference are the same before the first step
  /// Takes a metric with k_check_prefix. `step`: of the trajectories.
  void take(std::string_view metric, double value, uint64_t step);
};

/// The facts of a role, on their way.
class FirstFacts {
 public:
  void add(std::string_view name, double value);
  /// With the trajectory in which the number shows best.
  void add(std::string_view name, double value, uint32_t group, uint32_t index);
  void append_to(std::vector<std::pair<std::string, double>>& metrics) const;

 private:
  std::vector<std::pair<std::string, double>> facts_;
};

enum class FaultSide : uint8_t { above, at_least, at_most };  // of the limit, where a fault begins

struct FirstStepCheck {
  std::string_view name;
  std::string_view number;  // ends with '/': one number for each name behind it
  FaultSide side = FaultSide::above;
  double limit = 0;
  double half_limit = 0;  // where is_half
  std::string_view what;  // what is wrong, a sentence
  std::string_view reason;
  std::string_view advice;
  bool (*applies)(const FirstStep&) = nullptr;    // null: always
  std::span<const std::string_view> unless = {};  // checks whose finding explains this one
};
/// Returns the table, causes first.
std::span<const FirstStepCheck> first_step_checks();

struct Finding {
  std::string check;
  std::string sentence;  // all of it, for people
  double seen = 0, limit = 0;
  std::string trajectory;  // STEP/GROUP/INDEX, or nothing
};

/// `run`: how `traj` finds the run, for the command in the sentence.
std::vector<Finding> first_step_findings(const FirstStep& step, std::string_view run);

}  // namespace cohort::plan
