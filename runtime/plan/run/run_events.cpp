// What each event changes by itself; what follows from it is the loop's (run.cpp).
#include <fmt/format.h>

#include <utility>

#include "runtime/plan/run/run.hpp"

namespace cohort::plan::run {

void Run::told(const Started&) {
  if (stage_ != Stage::created) return;
  stage_ = Stage::starting;
  ask(PhaseKind::init);
}

void Run::told(const PhaseDone& done) {
  if (asked_ != done.kind) return;
  asked_.reset();
  granted_ = done.kind;
  if (done.kind == PhaseKind::publish) players_.on_served(done.served, version_, out_);
  if (done.kind == PhaseKind::generate || done.kind == PhaseKind::evaluate ||
      (done.kind == PhaseKind::update && stage_ == Stage::warming) ||
      (done.kind == PhaseKind::reference && options_.plays_in_reference))
    players_.open_floor(done.kind);
  switch (stage_) {
    case Stage::starting:
      if (options_.start == RunOptions::Start::fresh) return begin_warming();
      stage_ =
          options_.start == RunOptions::Start::resumed ? Stage::restoring : Stage::restoring_frozen;
      return load();
    case Stage::publishing_frozen:
      out_.emplace_back(Published{step_, version_});
      stage_ = Stage::restoring;
      return load();
    case Stage::republishing:
      out_.emplace_back(Published{step_, version_});
      served_step_ = static_cast<int64_t>(step_);
      stage_ = Stage::stepping;
      return;
    default:
      return;
  }
}

void Run::load() {
  activity_ = Activity::resume;
  out_.emplace_back(Load{stage_ == Stage::restoring_frozen});
}

void Run::begin_warming() {
  stage_ = Stage::warming;
  out_.emplace_back(BeginRow{0});
}

// The frozen reference is the policy of step 0: that one is published first, the reference keeps
// its copy.
void Run::told(const Loaded& loaded) {
  if (stage_ == Stage::restoring_frozen) {
    stage_ = Stage::publishing_frozen;
    return ask(PhaseKind::publish);
  }
  if (stage_ != Stage::restoring) return;
  const Cursor& cursor = loaded.cursor;
  step_ = cursor.step;
  // The policy of step 0 may be served already: it keeps its number, since a token's age is told by
  // the number of its version.
  const bool has_published = options_.start == RunOptions::Start::resumed_frozen;
  const bool is_served = has_published && cursor.step == 0 && cursor.version == version_;
  version_ = std::max(cursor.version, version_ + (has_published && !is_served ? 1 : 0));
  warm_round_ = cursor.warm_round;
  if (cursor.is_warm) return begin_warming();
  steps_done_ = step_;
  next_step_ = step_ + 1;
  if (is_served) {
    served_step_ = 0;
    stage_ = Stage::stepping;
    return;
  }
  stage_ = Stage::republishing;
  ask(PhaseKind::publish);
}

void Run::told(const TasksReady& ready) {
  Step* playing = find(ready.round, StepState::generating);
  if (playing != nullptr && playing->is_refilling) return refill_ready(*playing, ready);
  Step* step = find(ready.round, StepState::admitted);
  if (step == nullptr) return;
  step->groups = static_cast<uint32_t>(ready.tasks.size());
  step->tasks = ready.tasks;
  step->state = StepState::ready;
}

void Run::told(const RoundOpened& opened) {
  Step* playing = find(opened.round, StepState::generating);
  if (playing != nullptr && playing->is_refilling) return refill_opened(*playing);
  Step* step = find(opened.round, StepState::opening);
  if (step == nullptr) return;
  step->state = StepState::generating;
  begin_refill(*step);
  sift(*step);
  players_.open(step->key, std::exchange(step->tasks, {}), group_size(step->key.kind),
                groups_admitted(*step), opened.trajectories, out_);
}

void Run::told(const LeaseFailed& failed) {
  auto failure = players_.on_failed(failed, out_);
  if (!failure) return;
  failure->phase = to_string(activity_);
  doubts_.push_back({std::move(*failure), Excuse::lease, failed.number, now_});
}

void Run::told(const Collected& collected) {
  Step* step = find(collected.round, StepState::collecting);
  if (step == nullptr) return;
  step->collected = now_;
  step->masked_share = collected.masked_share;
  if (step->refill) {
    if (leave_out(*step, collected.left_out)) {
      step->state = StepState::generating;
      return sift(*step);
    }
    end_refill(*step);
  }
  step->state = StepState::closing;
  players_.collected(step->key, out_);
}

void Run::told(const Recorded& recorded) {
  if (auto failure = players_.on_recorded(recorded, out_)) fail(std::move(*failure));
}

void Run::told(const Updated& updated) {
  Step* step = find(updated.round, StepState::updating);
  if (step == nullptr) return;
  if (step->key.kind == TrajectoryKind::warm_start) {
    ++warm_round_;
    return step_over();
  }
  if (step->key.kind == TrajectoryKind::val) {  // RunOptions::measures_loss
    evaluation_.reset();
    end_step(open_.front());
    return;
  }
  if (options_.is_record_only) {
    serve(*step);
    return;
  }
  ++version_;
  step->state = StepState::publishing;
}

void Run::told(const Flushed&) {
  if (stage_ == Stage::ending) {
    stage_ = Stage::over;
    out_.emplace_back(
        End{is_stop_asked_ ? End::How::stopped : End::How::finished, steps_done_, {}, false});
    return;
  }
  if (front() != StepState::flushing) return;
  Step& step = open_.front();
  const bool is_warm = step.key.kind == TrajectoryKind::warm_start;
  step.state = StepState::saving;
  out_.emplace_back(Save{fmt::format("{}_{}", is_warm ? "warm" : "step", step.key.step),
                         {is_warm, step_, version_, warm_round_}});
}

void Run::told(const Saved&) {
  if (front() != StepState::saving) return;
  out_.emplace_back(Prune{});
  if (stage_ == Stage::warming) return finish();  // it was stopped
  step_over();
}

void Run::told(const CardsLost& lost) {
  if (!lost.is_away) last_loss_ = now_;
  players_.on_lost(lost, out_);
}

void Run::told(const Noticed& notice) {
  last_notice_ = notice.role + ": " + notice.text;
  out_.emplace_back(Note{"notice", last_notice_});
}

void Run::told(const FailureTold& told) {
  if (!told.failure.is_consequence) return fail(told.failure);
  doubts_.push_back({told.failure, Excuse::loss, 0, now_});
}

// An actor that is gone has not failed by itself: its node has the first word.
void Run::told(const CommandFailed& failed) {
  Failure failure{failed.role, std::string(to_string(activity_)), failed.error.to_string()};
  if (failed.error.code != Errc::closed) return fail(std::move(failure));
  doubts_.push_back({std::move(failure), Excuse::none, 0, now_});
}

void Run::assert_invariants() const {
  players_.assert_invariants();
  COHORT_CHECK(steps_to_train() <= ahead() + 1, "FLOW-3: more steps are open than allowed");
  for (size_t i = 1; i < open_.size(); ++i)
    COHORT_CHECK(
        open_[i].key.step == open_[i - 1].key.step + 1 && open_[i].state <= StepState::collected,
        "a step is at the optimizer before the one in front of it");
  COHORT_CHECK(!evaluation_ || options_.is_flowing || front() == StepState::evaluating,
               "an evaluation without its step");
}

std::string_view to_string(Activity activity) {
  static constexpr std::string_view k_names[] = {
      "start",     "init",   "resume",   "warm_start", "publish", "generate",
      "reference", "update", "evaluate", "checkpoint", "end"};
  return k_names[static_cast<size_t>(activity)];
}

}  // namespace cohort::plan::run
