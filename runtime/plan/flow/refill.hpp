#pragma once
/// Which group takes the place of one that a filter has left out of a step (DAPO's dynamic
/// sampling). Pure. Owner: the run, one per step of training. Bound: the groups of batches_max
/// batches.
///
/// The step's first batch has groups 0 … B-1; each belongs to a lane (its domain, or environment),
/// lane l to B_l of them. Every group left out of a lane asks for the lane's next one: its k-th,
/// counted from 0, is group B·(1 + k div B_l) + (the place in the batch of the lane's group k mod
/// B_l). What one takes the place of is not said: groups of a lane are all alike.
///
/// REFILL-1: the groups of a step are a function of the verdicts on them, not of the order in which
/// the verdicts come: of each lane the shortest beginning of its sequence with B_l kept groups, or
/// all of it. So no group is played that does not train or is not left out.
/// REFILL-2: a step has at most B_l · batches_max groups of a lane.
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/plan/run/planted.hpp"

namespace cohort::plan {

class Refill {
 public:
  /// A group that takes a place.
  struct Next {
    uint32_t group = 0;
    uint32_t lane = 0;
    bool operator==(const Next&) const = default;
  };

  /// `lanes`: of the first batch's groups. `batches_max`: the first one included; at least 1.
  Refill(std::vector<uint32_t> lanes, uint32_t batches_max, Plant plant = Plant::none);

  /// The group is left out. Returns who takes its place; nothing if the lane has no more, or the
  /// group is known to be left out.
  std::optional<Next> leave_out(uint32_t group);

  size_t groups() const { return lanes_.size() + given_; }  // of the step, those left out too
  size_t left_out() const { return left_out_.size(); }
  size_t wanted() const { return lanes_.size(); }

 private:
  std::vector<uint32_t> lanes_;  // [B]
  uint32_t batches_max_;
  Plant plant_;
  std::vector<std::vector<uint32_t>> places_;  // of each lane, in the batch
  std::vector<size_t> next_;                   // of each lane: how many took a place
  std::set<uint32_t> left_out_;
  size_t given_ = 0;
};

}  // namespace cohort::plan
