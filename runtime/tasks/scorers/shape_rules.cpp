// Rewards of the form, not of the answer: format, overlong, length, repetition.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <unordered_set>

#include "runtime/tasks/pattern.hpp"
#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

/// A pattern, or the tags in their order, each once, with nothing but space outside.
class Format final : public RowRule {
 public:
  Format(std::optional<Pattern> pattern, Options& options)
      : pattern_(std::move(pattern)),
        tags_(options.texts("tags", {"think", "answer"})),
        score_(options.number("score", 1)),
        otherwise_(options.number("otherwise", 0)) {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    RewardResult result;
    result.detail = pattern_ ? wrong_text(row.response) : wrong_tag(row.response);
    result.score = result.detail.empty() ? score_ : otherwise_;
    return result;
  }

 private:
  std::string wrong_text(std::string_view text) const {
    return pattern_->search(text) ? "" : "does not match the pattern";
  }

  std::string wrong_tag(std::string_view text) const {
    std::string_view rest = trim(text);
    for (const std::string& tag : tags_) {
      std::string open = "<" + tag + ">", close = "</" + tag + ">";
      if (!rest.starts_with(open)) return fmt::format("no {} where it belongs", open);
      size_t end = rest.find(close);
      if (end == std::string_view::npos) return fmt::format("no {}", close);
      std::string_view inside = rest.substr(open.size(), end - open.size());
      for (const std::string& other : tags_)
        if (inside.find("<" + other + ">") != std::string_view::npos ||
            inside.find("</" + other + ">") != std::string_view::npos)
          return fmt::format("<{}> inside {}", other, open);
      rest = trim(rest.substr(end + close.size()));
    }
    return rest.empty() ? "" : "text behind the last tag";
  }

  std::optional<Pattern> pattern_;
  std::vector<std::string> tags_;
  double score_;
  double otherwise_;
};

/// DAPO's soft punishment: 0 up to max - buffer, then linear to -factor at max, and on.
class Overlong final : public RowRule {
 public:
  explicit Overlong(Options& options)
      : max_(options.count("max_response_length", 0)),
        buffer_(options.count("buffer", 0)),
        factor_(options.number("factor", 1)),
        is_capped_(options.flag("cap", false)) {
    if (max_ == 0) options.reject("max_response_length", "must be given, in tokens");
    if (buffer_ == 0 || buffer_ > max_)
      options.reject("buffer", "must be given: 1 … max_response_length tokens");
  }

 protected:
  RewardResult judge(const RewardRow& row) const override {
    double over = row.response_tokens - (max_ - buffer_);
    RewardResult result;
    result.score = std::min(-over / buffer_ * factor_, 0.0) + 0.0;  // no -0
    if (is_capped_) result.score = std::max(result.score, -factor_);
    result.parts = {{"overlong", over > 0 ? 1 : 0}};
    return result;
  }

 private:
  double max_, buffer_;  // [tokens]
  double factor_;
  bool is_capped_;
};

/// From one value at `min` tokens to another at `max` tokens, on a line or half a cosine.
class Length final : public RowRule {
 public:
  explicit Length(Options& options)
      : is_cosine_(options.choice("shape", {"linear", "cosine"}) == "cosine"),
        min_(options.count("min", 0)),
        max_(options.count("max", 0)),
        at_min_(options.number("at_min", 0)),
        at_max_(options.number("at_max", -1)) {
    if (max_ <= min_) options.reject("max", "must be given, in tokens, greater than min");
  }

 protected:
  RewardResult judge(const RewardRow& row) const override {
    double share = (row.response_tokens - min_) / (max_ - min_);
    share = std::clamp(share, 0.0, 1.0);
    if (is_cosine_) share = (1 - std::cos(share * std::numbers::pi)) / 2;
    RewardResult result;
    result.score = at_min_ + (at_max_ - at_min_) * share;
    result.parts = {{"tokens", static_cast<double>(row.response_tokens)}};
    return result;
  }

 private:
  bool is_cosine_;
  double min_, max_;  // [tokens]
  double at_min_, at_max_;
};

/// The share of n-grams that were there before, times `penalty`.
class Repetition final : public RowRule {
 public:
  explicit Repetition(Options& options)
      : n_(options.count("n", 3, 1)),
        penalty_(options.number("penalty", -1)),
        is_by_character_(options.choice("unit", {"word", "character"}) == "character") {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    std::string text = to_lower(row.response);
    std::vector<std::string_view> units = is_by_character_ ? characters(text) : words_of(text);
    RewardResult result;
    const double share = repeated_share(units, n_);
    result.score = share > 0 ? share * penalty_ : 0;
    result.parts = {{"repeated", share}};
    return result;
  }

 private:
  static std::vector<std::string_view> characters(std::string_view text) {
    std::vector<std::string_view> list;
    for (size_t at = 0; at < text.size();) {
      size_t end = at + 1;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
      if (!is_space(text[at])) list.push_back(text.substr(at, end - at));
      at = end;
    }
    return list;
  }

  uint32_t n_;
  double penalty_;
  bool is_by_character_;
};

}  // namespace

RulePtr make_format(Options& options) {
  std::string expression = options.text("pattern", "");
  std::optional<Pattern> pattern;
  if (!expression.empty()) {
    auto compiled = Pattern::compile(expression);
    if (compiled)
      pattern = std::move(*compiled);
    else
      options.reject("pattern", compiled.error().detail);
  }
  return rule_of<Format>(std::move(pattern), options);
}

RulePtr make_overlong(Options& options) { return rule_of<Overlong>(options); }
RulePtr make_length(Options& options) { return rule_of<Length>(options); }
RulePtr make_repetition(Options& options) { return rule_of<Repetition>(options); }

}  // namespace cohort::tasks
