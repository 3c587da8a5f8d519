/// {"metric", "singletons": keep | drop}; scores, group [B] -> keep_rows [B], 1 for the rows of a
/// group whose scores have a deviation (verl's filter_groups).
#include "algorithms/group_filter.hpp"

#include <cmath>
#include <map>

#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> group_filter(Case& in) {
  in.text("metric", "score");
  const bool keeps_singletons = in.choice("singletons", {"keep", "drop"}, "keep") == "keep";
  algorithms::GroupFilterOptions options;
  options.type = catalog::GroupFilter::std_filter;
  options.std_threshold = in.number("std_threshold", 0.0);
  const Array scores = in.array("scores", 1);
  const std::vector<uint32_t> group = in.labels("group", scores.rows());
  COHORT_TRY(in.read());
  std::map<uint32_t, std::vector<double>> members;
  for (size_t i = 0; i < group.size(); ++i) members[group[i]].push_back(scores.values[i]);
  Json rows = Json::array();
  for (uint32_t id : group) {
    const std::vector<double>& of_group = members[id];
    const bool is_kept = algorithms::judge_group(of_group, of_group.size(), options) ==
                         algorithms::GroupVerdict::kept;
    rows.push_back(is_kept && (keeps_singletons || of_group.size() > 1) ? 1 : 0);
  }
  return Json{{"keep_rows", rows}};
}

}  // namespace cohort::evaluate
