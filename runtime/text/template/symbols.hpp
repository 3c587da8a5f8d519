#pragma once
/// The names of one scope while they are collected, and what each is when the scope is entered.
/// One thread, one compilation.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/text/template/ast.hpp"

namespace cohort::text::jinja {

class Symbols {
 public:
  explicit Symbols(const Symbols* parent)
      : parent_(parent), level_(parent == nullptr ? 0 : parent->level_ + 1) {}

  struct Load {
    ScopePlan::Start start = ScopePlan::Start::missing;
    int outer_level = 0;  // of the scope that has it, for Start::outer
  };

  void load(const std::string& name);
  void store(const std::string& name);
  void declare_parameter(const std::string& name);
  /// Takes in what the branches of a condition, copies of this, have seen.
  void merge(const std::vector<Symbols>& branches);

  /// Returns the level of the scope that has the name, from this one outwards, or -1.
  int level_of(const std::string& name) const;
  const Symbols& at_level(int level) const;
  uint32_t slot_of(const std::string& name) const { return slots_.at(name); }
  /// Returns where a name is. REQUIRES: some scope has it and all of them have their slots.
  Place place_of(const std::string& name) const;
  /// Numbers the names and writes what they begin with.
  void assign_slots(ScopePlan& plan);
  size_t size() const { return loads_.size() + stores_.size(); }

 private:
  const Symbols* parent_;
  int level_;
  std::map<std::string, Load> loads_;
  std::set<std::string> stores_;
  std::map<std::string, uint32_t> slots_;
};

}  // namespace cohort::text::jinja
