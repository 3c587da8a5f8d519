#include "tools/actor-node/step_reading.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "runtime/base/clock.hpp"
#include "tools/actor-node/run_browser.hpp"
#include "tools/traj/trajectory_page.hpp"

namespace cohort {
namespace {

constexpr size_t k_part_names_max = 64;

}  // namespace

StepReading::StepReading(uint64_t step, std::string where) : step_(step), where_(std::move(where)) {
  if (where_.empty()) return;
  auto query = query::Expression::parse(where_, query::Type::truth);
  if (query)
    query_ = std::move(*query);
  else
    error_ = query.error().detail;
}

void StepReading::follow(const StepIndex::Places& places) {
  if (!error_.empty() || std::exchange(seen_changes_, places.changes) == places.changes) return;
  left_out_ = 0;
  for (const auto& [key, info] : places.newest) {
    if (slots_.size() >= k_view_trajectories && !slots_.contains(key)) {
      ++left_out_;
      continue;
    }
    auto [slot, is_new] = slots_.try_emplace(key);
    if (!is_new && slot->second.number == info.number) continue;
    slot->second.number = info.number;
    todo_.push_back(info);
  }
}

bool StepReading::read(stream::Reader& reader, double until) {
  bool has_changed = false;
  while (!todo_.empty() && (!has_changed || now_seconds() < until)) {
    const stream::RecordInfo info = std::move(todo_.front());
    todo_.pop_front();
    has_changed = true;
    auto record = reader.read(info);
    auto x = record ? record->trajectory() : Expected<proto::Trajectory>(record.error());
    if (x)
      take(info, *x);
    else
      ++damaged_;
  }
  return has_changed;
}

void StepReading::take(const stream::RecordInfo& info, const proto::Trajectory& x) {
  Slot& slot = slots_[*info.key.trajectory];
  if (slot.number != info.number) return;  // replaced since
  slot.line.reset();
  slot.parts.clear();
  if (query_ && !query_->holds(x)) return;
  slot.line = traj::line_of(x);
  for (const proto::RewardPart& part : x.reward_parts)
    if (const uint32_t name = part_of(part.name); name < part_names_.size())
      slot.parts.emplace_back(name, part.value);
}

uint32_t StepReading::part_of(const std::string& name) {
  const auto found = std::ranges::find(part_names_, name);
  const auto place = static_cast<uint32_t>(found - part_names_.begin());
  if (found == part_names_.end() && part_names_.size() < k_part_names_max)
    part_names_.push_back(name);
  return place;
}

std::shared_ptr<const observe::StepView> StepReading::view() const {
  auto view = std::make_shared<observe::StepView>();
  view->step = step_;
  view->where = where_;
  view->error = error_;
  view->known = slots_.size();
  view->read = slots_.size() - todo_.size();
  view->damaged = damaged_;
  view->left_out = left_out_;
  view->is_whole = todo_.empty();
  std::vector<std::vector<double>> parts(part_names_.size());
  for (const auto& [key, slot] : slots_) {
    if (!slot.line) continue;
    view->lines.push_back(*slot.line);
    // The first kind is train, where the step has any of it.
    if (view->charted.empty()) view->charted = slot.line->kind;
    if (slot.line->kind != view->charted) continue;
    for (const auto& [name, value] : slot.parts) parts[name].push_back(value);
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty())
      view->reward_parts[part_names_[i]] = {std::reduce(parts[i].begin(), parts[i].end()),
                                            parts[i].size(),
                                            histogram_of(std::span<const double>(parts[i]))};
  return view;
}

}  // namespace cohort
