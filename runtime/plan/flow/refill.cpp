#include "runtime/plan/flow/refill.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace cohort::plan {

Refill::Refill(std::vector<uint32_t> lanes, uint32_t batches_max, Plant plant)
    : lanes_(std::move(lanes)), batches_max_(batches_max), plant_(plant) {
  COHORT_CHECK(batches_max_ >= 1, "REFILL-2: a step has a batch");
  for (uint32_t place = 0; place < lanes_.size(); ++place) {
    const uint32_t lane = lanes_[place];
    if (lane >= places_.size()) places_.resize(lane + 1);
    places_[lane].push_back(place);
  }
  next_.resize(places_.size());
}

std::optional<Refill::Next> Refill::leave_out(uint32_t group) {
  if (!left_out_.insert(group).second) return std::nullopt;
  const uint32_t lane = lanes_[group % lanes_.size()];
  const std::vector<uint32_t>& places = places_[lane];
  if (next_[lane] >= places.size() * (batches_max_ - 1)) return std::nullopt;
  const size_t number = next_[lane]++;
  ++given_;
  if (plant_ == Plant::refill_by_arrival)
    return Next{static_cast<uint32_t>(lanes_.size() + given_ - 1), lane};
  const size_t batch = 1 + number / places.size();
  return Next{static_cast<uint32_t>(batch * lanes_.size() + places[number % places.size()]), lane};
}

}  // namespace cohort::plan
