#include "runtime/plan/run/players.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace cohort::plan::run {
namespace {

std::string name_of(uint32_t card) { return fmt::format("actor_infer (card {})", card); }

bool has(const std::vector<uint32_t>& cards, uint32_t card) {
  return std::ranges::find(cards, card) != cards.end();
}

}  // namespace

Players::Players(const RunOptions& options)
    : options_(options), quarantined_(options.quarantined), slow_(options.cards.size()) {
  for (uint32_t card : options.cards) replicas_.push_back({.card = card});
}

// -- rounds

Round* Players::find(RoundKey key) {
  auto found = std::ranges::find(rounds_, key, &Round::key);
  return found == rounds_.end() ? nullptr : &*found;
}

const Round* Players::find(RoundKey key) const { return const_cast<Players*>(this)->find(key); }

void Players::open(RoundKey key, std::vector<GroupTask> tasks, uint32_t group_size,
                   uint32_t admitted, const std::vector<std::pair<uint32_t, uint32_t>>& recorded,
                   Out& out) {
  const size_t replicas = replicas_.size();
  const auto mean = static_cast<uint64_t>(std::max(1.0, response_tokens_));
  DispatchOptions dispatch;
  dispatch.replicas = static_cast<uint32_t>(replicas);
  dispatch.response_tokens_guess = mean;
  // One replica gets the whole batch at once. Several get half as much again as they run at once:
  // none waits for its next group, and all end at about the same time.
  const bool is_at_once = replicas == 1 || options_.is_scheduled;
  dispatch.open_tokens_max =
      is_at_once ? std::numeric_limits<uint64_t>::max() : options_.running_max * mean * 3 / 2;
  StragglerOptions stragglers = options_.stragglers;
  if (is_at_once) stragglers.factor = 0;
  Round opened{key,
               {},
               group_size,
               Dispatcher(dispatch),
               Suspects(static_cast<uint32_t>(tasks.size())),
               GroupClock(stragglers)};
  for (uint32_t group = 0; group < tasks.size(); ++group) {
    opened.tasks.emplace(group, std::move(tasks[group]));
    opened.held.insert(group);
  }
  // The next publish waits for an evaluation: it goes first where others are played beside it.
  const bool is_first = key.kind != TrajectoryKind::train && options_.is_flowing;
  Round& round =
      is_first ? rounds_.emplace_front(std::move(opened)) : rounds_.emplace_back(std::move(opened));
  for (auto [group, index] : recorded) admitted = std::max(admitted, group + 1);
  admit(key, admitted, out);
  for (auto [group, index] : recorded)
    if (!quarantined_.contains(round.tasks.at(group).prompt))
      round.dispatcher.end(group, index, 0, mean);
}

void Players::admit(RoundKey key, uint32_t admitted, Out& out) {
  Round* round = find(key);
  while (round != nullptr && !round->held.empty() && *round->held.begin() < admitted)
    play(*round, round->held.extract(round->held.begin()).value(), out);
}

void Players::extend(RoundKey key, std::map<uint32_t, GroupTask> groups, Out& out) {
  Round& round = *find(key);
  for (auto& [group, task] : groups) {
    round.tasks.emplace(group, std::move(task));
    play(round, group, out);
  }
}

/// The group is to be played, unless its prompt is quarantined.
void Players::play(Round& round, uint32_t group, Out& out) {
  auto found = quarantined_.find(round.tasks.at(group).prompt);
  if (found == quarantined_.end()) return round.add(group);
  out.emplace_back(Note{"skip", fmt::format("group {} of step {} is not played: its prompt {} is "
                                            "quarantined since step {} (quarantine.jsonl)",
                                            group, round.key.step, found->first, found->second)});
  mask(round, group, fmt::format("quarantined since step {}", found->second), out);
}

bool Players::can_play(uint32_t replica, TrajectoryKind kind) const {
  const Standing standing = replicas_[replica].standing;
  return standing == Standing::serving ||
         (standing == Standing::back && kind == TrajectoryKind::warm_start);
}

size_t Players::open_groups(uint32_t replica) const {
  size_t count = 0;
  for (const Round& round : rounds_) count += round.dispatcher.open_groups(replica);
  return count;
}

bool Players::is_played(RoundKey key) const {
  return find(key)->held.empty() && find(key)->dispatcher.is_done();
}

