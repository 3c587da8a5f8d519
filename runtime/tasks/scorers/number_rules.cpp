// gsm8k and exact: an answer that is compared as the text it is.
#include <fmt/format.h>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

/// verl's two ways to read GSM8K answers. Only the last 300 characters are read.
class Gsm8k final : public RowRule {
 public:
  explicit Gsm8k(Options& options)
      : is_strict_(options.choice("method", {"strict", "flexible"}) == "strict"),
        format_score_(options.number("format_score", 0)),
        score_(options.number("score", 1)) {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    std::string_view text = last_characters(row.response, 300);
    std::optional<std::string> answer = is_strict_ ? strict(text) : flexible(text);
    if (!answer) {
      RewardResult none = without_answer(0, is_strict_ ? "no '#### number'" : "no number");
      none.parts = {{"acc", 0}, {"format", 0}};
      return none;
    }
    bool is_right = *answer == row.ground_truth;
    RewardResult result = with_prediction(is_right ? score_ : format_score_, *answer);
    result.parts = {{"acc", is_right ? 1 : 0}, {"format", 1}};
    return result;
  }

 private:
  static std::optional<std::string> strict(std::string_view text) {
    constexpr std::string_view k_mark = "#### ";
    for (size_t at = text.rfind(k_mark); at != std::string_view::npos;
         at = at == 0 ? std::string_view::npos : text.rfind(k_mark, at - 1)) {
      std::string_view number = number_at(text.substr(at + k_mark.size()));
      if (!number.empty()) return replace_all(number, ",", "");
    }
    return std::nullopt;
  }

  static std::optional<std::string> flexible(std::string_view text) {
    std::optional<std::string> first, last;
    for (size_t at = 0; at < text.size();) {
      std::string_view number = number_at(text.substr(at));
      if (!number.empty()) {
        if (!first) first = number;
        if (number != ".") last = number;
      }
      at += number.empty() ? 1 : number.size();
    }
    return last ? last : first;  // nothing but dots is an answer too, a wrong one
  }

  bool is_strict_;
  double format_score_;
  double score_;
};

class Exact final : public RowRule {
 public:
  explicit Exact(Options& options)
      : marker_(options.text("marker", "####")),
        requires_finish_(options.flag("requires_finish", true)) {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    std::string_view text = row.response;
    if (!marker_.empty()) {
      size_t at = text.rfind(marker_);
      if (at == std::string_view::npos) return without_answer(0, fmt::format("no '{}'", marker_));
      text.remove_prefix(at + marker_.size());
    }
    text = trim(text);
    bool is_right = text == trim(row.ground_truth);
    bool counts = row.is_finished || !requires_finish_;
    RewardResult result = with_prediction(is_right && counts ? 1 : 0, text);
    result.parts = {{"acc", is_right ? 1 : 0}, {"finished", row.is_finished ? 1 : 0}};
    return result;
  }

 private:
  std::string marker_;
  bool requires_finish_;
};

}  // namespace

RulePtr make_gsm8k(Options& options) { return rule_of<Gsm8k>(options); }
RulePtr make_exact(Options& options) { return rule_of<Exact>(options); }

}  // namespace cohort::tasks
