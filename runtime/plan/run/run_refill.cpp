// Dynamic sampling: groups that carry no signal are left out of a step, and others of the data
// order take their places while the rest is played (docs/leases.md). Which ones is Refill's rule;
// here is when they are asked for. The step goes on once nobody is to come any more.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/plan/run/run.hpp"

namespace cohort::plan::run {

void Run::begin_refill(Step& step) {
  if (step.key.kind != TrajectoryKind::train || options_.gen_batches_max == 0) return;
  std::vector<uint32_t> lanes;
  for (const GroupTask& task : step.tasks) lanes.push_back(task.lane);
  step.refill.emplace(std::move(lanes), options_.gen_batches_max, options_.plant);
}

/// Asks the trainer for the next verdicts, while others play.
void Run::sift(Step& step) {
  if (!step.refill || step.is_sifting || options_.gen_batches_max < 2) return;
  step.is_sifting = true;
  out_.emplace_back(Sift{step.key, static_cast<uint32_t>(step.refill->left_out())});
}

/// Returns true if others are to come.
bool Run::leave_out(Step& step, const std::vector<uint32_t>& groups) {
  for (uint32_t group : groups)
    if (auto next = step.refill->leave_out(group)) step.wanted.push_back(*next);
  return ask_in_place(step);
}

bool Run::ask_in_place(Step& step) {
  if (step.is_refilling) return true;
  if (step.wanted.empty()) return false;
  step.is_refilling = true;
  out_.emplace_back(AskTasks{step.key, 0, std::exchange(step.wanted, {})});
  return true;
}

// They are the trainer's to expect before they are played.
void Run::refill_ready(Step& step, const TasksReady& ready) {
  step.tasks = ready.tasks;
  step.in_place = ready.in_place;
  out_.emplace_back(OpenRound{step.key, static_cast<uint32_t>(step.in_place.size()),
                              group_size(step.key.kind), step.in_place});
}

void Run::refill_opened(Step& step) {
  std::map<uint32_t, GroupTask> groups;
  for (size_t i = 0; i < step.in_place.size(); ++i)
    groups.emplace(step.in_place[i], std::move(step.tasks[i]));
  step.tasks.clear();
  step.is_refilling = false;
  players_.extend(step.key, std::move(groups), out_);
  ask_in_place(step);
  sift(step);
}

// What comes later than the last lease's end is told again by Collected.
void Run::told(const Sifted& sifted) {
  auto step = std::ranges::find(open_, sifted.round, &Step::key);
  if (step == open_.end() || !step->refill) return;
  step->is_sifting = false;
  if (step->state != StepState::generating) return;
  leave_out(*step, sifted.left_out);
  sift(*step);
}

/// All that may be played has been: says what is missing.
void Run::end_refill(const Step& step) {
  const size_t kept = step.refill->groups() - step.refill->left_out();
  if (kept == step.refill->wanted()) return;
  out_.emplace_back(Note{
      "refill", fmt::format("step {} trains on {} groups, not {}: the other {} of the {} that "
                            "were played carry no signal, and max_num_gen_batches is {}",
                            step.key.step, kept, step.refill->wanted(), step.refill->left_out(),
                            step.refill->groups(), options_.gen_batches_max)});
}

}  // namespace cohort::plan::run