// A lease that was cancelled is open until its replica has said so.
bool Players::is_quiet(RoundKey key) const {
  const auto is_of = [key](const auto& each) { return each.second.round == key; };
  return find(key)->questions == 0 && std::ranges::none_of(leases_, is_of);
}

bool Players::is_stranded(RoundKey key) const {
  if (key.kind == TrajectoryKind::warm_start || is_played(key)) return false;
  for (uint32_t replica = 0; replica < replicas_.size(); ++replica)
    if (can_play(replica, key.kind)) return false;
  return is_idle() && find(key)->questions == 0;
}

void Players::end_playing(RoundKey key, Out& out) {
  Round& round = *find(key);
  std::vector<bool> has_played(replicas_.size(), false);
  for (const auto& [group, replica] : round.first_on) has_played[replica] = true;
  round.first_on.clear();  // what is played in the place of groups is a round by itself
  for (size_t replica : slow_.end_round(has_played))
    out.emplace_back(
        Note{"straggler", fmt::format("{} was outrun in {} rounds in a row: it gets no groups for "
                                      "{} rounds, unless nobody else can play",
                                      name_of(replicas_[replica].card), SlowReplicas::k_rounds,
                                      SlowReplicas::k_rest_rounds)});
  response_tokens_ = static_cast<double>(round.response_tokens) /
                     std::max(1.0, static_cast<double>(round.tasks.size()) * round.group_size);
}

void Players::collected(RoundKey key, Out& out) {
  Round& round = *find(key);
  round.is_collected = true;
  for (auto& [number, lease] : leases_) {
    if (lease.round != key || std::exchange(lease.is_cancelled, true)) continue;
    for (const DispatchPart& part : lease.parts)
      for (uint32_t index : part.indices) round.dispatcher.end(part.group, index, lease.replica, 0);
    const auto group = static_cast<uint32_t>(lease.parts.front().group);
    out.emplace_back(Cancel{lease.replica, number, key, group});
  }
}

void Players::close(RoundKey key, Out& out) {
  rounds_.erase(std::ranges::find(rounds_, key, &Round::key));
  end_leaves(out);
}

// -- leases

// The rounds in order: a later one gets what the earlier ones leave.
void Players::hand_out(double now, Out& out) {
  for (Round& round : rounds_) {
    if (round.is_collected || !is_floor_open(round.key.kind)) continue;
    if (round.questions > 0) return;
    choose_players(round);
    const std::vector<DispatchPart> parts = round.dispatcher.assign();
    if (replicas_.size() == 1) lease(round, parts, now, out);
    for (const DispatchPart& part : parts) {
      if (replicas_.size() > 1) lease(round, {part}, now, out);
      round.clock.opened(part.group, now);
      round.first_on[static_cast<uint32_t>(part.group)] = part.replica;
    }
    if (round.dispatcher.waiting_groups() > 0) return;
  }
}

// Who cannot play gets nothing, and who rests, if another can. What a rested one has it plays.
void Players::choose_players(Round& round) {
  std::vector<uint32_t> able;
  for (uint32_t replica = 0; replica < replicas_.size(); ++replica)
    if (can_play(replica, round.key.kind)) able.push_back(replica);
  const bool may_rest =
      std::ranges::any_of(able, [this](uint32_t replica) { return !slow_.is_resting(replica); });
  for (uint32_t replica = 0; replica < replicas_.size(); ++replica) {
    const bool is_player = has(able, replica) && !(may_rest && slow_.is_resting(replica));
    if (is_player)
      round.dispatcher.restore(replica);
    else if (round.dispatcher.open_groups(replica) == 0)
      round.dispatcher.lose(replica);
  }
}

void Players::lease(Round& round, const std::vector<DispatchPart>& parts, double now, Out& out) {
  for (const auto& together : pack_leases(round, parts, options_.lease_trajectory_bytes))
    lease_one(round, together, now, out);
}

