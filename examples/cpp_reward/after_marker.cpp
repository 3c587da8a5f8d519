// The reward of configs/arithmetic_rlvr.yaml, as a plugin: 1 if the answer was ended and what
// follows its last ';' is the ground truth. Built in it is `type: exact`.
#include <cohort/reward.hpp>
#include <string_view>

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_space = " \t\r\n";
  size_t first = text.find_first_not_of(k_space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_space) - first + 1);
}

class AfterMarker {
 public:
  explicit AfterMarker(std::string_view) {}

  cohort::sdk::Result score(const cohort::sdk::Row& row) const {
    size_t marker = row.response.rfind(';');
    if (marker == std::string_view::npos || !row.is_finished) return 0.0;
    return trimmed(row.response.substr(marker + 1)) == trimmed(row.ground_truth) ? 1.0 : 0.0;
  }
};

}  // namespace

COHORT_REWARD(AfterMarker)
