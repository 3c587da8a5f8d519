// Groups that take too long where they are, and replicas that others outrun.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "actors/run/driver_actor.hpp"
#include "runtime/base/clock.hpp"

namespace cohort::actors {

using namespace control;

plan::StragglerOptions DriverState::straggler_options() const {
  const config::RecoverySection& recovery = options_.config.recovery;
  return {replicas_.size() > 1 ? recovery.straggler_factor : 0, recovery.straggler_floor_s};
}

// Who cannot play gets nothing, and who rests, if another can. What a rested one has it plays.
void DriverState::choose_players(const std::shared_ptr<Round>& round) {
  std::vector<uint32_t> able;
  for (uint32_t replica = 0; replica < replicas_.size(); ++replica)
    if (can_play(replica, round->batch.kind)) able.push_back(replica);
  const bool may_rest =
      std::ranges::any_of(able, [this](uint32_t replica) { return !slow_.is_resting(replica); });
  for (uint32_t replica = 0; replica < replicas_.size(); ++replica) {
    const bool is_player =
        std::ranges::find(able, replica) != able.end() && !(may_rest && slow_.is_resting(replica));
    if (is_player)
      round->dispatcher->restore(replica);
    else if (round->dispatcher->open_groups(replica) == 0)
      round->dispatcher->lose(replica);
  }
}

// A replica that has run dry plays what is late elsewhere too; under strict determinism it comes
// out the same.
void DriverState::hedge_late(const std::shared_ptr<Round>& round) {
  if (round->questions > 0 || is_reviving_) return;
  const double now = now_seconds();
  for (uint64_t group : round->clock.late(now)) {
    std::optional<plan::DispatchPart> part = round->dispatcher->hedge(group);
    if (!part) continue;
    note("hedge", fmt::format("group {} of step {} takes long (the median is {:.2f} s): "
                              "actor_infer (card {}) plays it too",
                              group, round->batch.step, round->clock.median_s(),
                              options_.rollout_cards[part->replica].value));
    ++round->attempts[static_cast<uint32_t>(group)];
    lease_parts(round, {*part});
  }
}

// The first to end a group has played it; the others need not go on.
bool DriverState::take_end(const std::shared_ptr<Round>& round, uint32_t replica,
                           const plan::DispatchPart& part, uint64_t tokens) {
  bool is_first = false;
  std::set<uint32_t> others;
  for (uint32_t index : part.indices) {
    const plan::DispatchEnd end = round->dispatcher->end(part.group, index, replica, tokens);
    is_first = is_first || end.is_first;
    others.insert(end.still_on.begin(), end.still_on.end());
  }
  if (!is_first) return false;
  const auto group = static_cast<uint32_t>(part.group);
  round->played_by[group] = replica;
  round->clock.ended(group, now_seconds());
  for (uint32_t other : others) {
    self_->send(replicas_[other].actor, cancel_atom_v, round->batch.kind, round->batch.step, group);
    if (round->first_on[group] == other) slow_.outrun(other);
  }
  return true;
}

void DriverState::end_of_round(const std::shared_ptr<Round>& round) {
  std::vector<bool> has_played(replicas_.size(), false);
  for (const auto& [group, replica] : round->first_on) has_played[replica] = true;
  for (size_t replica : slow_.end_round(has_played))
    note("straggler",
         fmt::format("actor_infer (card {}) was outrun in {} rounds in a row: it gets no groups "
                     "for {} rounds, unless nobody else can play",
                     options_.rollout_cards[replica].value, plan::SlowReplicas::k_rounds,
                     plan::SlowReplicas::k_rest_rounds));
}

}  // namespace cohort::actors
