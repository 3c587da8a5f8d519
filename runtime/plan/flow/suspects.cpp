#include "runtime/plan/flow/suspects.hpp"

#include <algorithm>

namespace cohort::plan {

Suspects::Verdict Suspects::blame(const std::vector<uint64_t>& open, const Death& death) {
  Verdict verdict;
  // Of an isolated group, what it had beside it says that it was not played alone.
  const bool is_alone = open.size() == 1 && is_isolated(open.front());
  for (uint64_t group : open) {
    if (is_isolated(group) && !is_alone) continue;
    std::vector<Death>& deaths = deaths_[group];
    deaths.push_back(death);
    if (deaths.size() == k_shared_losses) verdict.isolated.push_back(group);
    if (deaths.size() < k_shared_losses + k_alone_losses) continue;
    verdict.convicted = group;
    ++convicted_;
  }
  return verdict;
}

void Suspects::acquit(uint64_t group) { deaths_.erase(group); }

bool Suspects::is_isolated(uint64_t group) const {
  return deaths_of(group).size() >= k_shared_losses;
}

const std::vector<Death>& Suspects::deaths_of(uint64_t group) const {
  static const std::vector<Death> none;
  auto found = deaths_.find(group);
  return found == deaths_.end() ? none : found->second;
}

uint32_t Suspects::limit() const { return std::clamp(groups_ / 20, uint32_t{1}, k_convicted_max); }

}  // namespace cohort::plan
