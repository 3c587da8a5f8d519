#include "runtime/plan/flow/collector.hpp"

#include <algorithm>
#include <set>

#include "runtime/base/text.hpp"

namespace cohort::plan {
namespace {

StepKey step_of(const TrajectoryKey& key) { return {key.kind, key.step}; }

std::string describe(StepKey step) {
  return "step " + std::to_string(step.step) + " of kind " + std::string(to_string(step.kind));
}

}  // namespace

Expected<void> Collector::open_step(StepKey step, uint32_t groups, uint32_t group_size) {
  if (groups == 0 || group_size == 0)
    return Error{Errc::invalid_argument, "collector: " + describe(step) + " would have " +
                                             std::to_string(groups) + " groups of " +
                                             std::to_string(group_size)};
  if (auto last = last_opened_.find(step.kind);
      last != last_opened_.end() && step.step <= last->second)
    return Error{Errc::invalid_argument, "collector: " + describe(step) +
                                             " is not above the last one opened, " +
                                             std::to_string(last->second)};
  if (steps_.size() >= max_open_steps_)
    return Error{Errc::backpressure, "collector: " + describe(step) + ": " +
                                         std::to_string(steps_.size()) + " steps are open already"};
  Step state;
  state.groups = groups;
  state.group_size = group_size;
  state.places.assign(size_t{groups} * group_size, Place::missing);
  state.group_count.assign(groups, 0);
  state.expected = state.places.size();
  steps_.emplace(step, std::move(state));
  last_opened_[step.kind] = step.step;
  return {};
}

Expected<void> Collector::extend_step(StepKey key, const std::vector<uint32_t>& groups) {
  auto found = steps_.find(key);
  if (found == steps_.end())
    return Error{Errc::not_found, "collector: " + describe(key) + " is not open"};
  Step& step = found->second;
  std::set<uint32_t> fresh;
  for (uint32_t group : groups)
    if ((group < step.groups && step.places[size_t{group} * step.group_size] != Place::gap) ||
        !fresh.insert(group).second)
      return Error{Errc::invalid_argument, "collector: " + describe(key) + " has group " +
                                               std::to_string(group) + " already"};
  for (uint32_t group : fresh) {
    if (group >= step.groups) {
      step.groups = group + 1;
      step.places.resize(size_t{step.groups} * step.group_size, Place::gap);
      step.group_count.resize(step.groups, 0);
    }
    const auto first =
        step.places.begin() + static_cast<ptrdiff_t>(size_t{group} * step.group_size);
    std::fill_n(first, step.group_size, Place::missing);
    step.expected += step.group_size;
  }
  return {};
}

Verdict Collector::offer(const TrajectoryKey& key, uint32_t) {
  auto found = steps_.find(step_of(key));
  if (found == steps_.end()) {
    auto last = last_opened_.find(key.kind);
    bool is_past = last != last_opened_.end() && key.step <= last->second;
    return is_past ? Verdict::late : Verdict::unknown;
  }
  Step& step = found->second;
  if (key.group >= step.groups || key.index >= step.group_size) return Verdict::unknown;
  Place& place = step.places[size_t{key.group} * step.group_size + key.index];
  if (place == Place::gap) return Verdict::unknown;
  if (place == Place::accepted)
    return plant_ == Plant::dedupe_off ? Verdict::accepted : Verdict::duplicate;
  place = Place::accepted;
  ++step.group_count[key.group];
  ++step.count;
  ++accepted_total_;
  return Verdict::accepted;
}

const Collector::Step* Collector::find(StepKey step) const {
  auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

bool Collector::is_step_complete(StepKey step) const {
  const Step* state = find(step);
  return state && state->count == state->expected;
}

std::pair<uint64_t, uint64_t> Collector::progress(StepKey step) const {
  const Step* state = find(step);
  return state ? std::pair<uint64_t, uint64_t>{state->count, state->expected}
               : std::pair<uint64_t, uint64_t>{0, 0};
}

std::vector<TrajectoryKey> Collector::missing(StepKey step, size_t limit) const {
  std::vector<TrajectoryKey> keys;
  const Step* state = find(step);
  if (!state) return keys;
  for (size_t i = 0; i < state->places.size() && keys.size() < limit; ++i)
    if (state->places[i] == Place::missing)
      keys.push_back({step.kind, step.step, static_cast<uint32_t>(i / state->group_size),
                      static_cast<uint32_t>(i % state->group_size)});
  return keys;
}

Expected<std::vector<TrajectoryKey>> Collector::close_step(StepKey step) {
  const Step* state = find(step);
  if (!state) return Error{Errc::not_found, "collector: " + describe(step) + " is not open"};
  if (state->count != state->expected) {
    std::string text = "collector: " + describe(step) + " has " + std::to_string(state->count) +
                       " of " + std::to_string(state->expected) + " trajectories; missing";
    for (const TrajectoryKey& key : missing(step, 4))
      text += " (group " + std::to_string(key.group) + ", index " + std::to_string(key.index) + ")";
    return Error{Errc::invalid_argument, text};
  }
  std::vector<TrajectoryKey> keys;
  keys.reserve(state->expected);
  for (uint32_t group = 0; group < state->groups; ++group)
    for (uint32_t index = 0; index < state->group_size; ++index)
      if (state->places[size_t{group} * state->group_size + index] != Place::gap)
        keys.push_back({step.kind, step.step, group, index});
  closed_total_ += state->count;
  steps_.erase(step);
  return keys;
}

void Collector::assert_invariants() const {
  uint64_t open_total = 0;
  for (const auto& [key, step] : steps_) {
    COHORT_CHECK(step.places.size() == size_t{step.groups} * step.group_size,
                 "FLOW-1: " + describe(key) + " has the wrong number of places");
    uint64_t count = 0;
    const auto gaps = std::ranges::count(step.places, Place::gap);
    COHORT_CHECK(step.expected + static_cast<uint64_t>(gaps) == step.places.size(),
                 "FLOW-1: " + describe(key) + " expects another number of trajectories");
    for (uint32_t group = 0; group < step.groups; ++group) {
      auto begin = step.places.begin() + static_cast<ptrdiff_t>(size_t{group} * step.group_size);
      auto in_group =
          static_cast<uint64_t>(std::count(begin, begin + step.group_size, Place::accepted));
      COHORT_CHECK(in_group == step.group_count[group],
                   "FLOW-1: " + describe(key) + " counts a group wrongly");
      count += in_group;
    }
    COHORT_CHECK(count == step.count, "FLOW-1: " + describe(key) + " counts wrongly");
    COHORT_CHECK(last_opened_.at(key.kind) >= key.step,
                 "FLOW-1: " + describe(key) + " is above the last one opened");
    open_total += count;
  }
  COHORT_CHECK(accepted_total_ == open_total + closed_total_,
               "FLOW-1: a trajectory was accepted twice or lost");
  COHORT_CHECK(steps_.size() <= max_open_steps_, "FLOW-4: too many open steps");
}

std::string_view to_string(Verdict verdict) {
  return name_in({"accepted", "duplicate", "late", "unknown"}, verdict);
}

std::string to_text(const TrajectoryKey& key) {
  return describe(step_of(key)) + ", group " + std::to_string(key.group) + ", index " +
         std::to_string(key.index);
}

}  // namespace cohort::plan
