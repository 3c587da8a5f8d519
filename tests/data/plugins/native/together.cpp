// Judges rows together: the share of the longest answer. Throws on an empty one.
#include <algorithm>
#include <cohort/reward.hpp>
#include <stdexcept>

struct Together {
  std::vector<cohort::sdk::Result> score(const std::vector<cohort::sdk::Row>& rows) {
    size_t longest = 0;
    for (const auto& row : rows) {
      if (row.response.empty()) throw std::invalid_argument("an empty answer");
      longest = std::max(longest, row.response.size());
    }
    std::vector<cohort::sdk::Result> results;
    for (const auto& row : rows)
      results.push_back(static_cast<double>(row.response.size()) / static_cast<double>(longest));
    return results;
  }
};

COHORT_REWARD(Together)
