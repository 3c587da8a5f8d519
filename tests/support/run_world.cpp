#include "tests/support/run_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/support/run_script.hpp"

namespace cohort::tests {

using namespace plan::run;
using plan::PhaseKind;

namespace {

plan::StepKey step_key(RoundKey round) { return {round.kind, round.step}; }

/// Of the runs that are ahead every second one plays on over a publish. Draws of its own.
void draw_flowing(uint64_t seed, RunOptions& run) {
  Rng rng = Rng(seed).fork(4);
  if (run.steps_ahead == 0 || rng.below(2) == 0) return;
  run.is_flowing = true;
  run.depth = run.steps_ahead - 0.25 * static_cast<double>(rng.below(4));
  run.gen_batches_max = 0;
}

}  // namespace

WorldOptions world_of(uint64_t seed) {
  Rng rng = Rng(seed).fork(1);
  WorldOptions world;
  world.seed = seed;
  world.groups = static_cast<uint32_t>(1 + rng.below(6));
  RunOptions& run = world.run;
  run.steps = 1 + rng.below(6);
  run.eval_steps = rng.below(3);
  run.save_steps = rng.below(3);
  if (rng.below(3) == 0) {
    run.warm_rounds = 1 + rng.below(3);
    run.warm_steps = run.warm_rounds + rng.below(4);
    run.warm_batch = 1 + rng.below(3);
  }
  run.group_size = static_cast<uint32_t>(1 + rng.below(4));
  run.val_group_size = static_cast<uint32_t>(1 + rng.below(2));
  for (uint32_t card = 1; card <= 1 + rng.below(4); ++card) run.cards.push_back(card);
  static constexpr uint32_t k_ahead[] = {0, 1, 4};
  run.steps_ahead = k_ahead[seed % 3];
  run.has_reference_phase = run.steps_ahead == 0 && rng.below(4) == 0;
  run.refers_held_out = run.has_reference_phase && rng.below(2) == 0;
  run.running_max = 1 + rng.below(8);
  run.stragglers = {rng.below(2) == 0 ? 0.0 : 2.0, 0.5};
  run.group_timeout_s = rng.below(2) == 0 ? 0 : 8;
  if (run.cards.size() > 1 && rng.below(3) > 0) world.fault_every_s = 1 + 10 * rng.uniform();
  if (world.fault_every_s > 0 && rng.below(3) == 0) world.killers.insert("Lake/2/0");
  world.may_stop = rng.below(8) == 0;
  run.measures_loss = run.steps_ahead == 0 && rng.below(3) == 0;
  static constexpr uint32_t k_batches[] = {0, 0, 1, 2, 5};
  run.gen_batches_max = k_batches[rng.below(5)];
  world.left_out_percent = rng.below(90);
  world.lanes = static_cast<uint32_t>(1 + rng.below(3));
  draw_flowing(seed, run);
  run.plays_in_reference = run.measures_loss && !run.has_reference_phase && rng.below(2) == 0;
  return world;
}

RunWorld::RunWorld(WorldOptions options)
    : options_(std::move(options)), rng_(Rng(options_.seed).fork(2)), run_(options_.run) {
  replicas_.resize(options_.run.cards.size());
}

void RunWorld::after(double seconds, std::function<void()> what) {
  happenings_.push({now_ + seconds, ++order_, std::move(what)});
}

void RunWorld::check(bool is_true, const std::string& what) {
  if (!is_true && violation_.empty()) violation_ = fmt::format("at {:.3f} s: {}", now_, what);
}

void RunWorld::play() {
  constexpr double k_patience_s = 600;
  after(0, [this] { tell(Started{}); });
  if (options_.fault_every_s > 0)
    after(options_.fault_every_s * rng_.uniform(), [this] { fault(); });
  if (options_.may_stop) after(10 * rng_.uniform(), [this] { tell(StopAsked{}); });
  while (!has_ended_ && violation_.empty() && !happenings_.empty()) {
    Happening next = happenings_.top();
    happenings_.pop();
    now_ = next.at;
    check(now_ < options_.calm_after_s + k_patience_s, "LIVENESS: the run does not end");
    next.what();
  }
  check(has_ended_, "LIVENESS: nothing is under way any more");
}

void RunWorld::tell(const Event& event) {
  if (has_ended_ || !violation_.empty()) return;
  for (const Command& command : run_.on(event, now_)) {
    trace_.push_back(fmt::format("{:.3f} {}", now_, to_text(command)));
    std::visit([this](const auto& each) { execute(each); }, command);
  }
  run_.assert_invariants();
}

// -- placement

void RunWorld::execute(const BeginPhase& x) {
  check(!is_phase_asked_, "placement is asked twice at once");
  is_phase_asked_ = true;
  const bool is_beside = x.kind == PhaseKind::update && options_.run.steps_ahead > 0;
  size_t open = 0;
  for (const Replica& replica : replicas_)
    if (replica.is_alive) open += replica.leases.size();
  // What was cancelled is taken back before a card's command comes: nothing else may be there.
  const bool plays_on = is_beside || options_.run.is_flowing;
  check(open == 0 || plays_on, "PLACE-4: a card moves under a lease");
  if (x.kind == PhaseKind::publish) played_over_ += open;
  if (x.kind == PhaseKind::publish) {
    check(x.version == policy_,
          fmt::format("version {} is published, the trainer has {}", x.version, policy_));
    publishing_ = x;
    return after(brief(), [this] { publish(); });
  }
  after(brief(), [this, x] {
    is_phase_asked_ = false;
    const bool generates = x.kind == PhaseKind::generate || x.kind == PhaseKind::evaluate;
    for (Replica& replica : replicas_)
      replica.has_cache = replica.has_cache || (generates && replica.version >= 0);
    tell(PhaseDone{x.kind});
  });
}

// It waits while nobody lives who could serve it.
void RunWorld::publish() {
  if (!publishing_) return;
  std::vector<uint32_t> served;
  for (uint32_t i = 0; i < replicas_.size(); ++i)
    if (replicas_[i].is_alive) {
      replicas_[i].version = static_cast<int64_t>(publishing_->version);
      served.push_back(options_.run.cards[i]);
    }
  if (served.empty()) return;
  const uint64_t step = trained_.empty() ? 0 : trained_.back();
  served_step_ = static_cast<int64_t>(step);
  step_of_version_[publishing_->version] = served_step_;
  publishing_.reset();
  is_phase_asked_ = false;
  tell(PhaseDone{PhaseKind::publish, served});
}

// -- tasks, trainer, recorder

void RunWorld::execute(const AskTasks& x) {
  TasksReady ready{x.round, {}};
  const auto add = [&](uint32_t group, uint32_t lane) {
    ready.tasks.push_back({"Lake", group, fmt::format("Lake/{}/{}", x.round.step, group), lane});
  };
  for (const plan::Refill::Next& next : x.in_place) {
    add(next.group, next.lane);
    ready.in_place.push_back(next.group);
    ++in_place_;
  }
  const uint32_t groups = x.count > 0 ? x.count : options_.groups;
  for (uint32_t i = 0; i < groups && x.in_place.empty(); ++i) add(i, i % options_.lanes);
  after(0, [this, ready] { tell(ready); });
}

void RunWorld::execute(const OpenRound& x) {
  check(!options_.run.measures_loss || x.round.kind != TrajectoryKind::val_greedy,
        "a measured loss has one round");
  if (!x.in_place.empty()) {
    check(collector_.extend_step(step_key(x.round), x.in_place).has_value(),
          "groups take places that others have");
    return after(brief(), [this, x] { tell(RoundOpened{x.round}); });
  }
  auto opened = collector_.open_step(step_key(x.round), x.groups, x.group_size);
  check(opened.has_value(), opened ? "" : opened.error().detail);
  group_sizes_[x.round] = x.group_size;
  recorded_[x.round];
  oldest_[x.round] = INT64_MAX;
  after(brief(), [this, x] { tell(RoundOpened{x.round}); });
}

void RunWorld::arrive(RoundKey round, uint32_t group, uint32_t index, int64_t served_step) {
  using plan::Verdict;
  const Verdict verdict = collector_.offer({round.kind, round.step, group, index});
  check(verdict != Verdict::unknown, "a trajectory comes that nobody expects");
  if (verdict != Verdict::accepted) {
    ++duplicates_;
    return;
  }
  recorded_[round].emplace(group, index);
  oldest_[round] = std::min(oldest_[round], served_step);
  judge(round, group);
  collect_whole();
}

/// The verdicts are a function of the seed and the group.
bool RunWorld::is_left_out(RoundKey round, uint32_t group) const {
  return round.kind == TrajectoryKind::train && options_.run.gen_batches_max > 0 &&
         Rng(options_.seed).fork(3).fork(round.step).fork(group).below(100) <
             options_.left_out_percent;
}

void RunWorld::judge(RoundKey round, uint32_t group) {
  const auto& all = recorded_.at(round);
  const auto count = std::distance(all.lower_bound({group, 0}), all.lower_bound({group + 1, 0}));
  if (count < group_sizes_.at(round) || !is_left_out(round, group)) return;
  left_out_[round].push_back(group);
  answer_sift(round);
}

void RunWorld::answer_sift(RoundKey round) {
  auto asked = sifting_.find(round);
  if (asked == sifting_.end() || left_out_[round].size() <= asked->second) return;
  sifting_.erase(asked);
  after(brief(), [this, sifted = Sifted{round, left_out_[round]}] { tell(sifted); });
}

void RunWorld::execute(const Sift& x) {
  check(options_.run.gen_batches_max > 1, "nobody could take a place");
  after(brief(), [this, x] {
    check(sifting_.emplace(x.round, x.known).second, "the trainer is asked twice at once");
    answer_sift(x.round);
  });
}

// REFILL-1, told another way: of each lane the groups in order, until enough are kept.
void RunWorld::check_groups(RoundKey round) {
  const uint32_t batch = options_.groups;
  std::set<uint32_t> expected, played;
  for (const auto& [group, index] : recorded_.at(round)) played.insert(group);
  for (uint32_t lane = 0; lane < options_.lanes; ++lane) {
    uint32_t wanted = 0, kept = 0;
    for (uint32_t place = lane; place < batch; place += options_.lanes) ++wanted;
    for (uint32_t group = 0; group < batch * std::max(1U, options_.run.gen_batches_max); ++group) {
      if (group % batch % options_.lanes != lane || (kept == wanted && group >= batch)) continue;
      expected.insert(group);
      kept += is_left_out(round, group) ? 0 : 1;
    }
  }
  check(played == expected, fmt::format("REFILL-1: step {} has {} groups, not {}", round.step,
                                        played.size(), expected.size()));
}

/// The collector expects trajectories of it.
bool RunWorld::is_open(RoundKey round) const {
  return collector_.progress(step_key(round)).second > 0;
}

void RunWorld::collect_whole() {
  for (auto it = collecting_.begin(); it != collecting_.end();) {
    const RoundKey round = *it;
    if (!collector_.is_step_complete(step_key(round))) {
      ++it;
      continue;
    }
    it = collecting_.erase(it);
    after(brief(), [this, round] {
      const bool is_held_out =
          round.kind != TrajectoryKind::train && round.kind != TrajectoryKind::warm_start;
      if (is_held_out && !options_.run.measures_loss)
        check(collector_.close_step(step_key(round)).has_value(), "FLOW-1: a step is closed twice");
      tell(Collected{round, 0, left_out_[round]});
    });
  }
}

void RunWorld::execute(const Collect& x) {
  check(recorded_.contains(x.round), "a round is collected that is not open");
  collecting_.insert(x.round);
  after(brief(), [this] { collect_whole(); });
}

void RunWorld::execute(const AskRecorded& x) {
  after(brief(), [this, x] {
    if (!is_open(x.round)) return tell(Recorded{x.question, true, {}});
    const auto& has = recorded_.at(x.round);
    tell(Recorded{x.question, false, {has.begin(), has.end()}});
  });
}

void RunWorld::execute(const Mask& x) {
  after(brief(), [this, x] {
    for (uint32_t index = 0; index < group_sizes_.at(x.round); ++index)
      if (!recorded_[x.round].contains({x.group, index}))
        arrive(x.round, x.group, index, INT64_MAX);
    tell(Masked{x.round, x.group});
  });
}

void RunWorld::execute(const Update& x) {
  check(collector_.close_step(step_key(x.round)).has_value(),
        "FLOW-1: an update begins before its step is whole, or again");
  if (x.round.kind == TrajectoryKind::val) {
    check(options_.run.measures_loss, "the trainer is to measure what replicas evaluate");
    check(x.next_version == policy_, "a measured loss makes a version");
    measured_.push_back(x.round.step);
  }
  if (x.round.kind == TrajectoryKind::train) {
    evaluated_beside_ += run_.evaluation() ? 1 : 0;
    check_groups(x.round);
    const uint64_t last = trained_.empty() ? 0 : trained_.back();
    check(x.round.step == last + 1, "FLOW-1: steps enter the optimizer out of order");
    const int64_t oldest = oldest_.at(x.round);
    check(!options_.run.is_record_only || x.next_version == policy_,
          "a recorded step makes a version");
    if (oldest != INT64_MAX && !options_.run.is_record_only) {
      const int64_t ahead = static_cast<int64_t>(x.round.step) - 1 - oldest;
      check(ahead >= 0 && ahead <= options_.run.steps_ahead,
            fmt::format("FLOW-3: step {} trains on what is {} steps old", x.round.step, ahead));
      ahead_max_ = std::max(ahead_max_, static_cast<uint64_t>(std::max<int64_t>(0, ahead)));
    }
  }
  after(0.05 + 0.3 * rng_.uniform(), [this, x] {
    if (x.round.kind == TrajectoryKind::train) {
      trained_.push_back(x.round.step);
      policy_ = x.next_version;
    }
    tell(Updated{x.round});
  });
}

void RunWorld::execute(const Flush&) {
  after(brief(), [this] { tell(Flushed{}); });
}

void RunWorld::execute(const Save& x) {
  check(x.cursor.is_warm || x.cursor.step == (trained_.empty() ? 0 : trained_.back()),
        "a checkpoint of another step than the trainer's");
  after(brief(), [this] { tell(Saved{}); });
}

void RunWorld::execute(const Load&) { check(false, "nothing is to be loaded"); }

// -- replicas

/// Returns the step after which the policy is that plays a step, as AHEAD-1 says.
int64_t RunWorld::policy_of(uint64_t step) const {
  return std::max<int64_t>(0, static_cast<int64_t>(step) - 1 - options_.run.steps_ahead);
}

void RunWorld::execute(const Note& x) {
  if (x.kind == "newer_policy") has_newer_policy_ = true;
}

// FLOWING-1, FLOW-3: groups in order, as far as the depth goes.
void RunWorld::check_flowing(const Lease& x, const Replica& replica) {
  if (x.round.kind != TrajectoryKind::train) return;
  const int64_t served = step_of_version_[static_cast<uint64_t>(replica.version)];
  const double room = (options_.run.depth + static_cast<double>(served) + 1) * options_.groups;
  if (options_.run.plant == plan::Plant::staleness_off_by_one) return;
  for (uint32_t group : x.groups)
    check(static_cast<double>((x.round.step - 1) * options_.groups + group) < std::ceil(room),
          fmt::format("FLOWING-1: group {} of step {} begins with the policy of step {}", group,
                      x.round.step, served));
}

void RunWorld::execute(const Lease& x) {
  check(x.number == last_number_ + 1, "LEASE-1: numbers do not rise by one");
  last_number_ = x.number;
  Replica& replica = replicas_[x.replica];
  const uint64_t life = replica.life;
  if (!replica.is_alive) {  // the machine has not heard yet
    after(brief(), [this, x] { tell(LeaseFailed{x.number, {Errc::closed, "it is gone"}}); });
    return;
  }
  const bool is_scripted = x.round.kind == TrajectoryKind::warm_start;
  check(is_scripted || replica.version == static_cast<int64_t>(x.version),
        fmt::format("PLACE-5: lease {} wants version {}, {} is served", x.number, x.version,
                    replica.version));
  check(is_scripted || replica.has_cache || options_.run.plays_in_reference,
        "PLACE-4: a lease comes before the cache");
  if (options_.run.is_record_only)
    check(is_scripted || x.version == 0, "another policy plays than that of step 0");
  const bool is_planted = options_.run.plant == plan::Plant::staleness_off_by_one;
  if (options_.run.is_flowing && !options_.run.is_record_only)
    check_flowing(x, replica);
  else if (x.round.kind == TrajectoryKind::train && !has_newer_policy_ && !is_planted &&
           !options_.run.is_record_only)
    check(step_of_version_[x.version] == policy_of(x.round.step),
          fmt::format("AHEAD-1: step {} is played by the policy of step {}", x.round.step,
                      step_of_version_[x.version]));
  replica.leases.emplace(x.number, Playing{x, life, replica.version});
  const bool kills = std::ranges::any_of(
      x.tasks, [this](const GroupTask& task) { return options_.killers.contains(task.prompt); });
  if (kills)
    return after(0.1 + 0.2 * rng_.uniform(), [this, x, life] {
      if (replicas_[x.replica].life == life && replicas_[x.replica].leases.contains(x.number))
        kill(x.replica, "was killed by what it played", false);
    });
  const double slow = rng_.below(10) == 0 ? 5 : 1;
  after(slow * (0.05 + 0.4 * rng_.uniform()),
        [this, x, life] { end_lease(x.replica, x.number, life); });
}

void RunWorld::end_lease(uint32_t at, uint64_t number, uint64_t life) {
  Replica& replica = replicas_[at];
  if (replica.life != life || !replica.leases.contains(number)) return;
  if (replica.is_hung) return after(1, [this, at, number, life] { end_lease(at, number, life); });
  const Playing playing = replica.leases.extract(number).mapped();
  const Lease& lease = playing.lease;
  const bool is_held_out =
      lease.round.kind == TrajectoryKind::val || lease.round.kind == TrajectoryKind::val_greedy;
  check(
      !is_held_out || replica.version == playing.version,
      fmt::format("FLOWING-1: version {} goes on with what version {} has begun of {} {}",
                  replica.version, playing.version, to_string(lease.round.kind), lease.round.step));
  uint64_t played = 0;
  const int64_t served = lease.round.kind == TrajectoryKind::train
                             ? step_of_version_[static_cast<uint64_t>(playing.version)]
                             : INT64_MAX;
  for (size_t i = 0; i < lease.groups.size(); ++i) {
    std::vector<uint32_t> indices;
    if (!lease.indices.empty())
      indices = lease.indices[i];
    else
      for (uint32_t index = 0; index < lease.group_size; ++index) indices.push_back(index);
    for (uint32_t index : indices) {
      ++played;
      // What is under way when its producer dies is lost, or comes late.
      after(0.3 * rng_.uniform(), [this, at, life, lease, i, index, served] {
        if (replicas_[at].life != life && rng_.below(2) == 0) return;
        arrive(lease.round, lease.groups[i], index, served);
      });
    }
  }
  after(brief(), [this, number, played, at, life] {
    if (replicas_[at].life == life) tell(LeaseEnded{number, played, 10 * played});
  });
}

void RunWorld::execute(const Cancel& x) {
  Replica& replica = replicas_[x.replica];
  if (replica.leases.erase(x.number) == 0) return;
  after(brief(), [this, x] { tell(LeaseFailed{x.number, {Errc::cancelled, "another"}}); });
}

void RunWorld::execute(const Ping& x) {
  const uint64_t done = order_;
  after(brief(), [this, x, done] {
    const Replica& replica = replicas_[x.replica];
    if (replica.is_alive && !replica.is_hung) tell(Pong{x.number, done});
  });
}

void RunWorld::execute(const Judge& x) {
  if (x.judgement != Judgement::hung) return;
  for (uint32_t i = 0; i < replicas_.size(); ++i)
    if (options_.run.cards[i] == x.card) after(brief(), [this, i] { kill(i, "was hung", false); });
}

void RunWorld::kill(uint32_t at, const std::string& text, bool is_away) {
  Replica& replica = replicas_[at];
  if (!replica.is_alive) return;
  replica.is_alive = replica.is_hung = false;
  ++replica.life;
  replica.version = -1;
  replica.has_cache = false;
  const auto leases = std::exchange(replica.leases, {});
  const uint32_t card = options_.run.cards[at];
  const double told = brief() * 10;
  for (const auto& [number, lease] : leases)
    if (rng_.below(2) == 0)
      after(2 * told * rng_.uniform(), [this, number = number] {
        tell(LeaseFailed{number, {Errc::closed, "the actor died before it answered"}});
      });
  after(told, [this, card, text, is_away] {
    tell(CardsLost{{card}, fmt::format("card {} {}", card, text), is_away});
  });
  after(told + 0.2 + 2 * rng_.uniform(), [this, at, card] {
    replicas_[at].is_alive = true;
    tell(CardsBack{{card}, {}});
    publish();
  });
}

void RunWorld::fault() {
  if (now_ > options_.calm_after_s) {
    for (Replica& replica : replicas_) replica.is_hung = false;
    return;
  }
  ++faults_;
  const auto at = static_cast<uint32_t>(rng_.below(replicas_.size()));
  const uint32_t card = options_.run.cards[at];
  switch (rng_.below(5)) {
    case 0:
      if (options_.run.group_timeout_s > 0) replicas_[at].is_hung = true;
      break;
    case 1: {
      const uint64_t number = faults_;
      asked_leaves_.insert(number);
      tell(LeaveAsked{number, {card}, fmt::format("card {} leaves", card), 3 * rng_.uniform()});
      break;
    }
    default:
      kill(at, "was killed", rng_.below(4) == 0);
  }
  after(2 * options_.fault_every_s * rng_.uniform(), [this] { fault(); });
}

void RunWorld::execute(const AnswerLeave& x) {
  check(asked_leaves_.erase(x.number) == 1, "a leave is answered that was not asked, or twice");
  if (x.error.code != Errc::none) return;
  for (uint32_t i = 0; i < replicas_.size(); ++i)
    if (run_.players().standing(i) == Players::Standing::leaving)
      after(brief(), [this, i] { kill(i, "has left", true); });
}

void RunWorld::execute(const WakeAt& x) {
  check(x.at >= now_, "a wake in the past");
  after(x.at - now_, [this] { tell(TimePassed{}); });
}

void RunWorld::execute(const End& x) {
  check(!has_ended_, "the run ends twice");
  end_ = x;
  has_ended_ = true;
}

}  // namespace cohort::tests