void Players::lease_one(Round& round, const std::vector<DispatchPart>& parts, double now,
                        Out& out) {
  const uint32_t replica = parts.front().replica;
  const auto first = static_cast<uint32_t>(parts.front().group);
  Lease lease;
  lease.number = ++last_lease_;
  lease.replica = replica;
  lease.round = round.key;
  lease.attempt = options_.attempt + round.attempts[first];
  lease.group_size = round.group_size;
  lease.version = version_;
  bool is_whole = true;
  for (const DispatchPart& part : parts) {
    lease.groups.push_back(static_cast<uint32_t>(part.group));
    lease.tasks.push_back(round.tasks.at(static_cast<uint32_t>(part.group)));
    lease.indices.push_back(part.indices);
    is_whole = is_whole && part.indices.size() == round.group_size;
  }
  if (is_whole) lease.indices.clear();
  moved(replica, now);
  if (round.suspects.is_isolated(first)) judge(replica, Judgement::alone, {}, out);
  leases_.emplace(lease.number, OpenLease{replica, round.key, parts});
  out.emplace_back(std::move(lease));
}

void Players::on_ended(const LeaseEnded& ended, double now, Out& out) {
  auto found = leases_.find(ended.number);
  if (found == leases_.end()) return;
  const OpenLease lease = std::move(found->second);
  leases_.erase(found);
  Round* open = find(lease.round);
  if (lease.is_cancelled || open == nullptr) return;
  Round& round = *open;
  const uint64_t each =
      std::max<uint64_t>(1, ended.response_tokens / std::max<uint64_t>(1, ended.trajectories));
  moved(lease.replica, now);
  bool is_first = false;
  for (const DispatchPart& part : lease.parts) {
    if (round.suspects.is_isolated(part.group)) judge(lease.replica, Judgement::shared, {}, out);
    round.suspects.acquit(part.group);
    is_first = take_end(round, lease.replica, part, each, now, out) || is_first;
  }
  if (is_first) round.response_tokens += ended.response_tokens;
  end_leaves(out);
}

// The first to end a group has played it; the others need not go on.
bool Players::take_end(Round& round, uint32_t replica, const DispatchPart& part, uint64_t tokens,
                       double now, Out& out) {
  bool is_first = false;
  std::set<uint32_t> others;
  for (uint32_t index : part.indices) {
    const DispatchEnd end = round.dispatcher.end(part.group, index, replica, tokens);
    is_first = is_first || end.is_first;
    others.insert(end.still_on.begin(), end.still_on.end());
  }
  if (!is_first) return false;
  const auto group = static_cast<uint32_t>(part.group);
  round.played_by[group] = replica;
  round.clock.ended(group, now);
  for (uint32_t other : others) {
    cancel(round, group, other, out);
    if (round.first_on[group] == other) slow_.outrun(other);
  }
  return true;
}

void Players::cancel(const Round& round, uint32_t group, uint32_t replica, Out& out) {
  for (auto& [number, lease] : leases_) {
    if (lease.replica != replica || lease.round != round.key || lease.is_cancelled ||
        lease.parts.front().group != group)
      continue;
    lease.is_cancelled = true;
    const bool is_named = options_.plant != Plant::cancel_by_group;
    out.emplace_back(Cancel{replica, is_named ? number : 0, round.key, group});
  }
}

// What has no answer in time does not come back by itself. What was cancelled another has played,
// or another lease of that replica says what is wrong.
std::optional<Failure> Players::on_failed(const LeaseFailed& failed, Out& out) {
  auto found = leases_.find(failed.number);
  if (found == leases_.end()) return std::nullopt;
  const OpenLease& lease = found->second;
  const uint32_t replica = lease.replica;
  if (failed.error.code == Errc::cancelled) {
    if (lease.is_cancelled) leases_.erase(found);
    return std::nullopt;
  }
  if (failed.error.code == Errc::timeout)
    judge(replica, Judgement::hung, "does not answer: " + failed.error.detail, out);
  return Failure{name_of(replicas_[replica].card),
                 {},
                 failed.error.to_string(),
                 failed.error.code == Errc::closed,
                 false};
}

// A replica that has run dry plays what is late elsewhere too; under strict determinism it comes
// out the same.
void Players::hedge_late(Round& round, double now, Out& out) {
  if (round.is_collected || round.questions > 0 || !is_floor_open(round.key.kind)) return;
  for (uint64_t group : round.clock.late(now)) {
    std::optional<DispatchPart> part = round.dispatcher.hedge(group);
    if (!part) continue;
    out.emplace_back(Note{
        "hedge", fmt::format("group {} of step {} takes long (the median is {:.2f} s): {} plays it "
                             "too",
                             group, round.key.step, round.clock.median_s(),
                             name_of(replicas_[part->replica].card))});
    ++round.attempts[static_cast<uint32_t>(group)];
    lease(round, {*part}, now, out);
  }
}

