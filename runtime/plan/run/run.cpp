#include "runtime/plan/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/plan/flow/admission.hpp"

namespace cohort::plan::run {

Run::Run(RunOptions options) : options_(std::move(options)), players_(options_) {
  COHORT_CHECK(!options_.cards.empty(), "a run has a replica of actor_infer");
  COHORT_CHECK(options_.steps_ahead == 0 || !options_.has_reference_phase,
               "PLACE-4: roles that take turns cannot generate while others train");
  COHORT_CHECK(!options_.is_flowing || (options_.gen_batches_max == 0 && !options_.measures_loss),
               "fully_async: every group trains, and an evaluation is played");
}

std::vector<Command> Run::on(const Event& event, double now) {
  if (stage_ == Stage::over) return {};
  now_ = now;
  wakes_.erase(wakes_.begin(), wakes_.upper_bound(now));
  std::visit([this](const auto& each) { told(each); }, event);
  if (stage_ != Stage::over) players_.on_time(now, out_);
  judge_doubts();
  go_on();
  wake();
  return std::exchange(out_, {});
}

// -- the loop: after every event each open step goes as far as it can, the oldest first

void Run::go_on() {
  bool is_moving = true;
  while (is_moving && (stage_ == Stage::warming || stage_ == Stage::stepping)) {
    is_moving = admit() || evaluate_beside();
    for (size_t i = 0; i < open_.size() && !is_moving; ++i) is_moving = advance(open_[i]);
  }
}

// Opens the next step, if the policy that is served is young enough for it (FLOW-3).
bool Run::admit() {
  if (stage_ == Stage::warming) {
    if (!open_.empty()) return false;
    if (options_.warm_steps == 0 || warm_round_ >= options_.warm_rounds) {
      stage_ = Stage::stepping;
      open_.push_back({.key = {TrajectoryKind::train, 0}, .state = StepState::publishing});
      return true;
    }
    open_.push_back({.key = {TrajectoryKind::warm_start, warm_round_}});
    is_stop_asked_ ? save(open_.back()) : start(open_.back());
    return true;
  }
  const bool is_last = next_step_ > last_step();
  if (open_.empty() && !evaluation_ && (is_last || is_stop_asked_)) finish();
  if (!may_open_next()) return false;
  open_.push_back({.key = {TrajectoryKind::train, next_step_++}});
  start(open_.back());
  return true;
}

bool Run::may_open_next() const {
  const auto step = static_cast<int64_t>(next_step_);
  return next_step_ <= last_step() && steps_to_train() <= ahead() &&
         step - 1 - served_step_ <= ahead();
}

/// Returns the last step that is opened. A stop ends the run behind the step at the optimizer; what
/// the present policy is to play beyond it is played all the same, for the checkpoint (AHEAD-1).
uint64_t Run::last_step() const {
  if (!is_stop_asked_) return options_.steps;
  if (options_.is_flowing) return next_step_ - 1;
  const bool has_front = !open_.empty() && open_.front().key.step > 0;
  return has_front ? fixed_until(open_.front()) : next_step_ - 1;
}

/// Returns the number of open steps; where rollouts play on over a publish, without one that is
/// published: its evaluation and its checkpoint hold up no other.
int64_t Run::steps_to_train() const {
  const bool is_trained =
      options_.is_flowing && !open_.empty() && open_.front().state >= StepState::evaluating;
  return std::ssize(open_) - (is_trained ? 1 : 0);
}

/// Returns the last step that the policy before this one's update is to play (AHEAD-1).
uint64_t Run::fixed_until(const Step& step) const {
  return std::min(options_.steps, step.key.step + options_.steps_ahead);
}

// Returns true if the step has got on. Where it waits for an answer, that brings it on (told).
bool Run::advance(Step& step) {
  switch (step.state) {
    case StepState::ready:
      if (!is_next_to_open(step) || !is_floor_open(step)) return false;
      step.opened = now_;
      step.state = StepState::opening;
      out_.emplace_back(OpenRound{step.key, step.groups, group_size(step.key.kind)});
      return true;
    case StepState::generating:
    case StepState::referring:
    case StepState::collecting:
      return play(step);
    case StepState::closing:
      return close(step);
    case StepState::collected:  // the optimizer takes the steps in order
      return &step == &open_.front() && optimize(step);
    case StepState::publishing:
      return publish(step);
    case StepState::evaluating:
      return evaluate(step);
    case StepState::admitted:
    case StepState::opening:
    case StepState::updating:
    case StepState::flushing:
    case StepState::saving:
      return false;
  }
  return false;
}

// What a lost replica has taken along is played again at any time until all is in the stream.
bool Run::play(Step& step) {
  if (!players_.is_played(step.key)) {
    if (players_.is_stranded(step.key))
      revive(step);
    else if (is_floor_open(step))
      players_.hand_out(now_, out_);
    return false;
  }
  if (step.is_refilling) return false;
  const bool is_read = options_.refers_held_out ? step.key.kind != TrajectoryKind::warm_start
                                                : step.key.kind == TrajectoryKind::train;
  const bool is_referred = is_read && options_.has_reference_phase;
  switch (step.state) {
    case StepState::generating:
      players_.end_playing(step.key, out_);
      step.played = now_;
      step.state = StepState::referring;
      return true;
    case StepState::referring:
      // What was played waits at the reference until its weights have the card.
      if (is_referred && !is_ready(PhaseKind::reference)) return false;
      step.state = StepState::collecting;
      out_.emplace_back(Collect{step.key});
      return true;
    default:
      if (is_referred) is_ready(PhaseKind::reference);
      return false;
  }
}

// A group that is played again, because a rollout was lost or has left, may have come from that one
// after all: what plays it now is still to end, for no card may move under a lease (PLACE-4).
bool Run::close(Step& step) {
  if (!players_.is_quiet(step.key)) return false;
  players_.close(step.key, out_);
  out_.emplace_back(RoundOver{step.key, step.opened, step.played, step.collected});
  step.state = StepState::collected;
  if (step.key.kind != TrajectoryKind::train) return true;
  // A step without a single score teaches nothing and costs nothing; several in a row are a reward
  // that does not work.
  constexpr uint64_t k_masked_steps_max = 3;
  masked_steps_ = step.masked_share < 1 ? 0 : masked_steps_ + 1;
  if (masked_steps_ == k_masked_steps_max)
    fail({"rewards", "score",
          fmt::format("every trajectory of {} steps in a row is masked; the last word: {}",
                      masked_steps_, last_notice_)});
  return true;
}

// Generation goes on beside the update: the steps behind this one get the cards ready first. One
// that is played needs them too, since a loss may bring groups back.
bool Run::optimize(Step& step) {
  for (const Step& behind : open_)
    if (&behind != &step && behind.state <= StepState::collecting && !is_floor_open(behind))
      return false;
  if (evaluation_ && !is_floor_open(*evaluation_)) return false;
  // Once the optimizer has begun, the policy that is to play them is gone from the trainer.
  for (const Step& behind : open_)
    if (&behind != &step && !options_.is_flowing && is_stranded(behind)) {
      revive(behind);
      return false;
    }
  const bool is_kept = options_.is_record_only && step.key.kind == TrajectoryKind::train;
  if (!is_kept && !is_ready(PhaseKind::update)) return false;
  activity_ = Activity::update;
  step.state = StepState::updating;
  out_.emplace_back(Update{step.key, is_kept ? version_ : version_ + 1});
  return true;
}

// Rollouts are idle, and what the policy before it is to play is in the stream (AHEAD-1), or they
// play on over the publish; but one policy is evaluated.
bool Run::publish(Step& step) {
  if (options_.is_flowing) {
    if (is_evaluating_older() || !is_begun_as_recorded()) return false;
  } else {
    if (!is_ahead_collected(step)) return false;
    players_.close_floor();
    if (!players_.is_idle()) return false;
  }
  if (!is_ready(PhaseKind::publish)) return false;
  is_newer_taken_ = false;
  out_.emplace_back(Published{step.key.step, version_});
  return serve(step);
}

// The policy that is served is that of the step.
bool Run::serve(Step& step) {
  served_step_ = static_cast<int64_t>(step.key.step);
  for (const Step& behind : open_) players_.admit(behind.key, groups_admitted(behind), out_);
  if (!is_evaluated(step.key.step) && !evaluation_) return end_step(step);
  step.state = StepState::evaluating;
  return true;
}

// Rollouts commit a policy when they have sampled what its predecessor is to sample. Once it is
// published, the next replica plays what a lost one had.
bool Run::is_begun_as_recorded() const {
  if (!options_.is_scheduled || served_step_ < 0 || granted_ == PhaseKind::publish) return true;
  if (may_open_next()) return false;
  return std::ranges::all_of(open_, [this](const Step& step) {
    if (step.state >= StepState::collected || groups_admitted(step) == 0) return true;
    return step.state >= StepState::generating &&
           (players_.is_leased(step.key) || players_.is_stranded(step.key));
  });
}

/// Returns how many groups of the step may be played by now.
uint32_t Run::groups_admitted(const Step& step) const {
  if (!options_.is_flowing || step.key.kind != TrajectoryKind::train) return step.groups;
  const double depth = options_.depth + static_cast<double>(ahead() - options_.steps_ahead);
  return plan::groups_admitted(depth, step.key.step, served_step_, step.groups);
}

/// Returns true while an evaluation is played by the policy that is served. If no replica has that
/// any more, the new one plays what is left.
bool Run::is_evaluating_older() {
  if (!evaluation_ || is_newer_taken_) return false;
  if (!is_stranded(*evaluation_)) return true;
  is_newer_taken_ = true;
  note_newer_policy(fmt::format("of the evaluation of step {}", evaluation_->key.step));
  return false;
}

// If no replica has the older policy any more, the new one plays what is left: it is younger.
bool Run::is_ahead_collected(const Step& step) {
  if (served_step_ < 0 || is_newer_taken_) return true;
  if (next_step_ <= fixed_until(step)) return false;
  bool is_left = false;
  for (const Step& behind : open_) {
    if (&behind == &step || behind.state >= StepState::collected) continue;
    if (!is_stranded(behind)) return false;
    is_left = true;
  }
  is_newer_taken_ = is_left;
  if (is_left) note_newer_policy(fmt::format("of the steps after {}", step.key.step));
  return true;
}

/// `what` is left, and the policy at the optimizer is to play it.
void Run::note_newer_policy(const std::string& what) {
  out_.emplace_back(
      Note{"newer_policy", fmt::format("no rollout has the policy of step {} any more: what is "
                                       "left {} is played by the policy of step {}",
                                       served_step_, what, open_.front().key.step)});
}

/// Groups of the step are left, and no replica could play them.
bool Run::is_stranded(const Step& step) const {
  const bool is_played = step.state >= StepState::generating && step.state <= StepState::collecting;
  return is_played && players_.is_stranded(step.key);
}

// Where rollouts play on over a publish, the trainer goes on with the next step, unless this one's
// parameters are still to be saved.
bool Run::evaluate(Step& step) {
  if (evaluation_) return evaluation_->key.step == step.key.step && go_on_evaluating();
  if (!is_evaluated(step.key.step)) return end_step(step);  // an earlier one is over
  evaluated_version_ = version_;
  evaluation_.emplace(Step{.key = {TrajectoryKind::val, step.key.step}});
  start(*evaluation_);
  if (!options_.is_flowing || is_saved(step.key.step)) return true;
  steps_done_ = step.key.step;
  step_over();
  return true;
}

/// The evaluation of a step that the optimizer has left behind.
bool Run::evaluate_beside() {
  const bool is_beside =
      evaluation_ && (open_.empty() || open_.front().key.step != evaluation_->key.step);
  return is_beside && go_on_evaluating();
}

// Sampled, then greedy.
bool Run::go_on_evaluating() {
  if (evaluation_->state != StepState::collected) return advance(*evaluation_);
  if (options_.measures_loss) return measure(*evaluation_);
  const uint64_t step = evaluation_->key.step;
  if (evaluation_->key.kind == TrajectoryKind::val) {
    evaluation_.emplace(Step{.key = {TrajectoryKind::val_greedy, step}});
    start(*evaluation_);
    return true;
  }
  evaluation_.reset();
  if (!open_.empty() && open_.front().key.step == step) return end_step(open_.front());
  out_.emplace_back(EndRow{step, evaluated_version_});
  return true;
}

// The trainer tells the loss of held-out rows, which nobody plays: an update that changes nothing.
bool Run::measure(Step& evaluation) {
  if (!is_ready(PhaseKind::update)) return false;
  activity_ = Activity::evaluate;
  evaluation.state = StepState::updating;
  out_.emplace_back(Update{evaluation.key, version_});
  return true;
}

bool Run::end_step(Step& step) {
  steps_done_ = step.key.step;
  out_.emplace_back(EndRow{step.key.step, version_});
  is_saved(step.key.step) ? save(step) : step_over();
  return true;
}

void Run::step_over() {
  open_.pop_front();
  if (is_stop_asked_ && stage_ == Stage::stepping) return finish();
  if (!open_.empty()) step_ = open_.front().key.step;
}

void Run::finish() {
  stage_ = Stage::ending;
  activity_ = Activity::end;
  out_.emplace_back(Flush{});
}

// -- what a step needs

/// Its groups are asked for.
void Run::start(Step& step) {
  uint32_t count = 0;
  activity_ = Activity::evaluate;
  if (step.key.kind == TrajectoryKind::train) {
    if (open_.size() == 1) step_ = step.key.step;
    activity_ = Activity::generate;
    out_.emplace_back(BeginRow{step.key.step});
  } else if (step.key.kind == TrajectoryKind::warm_start) {
    // Optimizer steps of this round: the steps spread evenly over the rounds.
    const auto until = [this](uint64_t round) {
      return options_.warm_steps * round / options_.warm_rounds;
    };
    count = static_cast<uint32_t>((until(step.key.step + 1) - until(step.key.step)) *
                                  options_.warm_batch);
    activity_ = Activity::warm_start;
  }
  out_.emplace_back(AskTasks{step.key, count});
}

void Run::save(Step& step) {
  step.state = StepState::flushing;
  activity_ = Activity::checkpoint;
  out_.emplace_back(Flush{});
}

/// The trainer takes rounds of one kind in rising order.
bool Run::is_next_to_open(const Step& step) const {
  return std::ranges::none_of(open_, [&](const Step& each) {
    return each.key.kind == step.key.kind && each.key.step < step.key.step &&
           each.state <= StepState::opening;
  });
}

/// Returns true if groups of the step may be leased now; else asks for that, if its turn has come.
bool Run::is_floor_open(const Step& step) {
  if (players_.is_floor_open(step.key.kind)) return true;
  if (may_move_cards(step) && !asked_) ask(phase_of(step.key.kind, options_));
  return false;
}

/// While the optimizer has the cards, what it does with them comes first.
bool Run::may_move_cards(const Step& step) const {
  if (open_.empty()) return true;  // an evaluation alone is left
  const StepState front = open_.front().state;
  if (front == StepState::updating || front == StepState::publishing) return false;
  return front != StepState::evaluating || options_.is_flowing ||
         step.key.kind == TrajectoryKind::val || step.key.kind == TrajectoryKind::val_greedy;
}

/// Returns true if the cards are in the phase; else asks placement for it.
bool Run::is_ready(PhaseKind kind) {
  if (asked_) return false;
  if (granted_ == kind) return true;
  ask(kind);
  return false;
}

void Run::ask(PhaseKind kind) {
  static constexpr std::array k_activities = {
      // in the order of PhaseKind
      Activity::init,   Activity::publish,  Activity::generate,  Activity::reference,
      Activity::update, Activity::evaluate, Activity::checkpoint};
  const bool is_beside = kind == PhaseKind::update && options_.steps_ahead > 0;
  if (!is_beside) players_.close_floor();
  asked_ = kind;
  granted_.reset();
  activity_ = k_activities.at(static_cast<size_t>(kind));
  out_.emplace_back(BeginPhase{kind, step_, version_});
}

// Nobody is left who could play: the version is published again, to the replica that comes first;
// until then placement waits.
void Run::revive(const Step& step) {
  if (may_move_cards(step) && !asked_) ask(PhaseKind::publish);
}

/// Returns the open step, or the evaluation, of this name, if it is in this state.
Run::Step* Run::find(RoundKey key, StepState state) {
  if (evaluation_ && evaluation_->key == key)
    return evaluation_->state == state ? &*evaluation_ : nullptr;
  auto found = std::ranges::find(open_, key, &Step::key);
  return found != open_.end() && found->state == state ? &*found : nullptr;
}

bool Run::is_evaluated(uint64_t step) const {
  if (options_.eval_steps == 0 || (options_.is_record_only && step > 0)) return false;
  return step % options_.eval_steps == 0 || step == options_.steps || is_stop_asked_;
}

bool Run::is_saved(uint64_t step) const {
  return step == 0 || step >= options_.steps || is_stop_asked_ ||
         (options_.save_steps > 0 && step % options_.save_steps == 0);
}

int64_t Run::ahead() const {
  const bool is_off_by_one = options_.plant == Plant::staleness_off_by_one;
  return int64_t{options_.steps_ahead} + (is_off_by_one ? 1 : 0);
}

uint32_t Run::group_size(TrajectoryKind kind) const {
  const std::array sizes = {options_.group_size, options_.val_group_size,
                            options_.greedy_group_size, 1U};  // in the order of TrajectoryKind
  return sizes.at(static_cast<size_t>(kind));
}

void Run::fail(Failure failure) {
  if (stage_ == Stage::over) return;
  if (failure.phase.empty()) failure.phase = to_string(activity_);
  stage_ = Stage::over;
  out_.emplace_back(
      End{End::How::failed, steps_done_,
          fmt::format("{} in phase {}: {}", failure.role, failure.phase, failure.detail),
          failure.is_loss});
}

// The first error that nothing explains when its time is over is the cause.
void Run::judge_doubts() {
  for (; !doubts_.empty() && doubts_.front().since + options_.verdict_wait_s <= now_;
       doubts_.pop_front()) {
    Doubt& doubt = doubts_.front();
    if (!is_explained(doubt)) fail(std::move(doubt.failure));
  }
}

bool Run::is_explained(const Doubt& doubt) const {
  constexpr double k_before_s = 3;  // an error may be told so long before the loss behind it
  return (doubt.excuse == Excuse::lease && !players_.is_open(doubt.lease)) ||
         (doubt.excuse == Excuse::loss && last_loss_ && *last_loss_ > doubt.since - k_before_s);
}

void Run::wake() {
  std::optional<double> due = players_.due();
  if (!doubts_.empty()) {
    const double doubt = doubts_.front().since + options_.verdict_wait_s;
    due = std::min(doubt, due.value_or(doubt));
  }
  if (stage_ == Stage::over || !due || (!wakes_.empty() && *wakes_.begin() <= *due)) return;
  wakes_.insert(*due);
  out_.emplace_back(WakeAt{*due});
}

}  // namespace cohort::plan::run
