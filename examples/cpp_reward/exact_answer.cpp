// 1 if the answer ended and what stands behind its last `marker` is the ground truth, else 0. The
// built-in reward `exact` as a plugin: the same scores, so a run gives the same hashes with either.
#include <cohort/options.hpp>
#include <cohort/reward.hpp>
#include <string>
#include <string_view>

namespace {

std::string_view trim(std::string_view text) {
  const char* space = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

class ExactAnswer {
 public:
  explicit ExactAnswer(std::string_view config_json) {
    cohort::sdk::Options options(config_json);
    marker_ = options.text("marker", "####");
    requires_finish_ = options.flag("requires_finish", true);
    options.finish();
  }

  cohort::sdk::Result score(const cohort::sdk::Row& row) const {
    const size_t at = row.response.rfind(marker_);
    cohort::sdk::Result result;
    if (at == std::string_view::npos) {
      result.detail = "no '" + marker_ + "'";
      return result;
    }
    const std::string_view answer = trim(row.response.substr(at + marker_.size()));
    const bool is_right = answer == trim(row.ground_truth);
    result.score = is_right && (row.is_finished || !requires_finish_) ? 1 : 0;
    result.parts = {{"acc", is_right ? 1 : 0}, {"finished", row.is_finished ? 1 : 0}};
    result.detail = "pred " + std::string(answer);
    return result;
  }

 private:
  std::string marker_;
  bool requires_finish_ = true;
};

}  // namespace

COHORT_REWARD(ExactAnswer)