// -- losses

void Players::on_lost(const CardsLost& lost, Out& out) {
  out.emplace_back(Note{lost.is_away ? "away" : "lost", lost.text});
  Loss loss;
  loss.death.text = lost.text;
  loss.is_away = lost.is_away;
  for (uint32_t i = 0; i < replicas_.size(); ++i) {
    Replica& replica = replicas_[i];
    if (!has(lost.cards, replica.card) || replica.standing == Standing::lost) continue;
    replica.standing = Standing::lost;
    ++replica.times_lost;
    if (loss.replicas.empty()) loss.death.card = replica.card;
    loss.replicas.push_back(i);
    std::erase_if(leases_, [i](const auto& each) { return each.second.replica == i; });
    std::erase_if(pings_, [i](const auto& each) { return each.second.replica == i; });
  }
  if (!loss.replicas.empty())
    for (Round& round : rounds_) play_again(round, loss, out);
  end_leaves(out);
}

// What it played and what it had open: the stream says which of it is safe. What is still on its
// way there, acknowledged by nobody, comes twice.
void Players::play_again(Round& round, Loss loss, Out& out) {
  loss.round = round.key;
  for (uint32_t replica : loss.replicas) {
    for (uint64_t group : round.dispatcher.groups_on(replica))
      loss.open.push_back(static_cast<uint32_t>(group));
    for (const DispatchPart& part : round.dispatcher.lose(replica)) {
      loss.again.push_back(static_cast<uint32_t>(part.group));
      round.clock.closed(part.group);
    }
    for (const auto& [group, by] : round.played_by)
      if (by == replica && !has(loss.open, group)) loss.ended.push_back(group);
  }
  ++round.questions;
  out.emplace_back(AskRecorded{++last_question_, round.key});
  questions_.emplace(last_question_, std::move(loss));
}

std::optional<Failure> Players::on_recorded(const Recorded& recorded, Out& out) {
  auto asked = questions_.extract(recorded.question);
  if (asked.empty()) return std::nullopt;
  const Loss loss = std::move(asked.mapped());
  Round& round = *find(loss.round);
  --round.questions;
  if (recorded.is_over) return std::nullopt;    // all of it is in the stream
  std::map<uint32_t, std::set<uint32_t>> safe;  // index by group
  for (auto [group, index] : recorded.trajectories) safe[group].insert(index);
  const auto is_safe = [&](uint32_t group) { return safe[group].size() == round.group_size; };
  std::vector<uint32_t> groups = loss.again;
  for (uint32_t group : loss.ended) {
    if (is_safe(group)) continue;
    round.played_by.erase(group);
    round.add(group);
    groups.push_back(group);
  }
  uint64_t kept = 0;
  const auto expected = static_cast<uint64_t>(std::max(1.0, response_tokens_));
  for (uint32_t group : groups) {
    ++round.attempts[group];
    for (uint32_t index : safe[group]) {
      round.dispatcher.end(group, index, loss.replicas.front(), expected);
      ++kept;
    }
  }
  if (!groups.empty())
    out.emplace_back(
        Note{"requeue", fmt::format("{} groups of {} are played again; {} of their {} trajectories "
                                    "are in the stream already",
                                    groups.size(), name_of(loss.death.card), kept,
                                    groups.size() * round.group_size)});
  std::set<uint64_t> open;  // two replicas of the process may have had one group
  for (uint32_t group : loss.open)
    if (!is_safe(group)) open.insert(group);
  if (loss.is_away) return std::nullopt;
  return blame(round, loss.death, {open.begin(), open.end()}, out);
}

// What is left of `open` was being played when the process died.
std::optional<Failure> Players::blame(Round& round, const Death& death,
                                      const std::vector<uint64_t>& open, Out& out) {
  const Suspects::Verdict verdict = round.suspects.blame(open, death);
  for (uint64_t group : open)
    if (round.suspects.is_isolated(group)) round.dispatcher.isolate(group);
  if (!verdict.isolated.empty())
    out.emplace_back(
        Note{"suspects",
             fmt::format("{} groups of step {} were open at {} losses each: from now "
                         "on each is played alone",
                         verdict.isolated.size(), round.key.step, Suspects::k_shared_losses)});
  if (!verdict.convicted) return std::nullopt;
  return quarantine(round, static_cast<uint32_t>(*verdict.convicted), out);
}

