#include "runtime/text/template/symbols.hpp"

#include "runtime/base/check.hpp"

namespace cohort::text::jinja {

int Symbols::level_of(const std::string& name) const {
  for (const Symbols* x = this; x != nullptr; x = x->parent_)
    if (x->loads_.contains(name)) return x->level_;
  return -1;
}

const Symbols& Symbols::at_level(int level) const {
  const Symbols* x = this;
  while (x->level_ != level) x = x->parent_;
  return *x;
}

void Symbols::load(const std::string& name) {
  if (level_of(name) < 0) loads_[name] = {ScopePlan::Start::context, 0};
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (loads_.contains(name)) return;
  const int outer = parent_ == nullptr ? -1 : parent_->level_of(name);
  if (outer >= 0)
    loads_[name] = {ScopePlan::Start::outer, outer};
  else
    loads_[name] = {ScopePlan::Start::missing, 0};
}

void Symbols::declare_parameter(const std::string& name) {
  stores_.insert(name);
  loads_[name] = {ScopePlan::Start::parameter, 0};
}

void Symbols::merge(const std::vector<Symbols>& branches) {
  std::set<std::string> stored;
  for (const auto& branch : branches)
    for (const auto& name : branch.stores_)
      if (!stores_.contains(name)) stored.insert(name);
  for (const auto& branch : branches) {
    for (const auto& [name, load] : branch.loads_) loads_[name] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  // A branch may not be taken: then the name is what it was outside.
  for (const auto& name : stored) {
    const int outer = parent_ == nullptr ? -1 : parent_->level_of(name);
    if (outer >= 0)
      loads_[name] = {ScopePlan::Start::outer, outer};
    else
      loads_[name] = {ScopePlan::Start::context, 0};
  }
}

Place Symbols::place_of(const std::string& name) const {
  const int level = level_of(name);
  COHORT_CHECK(level >= 0, "a name of a template without a place: " + name);
  return {static_cast<uint32_t>(level_ - level), at_level(level).slot_of(name)};
}

void Symbols::assign_slots(ScopePlan& plan) {
  for (const auto& [name, load] : loads_) {
    ScopePlan::Slot slot{load.start, name, {}};
    if (load.start == ScopePlan::Start::outer)
      slot.outer = {static_cast<uint32_t>(level_ - load.outer_level),
                    at_level(load.outer_level).slot_of(name)};
    slots_[name] = static_cast<uint32_t>(plan.slots.size());
    plan.slots.push_back(std::move(slot));
  }
}

}  // namespace cohort::text::jinja
