#include "runtime/base/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
  static constexpr size_t k_name_bytes_max = 100;  // longer ones are no typing errors
  if (name.empty() || name.size() > k_name_bytes_max) return {};
  // a third of the letters may be wrong: "lr_schedule_typ" is meant, "foo" is not
  size_t best_cost = std::max<size_t>(1, name.size() / 3) + 1;
  std::string best;
  for (const std::string& candidate : names) {
    size_t cost = candidate.size() > k_name_bytes_max ? best_cost : edit_distance(name, candidate);
    if (cost < best_cost) {
      best_cost = cost;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  std::string nearest = nearest_name(name, names);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace cohort