std::optional<Failure> Players::quarantine(Round& round, uint32_t group, Out& out) {
  const GroupTask& task = round.tasks.at(group);
  const std::vector<Death> deaths = round.suspects.deaths_of(group);
  out.emplace_back(Quarantine{
      round.key, group, task, deaths,
      fmt::format("prompt {} ({}, step {}, group {}) is quarantined: {} processes have ended while "
                  "they played it, the last {} played nothing else; the last: {}",
                  task.prompt, to_string(round.key.kind), round.key.step, group, deaths.size(),
                  Suspects::k_alone_losses, deaths.back().text)});
  quarantined_[task.prompt] = round.key.step;
  if (round.suspects.is_over_limit())
    return Failure{"actor_infer",
                   {},
                   fmt::format("{} of {} groups of step {} have ended the processes that played "
                               "nothing else, {} at most are quarantined: this is no matter of "
                               "single prompts; the last: {}",
                               round.suspects.convicted(), round.tasks.size(), round.key.step,
                               round.suspects.limit(), deaths.back().text)};
  // The losses before it was played alone have counted.
  for (size_t i = 0; i < Suspects::k_shared_losses; ++i)
    out.emplace_back(Judge{deaths[i].card, Judgement::pardon});
  for (uint32_t index = 0; index < round.group_size; ++index)
    round.dispatcher.end(group, index, 0, static_cast<uint64_t>(response_tokens_));
  mask(round, group,
       fmt::format("quarantined: {} processes have ended while they played it", deaths.size()),
       out);
  return std::nullopt;
}

void Players::mask(Round& round, uint32_t group, std::string reason, Out& out) {
  ++round.questions;
  out.emplace_back(Mask{round.key, group, round.tasks.at(group), version_, std::move(reason)});
}

void Players::on_masked(const Masked& masked) {
  if (Round* round = find(masked.round); round != nullptr && round->questions > 0)
    --round->questions;
}

// -- replicas that come, go, or stand still

void Players::on_back(const CardsBack& back, Out& out) {
  for (uint32_t card : back.references)
    out.emplace_back(
        Note{"restart",
             fmt::format("reference or teacher (card {}) is there again, with its weights", card)});
  for (uint32_t card : back.rollouts)
    for (uint32_t i = 0; i < replicas_.size(); ++i) {
      if (replicas_[i].card != card) continue;
      replicas_[i].standing = Standing::back;
      slow_.renew(i);
      out.emplace_back(Note{"restart", name_of(card) + " is there again, without weights"});
    }
}

// PLACE-5: a rollout whose weights were committed in this publish serves them.
void Players::on_served(const std::vector<uint32_t>& cards, uint64_t version, Out& out) {
  version_ = version;
  for (Replica& replica : replicas_) {
    if (!has(cards, replica.card) || replica.standing != Standing::back) continue;
    replica.standing = Standing::serving;
    if (replica.times_lost > 0)
      out.emplace_back(
          Note{"admitted", fmt::format("{} serves version {}", name_of(replica.card), version)});
  }
}

// What it plays it plays to the end, within `wait_s`; the rest, and what is not in the stream by
// then, goes to others when the node says that it is lost.
void Players::on_leave(const LeaveAsked& leave, double now, Out& out) {
  const auto is_other = [&](const Replica& replica) {
    return replica.standing == Standing::serving && !has(leave.cards, replica.card);
  };
  if (std::ranges::none_of(replicas_, is_other)) {
    out.emplace_back(AnswerLeave{
        leave.number, Error{Errc::invalid_argument,
                            leave.text + ": no other replica of actor_infer serves at the moment: "
                                         "try again after the next step"}});
    return;
  }
  out.emplace_back(Note{"leave", leave.text});
  Leave& going = leaves_[leave.number];
  going.until = now + leave.wait_s;
  for (uint32_t i = 0; i < replicas_.size(); ++i) {
    if (!has(leave.cards, replicas_[i].card) || replicas_[i].standing == Standing::lost) continue;
    replicas_[i].standing = Standing::leaving;
    going.replicas.push_back(i);
    for (Round& round : rounds_) round.dispatcher.retire(i);
  }
  end_leaves(out);
}

