#pragma once
/// Counters of an episode, common to all text games, and its end. A value; owned by its
/// environment.
#include "runtime/base/check.hpp"
#include "runtime/tasks/text_environment.hpp"

namespace cohort::tasks {

struct EpisodeBook {
  int turns = 0;
  int valid_turns = 0;
  int effective_turns = 0;
  double penalties = 0;  // cost of invalid answers, summed
  bool is_done = true;   // nothing may be asked (TASK-2)
  bool is_success = false;

  void begin() {
    *this = {};
    is_done = false;
  }
  void count_valid(bool is_effective) {
    ++valid_turns;
    effective_turns += is_effective ? 1 : 0;
  }
  /// Ends the turn: an episode without a stop reason yet ends as max_turns at its last turn.
  void close(StepResult& result, int max_turns) {
    if (result.stop_reason.empty() && turns >= max_turns) result.stop_reason = "max_turns";
    is_done = !result.stop_reason.empty();
    result.is_done = is_done;
    result.is_success = is_success;
  }
  /// Returns ROLL's metrics of a game; shares are of the turns played.
  EpisodeMetrics metrics() const {
    const double played = turns > 0 ? turns : 1;
    return {{"success", is_success ? 1.0 : 0.0},
            {"action_is_effective", effective_turns / played},
            {"action_is_valid", valid_turns / played},
            {"num_actions", static_cast<double>(turns)},
            {"format_penalty", penalties / played}};
  }
};

}  // namespace cohort::tasks
