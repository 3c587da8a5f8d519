// Rollouts that the driver loses and gets back, and errors whose cause somebody else will tell.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "actors/run/driver_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

using namespace control;
using plan::PhaseKind;
using proto::TrajectoryKind;

void DriverState::note(const std::string& kind, const std::string& text) {
  options_.log->event(observe::EventLevel::warning, step_, text, kind);
  record(static_cast<uint16_t>(stream::RecordType::event),
         nlohmann::json{{"kind", kind},
                        {"step", step_},
                        {"phase", phase_},
                        {"detail", text},
                        {"time_us", wall_time_us()}}
             .dump());
}

// -- errors that may be the consequence of a loss

void DriverState::on_told(const Failure& failure) {
  if (!failure.is_consequence) return on_fail(failure);
  doubt({failure, now_seconds(), {}});
}

void DriverState::doubt(Doubt doubt) {
  if (is_over_) return;
  doubts_.emplace(++next_timer_, std::move(doubt));
  self_->delayed_send(DriverActor{self_}, std::chrono::milliseconds(options_.verdict_wait_ms),
                      watch_atom_v, next_timer_);
}

// By now whoever watches the processes has spoken. What a lost rollout has failed in is with others
// already; of the rest, an error around the time of a loss is taken for its consequence.
void DriverState::on_watch(uint64_t number) {
  if (auto late = leaves_.extract(number); !late.empty()) late.mapped().promise.deliver(true);
  constexpr double k_before_seconds = 3;
  auto found = doubts_.find(number);
  if (found == doubts_.end()) return;
  Doubt doubt = std::move(found->second);
  doubts_.erase(found);
  bool is_explained = doubt.lease ? replicas_[doubt.lease->first].attempt != doubt.lease->second
                                  : last_loss_ > 0 && last_loss_ > doubt.since - k_before_seconds;
  if (is_explained) {
    log::info("{} in phase {}: {}: a consequence of the loss before", doubt.failure.role,
              doubt.failure.phase, doubt.failure.detail);
    return;
  }
  doubt.failure.is_consequence = false;
  on_fail(doubt.failure);
}

// -- losses

bool DriverState::can_play(size_t replica, uint8_t kind) const {
  const Standing standing = replicas_[replica].standing;
  return standing == Standing::serving ||
         (standing == Standing::back && kind == static_cast<uint8_t>(TrajectoryKind::warm_start));
}

void DriverState::on_lost(const CardsLost& lost) {
  if (is_over_) return;
  if (!lost.is_away) last_loss_ = now_seconds();
  options_.log->lost(lost.cards, true);
  note(lost.is_away ? "away" : "lost", lost.text);
  Loss loss;
  loss.death.text = lost.text;
  loss.is_away = lost.is_away;
  for (size_t replica = 0; replica < replicas_.size(); ++replica) {
    const uint32_t card = options_.rollout_cards[replica].value;
    if (std::ranges::find(lost.cards, card) == lost.cards.end() ||
        replicas_[replica].standing == Standing::lost)
      continue;
    ++replicas_[replica].attempt;
    replicas_[replica].standing = Standing::lost;
    if (loss.replicas.empty()) loss.death.card = card;
    loss.replicas.push_back(replica);
  }
  if (round_ && !loss.replicas.empty()) play_again(std::move(loss));
  end_leaves();
}

// What it played and what it had open: the stream says which of it is safe. What is still on its
// way there, acknowledged by nobody, comes twice.
void DriverState::play_again(Loss loss) {
  std::shared_ptr<Round> round = round_;
  for (size_t replica : loss.replicas) {
    round->paces.erase(replica);
    for (uint64_t group : round->dispatcher->groups_on(static_cast<uint32_t>(replica)))
      loss.open.push_back(static_cast<uint32_t>(group));
    for (const plan::DispatchPart& part : round->dispatcher->lose(static_cast<uint32_t>(replica))) {
      loss.again.push_back(static_cast<uint32_t>(part.group));
      round->clock.closed(part.group);
    }
    for (const auto& [group, by] : round->played_by)
      if (by == replica && std::ranges::find(loss.open, group) == loss.open.end())
        loss.ended.push_back(group);
  }
  ++round->questions;
  send_request(
      self_, options_.trainer, std::chrono::milliseconds(options_.request_timeout_ms),
      [this, round, loss = std::move(loss)](const RecordedReport& recorded) {
        on_recorded(round, loss, recorded);
      },
      [this, round](caf::error& e) {
        Error error = from_caf(e);
        if (error.code != Errc::not_found) return on_fail(failure_of("actor_train", phase_, e));
        --round->questions;  // all of it is in the stream: the step has gone on
        if (round_ == round) continue_round(round);
      },
      recorded_atom_v, round->batch.kind, round->batch.step);
}

void DriverState::on_recorded(const std::shared_ptr<Round>& round, const Loss& loss,
                              const RecordedReport& recorded) {
  --round->questions;
  if (round_ != round) return;
  std::map<uint32_t, std::set<uint32_t>> safe;  // index by group
  for (auto [group, index] : recorded.trajectories) safe[group].insert(index);
  const auto is_safe = [&](uint32_t group) {
    return safe[group].size() == round->batch.group_size;
  };
  std::vector<uint32_t> groups = loss.again;
  for (uint32_t group : loss.ended) {
    if (is_safe(group)) continue;
    round->played_by.erase(group);
    auto added = round->dispatcher->add(
        {group, round->batch.tasks[group].seed, round->batch.group_size, 0, 0});
    if (!added) return on_fail({"driver", phase_, added.error().to_string()});
    groups.push_back(group);
  }
  uint64_t kept = 0;
  const auto expected = static_cast<uint64_t>(std::max(1.0, response_tokens_));
  const auto replica = static_cast<uint32_t>(loss.replicas.front());
  for (uint32_t group : groups) {
    ++round->attempts[group];
    for (uint32_t index : safe[group]) {
      round->dispatcher->end(group, index, replica, expected);
      ++kept;
    }
  }
  if (!groups.empty())
    note(
        "requeue",
        fmt::format("{} groups of actor_infer (card {}) are played again; {} of their {} "
                    "trajectories are in the stream already",
                    groups.size(), loss.death.card, kept, groups.size() * round->batch.group_size));
  std::set<uint64_t> open;  // two replicas of the process may have had one group
  for (uint32_t group : loss.open)
    if (!is_safe(group)) open.insert(group);
  if (!loss.is_away) blame(round, loss.death, {open.begin(), open.end()});
  continue_round(round);
}

