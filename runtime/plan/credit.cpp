#include "runtime/plan/credit.hpp"

#include "runtime/plan/residency.hpp"

namespace cohort::plan {

Expected<void> CreditWindow::take(uint64_t id, uint64_t bytes) {
  if (auto found = taken_.find(id); found != taken_.end()) {
    if (found->second == bytes) return {};
    return Error{Errc::invalid_argument, "credit: id " + std::to_string(id) + " holds " +
                                             with_thousands(found->second) + " bytes, not " +
                                             with_thousands(bytes)};
  }
  if (bytes > limit_bytes_)
    return Error{Errc::capacity, "credit: id " + std::to_string(id) + " wants " +
                                     with_thousands(bytes) + " bytes of a window of " +
                                     with_thousands(limit_bytes_)};
  if (bytes > free_bytes())
    return Error{Errc::backpressure, "credit: " + with_thousands(bytes) + " bytes wanted, " +
                                         with_thousands(free_bytes()) + " free"};
  taken_.emplace(id, bytes);
  used_bytes_ += bytes;
  return {};
}

uint64_t CreditWindow::give_back(uint64_t id) {
  auto found = taken_.find(id);
  if (found == taken_.end()) return 0;
  uint64_t bytes = found->second;
  taken_.erase(found);
  used_bytes_ -= bytes;
  return bytes;
}

void CreditWindow::assert_invariants() const {
  uint64_t sum = 0;
  for (const auto& [id, bytes] : taken_) sum += bytes;
  COHORT_CHECK(sum == used_bytes_, "FLOW-4: credit in use differs from what is outstanding");
  COHORT_CHECK(used_bytes_ <= limit_bytes_, "FLOW-4: credit in use exceeds the window");
}

}  // namespace cohort::plan