void Players::end_leaves(Out& out) {
  std::erase_if(leaves_, [&](const auto& leave) {
    const bool is_over = std::ranges::all_of(
        leave.second.replicas, [this](uint32_t replica) { return open_groups(replica) == 0; });
    if (is_over) out.emplace_back(AnswerLeave{leave.first});
    return is_over;
  });
}

void Players::judge(uint32_t replica, Judgement judgement, std::string text, Out& out) {
  out.emplace_back(Judge{replicas_[replica].card, judgement, std::move(text)});
}

/// Returns how often leases are looked at; nothing if nobody is ever late or hung.
std::optional<double> Players::ping_period_s() const {
  constexpr double k_hedge_period_s = 0.25;
  const bool has_hedges = replicas_.size() > 1 && options_.stragglers.factor > 0;
  const double period = options_.group_timeout_s / k_pings_per_limit;
  if (has_hedges) return period > 0 ? std::min(period, k_hedge_period_s) : k_hedge_period_s;
  return period > 0 ? std::optional<double>(period) : std::nullopt;
}

void Players::look_later(double now) {
  if (auto period = ping_period_s(); period && !ping_at_) ping_at_ = now + *period;
}

void Players::moved(uint32_t replica, double now) {
  replicas_[replica].moved = now;
  look_later(now);
}

void Players::on_time(double now, Out& out) {
  std::erase_if(leaves_, [&](const auto& leave) {
    if (leave.second.until > now) return false;
    out.emplace_back(AnswerLeave{leave.first});
    return true;
  });
  if (!ping_at_ || *ping_at_ > now) return;
  ping_at_.reset();
  for (Round& round : rounds_) hedge_late(round, now, out);
  ping(now, out);
}

// Each rollout that has groups open says a number that rises while it gets on. One that says
// nothing stands still too.
void Players::ping(double now, Out& out) {
  const double limit = options_.group_timeout_s;
  std::erase_if(pings_, [&](const auto& each) { return now - each.second.asked > limit; });
  for (uint32_t i = 0; i < replicas_.size(); ++i) {
    Replica& replica = replicas_[i];
    const auto open =
        std::ranges::count_if(leases_, [i](const auto& each) { return each.second.replica == i; });
    if (open == 0) continue;
    look_later(now);
    if (limit <= 0 || now - replica.asked < limit / k_pings_per_limit) continue;
    replica.asked = now;
    if (now - replica.moved > limit) {
      replica.moved = now;
      judge(i, Judgement::hung,
            fmt::format("has leases open, {}, and has not got on with them for {} s "
                        "(recovery.group_timeout_s)",
                        open, limit),
            out);
      continue;
    }
    pings_.emplace(++last_ping_, AskedPing{i, now});
    out.emplace_back(Ping{last_ping_, i, limit});
  }
}

void Players::on_pong(const Pong& pong, double now) {
  auto asked = pings_.extract(pong.number);
  if (asked.empty()) return;
  Replica& replica = replicas_[asked.mapped().replica];
  if (std::exchange(replica.done, pong.done) != pong.done) replica.moved = now;
}

std::optional<double> Players::due() const {
  std::optional<double> at = ping_at_;
  for (const auto& [number, leave] : leaves_) at = std::min(leave.until, at.value_or(leave.until));
  return at;
}

void Players::assert_invariants() const {
  for (const Round& round : rounds_) {
    round.dispatcher.assert_invariants();
    for (uint32_t replica = 0; replica < replicas_.size(); ++replica)
      for (uint64_t group : round.dispatcher.groups_on(replica)) {
        const bool is_leased = std::ranges::any_of(leases_, [&](const auto& each) {
          const OpenLease& lease = each.second;
          return !lease.is_cancelled && lease.replica == replica && lease.round == round.key &&
                 std::ranges::find(lease.parts, group, &DispatchPart::group) != lease.parts.end();
        });
        COHORT_CHECK(is_leased, "LEASE-1: a group is open on a replica without a lease");
      }
  }
  for (const auto& [number, lease] : leases_)
    COHORT_CHECK(replicas_[lease.replica].standing != Standing::lost && number <= last_lease_,
                 "LEASE-1: a lease of a replica that is lost");
}

}  // namespace cohort::plan::run