void DriverState::continue_round(const std::shared_ptr<Round>& round) {
  if (round->is_collected) return close_round(round);
  if (round->dispatcher->is_done()) return leases_over(round);
  choose_players(round);
  bool has_player = false;
  for (size_t replica = 0; replica < replicas_.size(); ++replica)
    has_player = has_player || can_play(replica, round->batch.kind);
  if (has_player) return lease_more(round);
  for (uint32_t replica = 0; replica < replicas_.size(); ++replica)
    if (round->dispatcher->open_groups(replica) > 0) return;  // one that leaves: to its end first
  if (round->batch.kind != static_cast<uint8_t>(TrajectoryKind::warm_start)) revive();
}

void DriverState::on_back(const CardsBack& back) {
  if (is_over_) return;
  for (const RoleHandle& role : back.roles) {
    options_.log->lost({role.card}, false);
    if (role.role == "reference")
      note("restart",
           fmt::format("reference (card {}) is there again, with the policy of step 0", role.card));
    for (size_t replica = 0; replica < replicas_.size(); ++replica) {
      if (role.role != "actor_infer" || options_.rollout_cards[replica].value != role.card)
        continue;
      replicas_[replica].actor = caf::actor_cast<RolloutActor>(role.actor);
      replicas_[replica].standing = Standing::back;
      note("restart",
           fmt::format("actor_infer (card {}) is there again, without weights", role.card));
      slow_.renew(replica);
      if (round_ && can_play(replica, round_->batch.kind)) continue_round(round_);
    }
  }
}

// What it plays it plays to the end, within `wait_ms`; the rest, and what is not in the stream by
// then, goes to others when the node says that it is lost.
caf::result<bool> DriverState::on_leave(const CardsLost& leaving, uint32_t wait_ms) {
  auto goes = [&](size_t replica) {
    return std::ranges::find(leaving.cards, options_.rollout_cards[replica].value) !=
           leaving.cards.end();
  };
  bool has_other = false;
  for (size_t replica = 0; replica < replicas_.size(); ++replica)
    has_other = has_other || (!goes(replica) && replicas_[replica].standing == Standing::serving);
  if (!has_other || is_over_)
    return to_caf(
        {Errc::invalid_argument,
         fmt::format("{}: no other replica of actor_infer serves at the moment: try again "
                     "after the next step",
                     leaving.text)});
  note("leave", leaving.text);
  Leave leave{{}, self_->make_response_promise<bool>()};
  for (size_t replica = 0; replica < replicas_.size(); ++replica) {
    if (!goes(replica) || replicas_[replica].standing == Standing::lost) continue;
    replicas_[replica].standing = Standing::leaving;
    leave.replicas.push_back(replica);
    if (round_) round_->dispatcher->retire(static_cast<uint32_t>(replica));
  }
  auto promise = leave.promise;
  leaves_.emplace(++next_timer_, std::move(leave));
  self_->delayed_send(DriverActor{self_}, std::chrono::milliseconds(wait_ms), watch_atom_v,
                      next_timer_);
  end_leaves();
  return promise;
}

void DriverState::end_leaves() {
  auto is_idle = [this](size_t replica) {
    return !round_ || round_->dispatcher->open_groups(static_cast<uint32_t>(replica)) == 0;
  };
  for (auto leave = leaves_.begin(); leave != leaves_.end();) {
    const bool is_over = std::ranges::all_of(leave->second.replicas, is_idle);
    if (is_over) leave->second.promise.deliver(true);
    leave = is_over ? leaves_.erase(leave) : std::next(leave);
  }
}

// Nobody is left who could play: the version of this round is published again, to whoever comes
// first; until then placement waits.
void DriverState::revive() {
  if (std::exchange(is_reviving_, true)) return;
  std::shared_ptr<Round> round = round_;
  const bool is_train = round->batch.kind == static_cast<uint8_t>(TrajectoryKind::train);
  begin_phase(PhaseKind::publish, [this, round, is_train] {
    begin_phase(is_train ? PhaseKind::generate : PhaseKind::evaluate, [this, round] {
      is_reviving_ = false;
      continue_round(round);
    });
  });
}

// PLACE-5: a rollout whose weights were committed in this publish serves them.
void DriverState::note_served(const PhaseReport& report) {
  if (report.kind != PhaseKind::publish) return;
  for (const Transition& transition : report.transitions)
    for (size_t replica = 0; replica < replicas_.size(); ++replica) {
      if (transition.command.verb != plan::Command::Verb::reshard ||
          transition.command.role != "actor_infer" ||
          transition.command.card != options_.rollout_cards[replica] ||
          replicas_[replica].standing != Standing::back)
        continue;
      replicas_[replica].standing = Standing::serving;
      if (replicas_[replica].attempt > 0)
        note("admitted", fmt::format("actor_infer (card {}) serves version {}",
                                     transition.command.card.value, version_));
    }
}

}  // namespace cohort::actors
