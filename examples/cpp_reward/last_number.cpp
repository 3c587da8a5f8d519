// 1 when the last number of the answer is the ground truth. Option: {"wrong": score of a wrong
// one}.
#include <cohort/options.hpp>
#include <cohort/reward.hpp>
#include <string>
#include <string_view>

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns the last run of digits with what belongs to it, commas left out: "-1,234.5" is -1234.5.
std::string last_number(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == ',' ||
                       (text[begin - 1] == '.' && begin < end)))
    --begin;
  while (begin < end && !is_digit(text[begin])) ++begin;
  if (begin > 0 && text[begin - 1] == '-') --begin;
  std::string number;
  for (char c : text.substr(begin, end - begin))
    if (c != ',') number += c;
  return number;
}

class LastNumber {
 public:
  explicit LastNumber(std::string_view config_json) {
    cohort::sdk::Options options(config_json);
    wrong_ = options.number("wrong", 0);
    options.finish();
  }

  cohort::sdk::Result score(const cohort::sdk::Row& row) const {
    const std::string found = last_number(row.response);
    cohort::sdk::Result result = found == row.ground_truth ? 1.0 : wrong_;
    result.parts = {{"has_number", found.empty() ? 0.0 : 1.0}};
    result.detail = "found=" + found;
    return result;
  }

 private:
  double wrong_ = 0;
};

}  // namespace

COHORT_REWARD(LastNumber)
