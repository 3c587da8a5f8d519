#include "runtime/plan/flow/dispatch.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/base/check.hpp"

namespace cohort::plan {
namespace {

// The mean follows the last few hundred trajectories: lengths drift from step to step.
constexpr uint32_t k_mean_weight_max = 256;

}  // namespace

Dispatcher::Dispatcher(const DispatchOptions& options)
    : options_(options), replicas_(options.replicas) {}

// -- the books

uint64_t Dispatcher::tokens_of(const Group& group) const {
  return group.left.size() * (std::max(group.expected, uint64_t{1}) + group.spec.prompt_tokens);
}

/// Brings the books up to date after the group has changed.
void Dispatcher::count(Group& group) {
  if (!group.replica) {
    leave_queue(group);
    return wait(group);
  }
  const uint64_t before = group.tokens;
  group.tokens = tokens_of(group);
  for (const auto& holder : {group.replica, group.second})
    if (holder) replicas_[*holder].outstanding += group.tokens - before;  // wraps, as it must
}

void Dispatcher::learn(uint64_t sampled) {
  mean_weight_ = std::min(mean_weight_ + 1, k_mean_weight_max);
  response_mean_ += (static_cast<double>(sampled) - response_mean_) / mean_weight_;
}

void Dispatcher::wait(Group& group) {
  group.expected = group.spec.response_tokens;
  if (group.expected == 0)
    group.expected = mean_weight_ == 0 ? options_.response_tokens_guess
                                       : static_cast<uint64_t>(response_mean_ + 0.5);
  group.tokens = tokens_of(group);
  waiting_.insert({group.tokens, group.spec.id});
}

void Dispatcher::leave_queue(const Group& group) { waiting_.erase({group.tokens, group.spec.id}); }

void Dispatcher::hold(const Group& group, uint32_t replica) {
  replicas_[replica].outstanding += group.tokens;
  replicas_[replica].groups.insert(group.spec.id);
}

void Dispatcher::drop(const Group& group, uint32_t replica) {
  replicas_[replica].outstanding -= group.tokens;
  replicas_[replica].groups.erase(group.spec.id);
}

void Dispatcher::open(Group& group, uint32_t replica) {
  group.replica = replica;
  hold(group, replica);
  homes_[group.spec.prompt].replica = replica;
}

DispatchPart Dispatcher::part_of(const Group& group, uint32_t replica) const {
  return {group.spec.id, replica, {group.left.begin(), group.left.end()}};
}

/// The group waits again; its next replica begins anew with the trajectories that had not ended.
DispatchPart Dispatcher::take_back(Group& group) {
  DispatchPart part = part_of(group, *group.replica);
  drop(group, *group.replica);
  group.replica.reset();
  wait(group);
  return part;
}

void Dispatcher::forget(Groups::iterator it) {
  Group& group = it->second;
  if (!group.replica) leave_queue(group);
  for (const auto& holder : {group.replica, group.second})
    if (holder) drop(group, *holder);
  auto home = homes_.find(group.spec.prompt);
  if (--home->second.groups == 0) homes_.erase(home);
  groups_.erase(it);
}

// -- decisions

/// Returns the living replica with the least outstanding tokens, the first of equals.
std::optional<uint32_t> Dispatcher::lightest() const {
  std::optional<uint32_t> best;
  for (uint32_t r = 0; r < replicas_.size(); ++r) {
    if (!replicas_[r].takes_work()) continue;
    if (!best || replicas_[r].outstanding < replicas_[*best].outstanding) best = r;
  }
  return best;
}

std::optional<uint32_t> Dispatcher::place(const Group& group) const {
  const std::optional<uint32_t> best = lightest();
  if (!best) return {};
  const std::optional<uint32_t> home = homes_.at(group.spec.prompt).replica;
  const bool is_usable = home && replicas_[*home].takes_work() &&
                         replicas_[*home].outstanding < options_.open_tokens_max;
  if (is_usable &&
      replicas_[*home].outstanding <= replicas_[*best].outstanding + options_.affinity_tokens)
    return home;
  if (replicas_[*best].outstanding >= options_.open_tokens_max) return {};
  return best;
}

Expected<void> Dispatcher::add(const DispatchGroup& spec) {
  if (spec.trajectories == 0)
    return Error{Errc::invalid_argument,
                 "dispatch: group " + std::to_string(spec.id) + " has no trajectories"};
  auto [it, is_new] = groups_.try_emplace(spec.id);
  if (!is_new)
    return Error{Errc::invalid_argument,
                 "dispatch: group " + std::to_string(spec.id) + " is not over yet"};
  Group& group = it->second;
  group.spec = spec;
  for (uint32_t index = 0; index < spec.trajectories; ++index) group.left.insert(index);
  ++homes_[spec.prompt].groups;
  wait(group);
  return {};
}

void Dispatcher::isolate(uint64_t id) {
  auto it = groups_.find(id);
  if (it != groups_.end() && !it->second.replica) it->second.is_alone = true;
}

/// Returns how many groups are open, and whether one of them is played alone.
std::pair<size_t, bool> Dispatcher::open_now() const {
  size_t count = 0;
  bool is_alone = false;
  for (const Replica& replica : replicas_)
    for (uint64_t id : replica.groups) {
      ++count;
      is_alone = is_alone || groups_.at(id).is_alone;
    }
  return {count, is_alone};
}

// Those that are played alone come last, one by one.
std::vector<DispatchPart> Dispatcher::assign() {
  std::vector<DispatchPart> parts;
  const auto [open_before, is_alone_open] = open_now();
  if (is_alone_open) return parts;
  auto open_count = open_before;  // clang 14 captures no structured binding
  const auto has_room = [this] {
    return std::any_of(replicas_.begin(), replicas_.end(), [this](const Replica& r) {
      return r.takes_work() && r.outstanding < options_.open_tokens_max;
    });
  };
  const auto give = [&](Group& group) {
    const std::optional<uint32_t> replica = place(group);
    if (!replica) return false;
    open(group, *replica);
    ++open_count;
    parts.push_back(part_of(group, *replica));
    return true;
  };
  for (auto it = waiting_.begin(); it != waiting_.end() && has_room();) {
    Group& group = groups_.at(it->group);
    const bool is_given = !group.is_alone && give(group);
    it = is_given ? waiting_.erase(it) : std::next(it);
  }
  if (open_count == 0 && !waiting_.empty() && give(groups_.at(waiting_.begin()->group)))
    waiting_.erase(waiting_.begin());
  return parts;
}

// -- what replicas report

DispatchEnd Dispatcher::end(uint64_t id, uint32_t index, uint32_t replica, uint64_t sampled) {
  auto it = groups_.find(id);
  if (it == groups_.end() || it->second.left.erase(index) == 0) return {};
  Group& group = it->second;
  DispatchEnd result{true, {}};
  for (const auto& holder : {group.replica, group.second})
    if (holder && *holder != replica) result.still_on.push_back(*holder);
  learn(sampled);
  if (group.left.empty())
    forget(it);
  else
    count(group);
  return result;
}

std::vector<DispatchPart> Dispatcher::lose(uint32_t replica) {
  std::vector<DispatchPart> parts;
  Replica& lost = replicas_.at(replica);
  lost.is_alive = false;
  while (!lost.groups.empty()) {
    Group& group = groups_.at(*lost.groups.begin());
    if (!group.second) {
      parts.push_back(take_back(group));
      continue;
    }
    drop(group, replica);
    if (group.replica == replica) group.replica = group.second;
    group.second.reset();
  }
  return parts;
}

void Dispatcher::retire(uint32_t replica) { replicas_.at(replica).is_retired = true; }

void Dispatcher::restore(uint32_t replica) {
  replicas_.at(replica).is_alive = true;
  replicas_.at(replica).is_retired = false;
}

std::optional<DispatchPart> Dispatcher::hedge(uint64_t id) {
  auto it = groups_.find(id);
  if (it == groups_.end() || !waiting_.empty()) return {};
  Group& group = it->second;
  if (!group.replica || group.second || group.is_alone) return {};
  const auto is_free = [&](uint32_t r) {
    return replicas_[r].takes_work() && r != group.replica &&
           replicas_[r].outstanding < options_.open_tokens_max &&
           std::ranges::all_of(replicas_[r].groups,
                               [&](uint64_t other) { return groups_.at(other).second == r; });
  };
  std::optional<uint32_t> best;
  for (uint32_t r = 0; r < replicas_.size(); ++r)
    if (is_free(r) && (!best || replicas_[r].outstanding < replicas_[*best].outstanding)) best = r;
  if (!best) return {};
  group.second = best;
  hold(group, *best);
  return part_of(group, *best);
}

uint64_t Dispatcher::outstanding(uint32_t replica) const {
  return replicas_.at(replica).outstanding;
}

const std::set<uint64_t>& Dispatcher::groups_on(uint32_t replica) const {
  return replicas_.at(replica).groups;
}

void Dispatcher::assert_invariants() const {
  std::vector<uint64_t> sums(replicas_.size(), 0);
  std::vector<size_t> counts(replicas_.size(), 0);
  size_t queued = 0;
  for (const auto& [id, group] : groups_) {
    COHORT_CHECK(!group.left.empty(), "DISPATCH-1: a group that is over is kept");
    COHORT_CHECK(group.tokens == tokens_of(group), "DISPATCH-3: a group's tokens are out of date");
    const bool is_waiting = waiting_.contains({group.tokens, id});
    COHORT_CHECK(is_waiting != group.replica.has_value(), "DISPATCH-1: a group is in two places");
    if (is_waiting) ++queued;
    COHORT_CHECK(!group.second || (group.replica && group.replica != group.second),
                 "DISPATCH-1: a group is hedged with itself");
    for (const auto& holder : {group.replica, group.second}) {
      if (!holder) continue;
      COHORT_CHECK(replicas_[*holder].is_alive, "DISPATCH-1: a group is on a dead replica");
      COHORT_CHECK(replicas_[*holder].groups.contains(id), "DISPATCH-1: a group is lost");
      sums[*holder] += group.tokens;
      ++counts[*holder];
    }
  }
  COHORT_CHECK(queued == waiting_.size(), "DISPATCH-1: the queue holds a group that is not there");
  const auto [open_count, is_alone_open] = open_now();
  COHORT_CHECK(!is_alone_open || open_count == 1, "DISPATCH-6: a group that is not played alone");
  for (size_t r = 0; r < replicas_.size(); ++r)
    COHORT_CHECK(sums[r] == replicas_[r].outstanding && counts[r] == replicas_[r].groups.size(),
                 "DISPATCH-3: a replica's books do not add up");
}

}  // namespace cohort::plan
