// math_rule: the answer of a response, compared as mathematics.
#include <array>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/math_answer.hpp"
#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

std::string_view first_line(std::string_view text) {
  text = trim(text);
  return trim(text.substr(0, text.find('\n')));
}

/// Returns the inside of the first $…$ or \(…\) in `text`, nothing if there is none.
std::optional<std::string_view> first_math(std::string_view text) {
  constexpr std::array<std::array<std::string_view, 2>, 4> k_signs = {
      {{"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}}};
  for (const auto& [open, close] : k_signs) {
    size_t begin = text.find(open);
    size_t end = begin == std::string_view::npos ? std::string_view::npos
                                                 : text.find(close, begin + open.size());
    if (end == std::string_view::npos) continue;
    std::string_view inside = trim(text.substr(begin + open.size(), end - begin - open.size()));
    if (!inside.empty()) return inside;
  }
  return std::nullopt;
}

bool is_fraction_byte(char c) { return is_digit(c) || c == '.' || c == ',' || c == '/'; }

/// Returns the number around or before text[at], a digit: "-1,234.5", "3/4".
std::string_view number_around(std::string_view text, size_t at) {
  size_t begin = at, end = at + 1;
  while (begin > 0 && is_fraction_byte(text[begin - 1])) --begin;
  while (end < text.size() && is_fraction_byte(text[end])) ++end;
  while (begin < at && !is_digit(text[begin]) && text[begin] != '.') ++begin;
  while (!is_digit(text[end - 1])) --end;
  bool has_sign = begin > 0 && text[begin - 1] == '-';
  bool is_difference = begin > 1 && (is_digit(text[begin - 2]) || is_letter(text[begin - 2]));
  if (has_sign && !is_difference) --begin;
  if (end < text.size() && text[end] == '%') ++end;
  return text.substr(begin, end - begin);
}

std::string_view last_number(std::string_view text) {
  size_t at = text.find_last_of("0123456789");
  return at == std::string_view::npos ? std::string_view() : number_around(text, at);
}

/// Returns the answer that a sentence names: behind "answer is" or "answer:".
std::string_view named_answer(std::string_view text) {
  constexpr std::string_view k_phrases[] = {
      "answer is", "answer:", "answer :", "answer**:", "答案是", "答案为", "答案："};
  size_t best = 0;
  for (std::string_view phrase : k_phrases) {
    size_t at = rfind_any_case(text, phrase);
    if (at != std::string_view::npos) best = std::max(best, at + phrase.size());
  }
  if (best == 0) return {};
  std::string_view rest = text.substr(best);
  while (!rest.empty() && (rest[0] == ':' || rest[0] == '*' || is_space(rest[0])))
    rest.remove_prefix(1);
  if (rest.starts_with("：")) rest.remove_prefix(std::string_view("：").size());
  std::string_view line = first_line(rest);
  if (auto math = first_math(line)) return *math;
  line = line.substr(0, line.find(". "));
  // "therefore 5": a sentence goes on before its number
  bool is_sentence = line.size() > 3 && is_letter(line[0]) && is_letter(line[1]) &&
                     line.find(' ') != std::string_view::npos &&
                     line.find('\\') == std::string_view::npos;
  size_t digit = line.find_first_of("0123456789");
  return is_sentence && digit != std::string_view::npos ? number_around(line, digit) : line;
}

struct Found {
  std::string_view answer;  // empty: none
  std::string_view why;     // there is none
};

class MathRule final : public RowRule {
 public:
  explicit MathRule(Options& options)
      : needs_box_(options.flag("boxed_only", false)),
        rules_{options.flag("strict_percent", false)} {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    std::string_view gold = gold_of(row.ground_truth);
    if (gold.empty()) return without_score("the row has no ground_truth");
    Found found = find(row);
    if (found.answer.empty()) return without_answer(0, found.why);
    bool is_right = math::same_answer(gold, found.answer, rules_);
    return with_prediction(is_right ? 1 : 0, math::normal_form(found.answer));
  }

 private:
  static std::string_view gold_of(std::string_view text) {
    if (auto boxed = last_boxed(text)) return trim(*boxed);
    size_t mark = text.rfind("####");
    return mark == std::string_view::npos ? trim(text) : first_line(text.substr(mark + 4));
  }

  Found find(const RewardRow& row) const {
    Answer answer = after_thoughts(row.response, trim(row.prompt).ends_with("<think>"));
    if (answer.is_unfinished) return {{}, "the thought does not end"};
    if (auto boxed = last_boxed(answer.text)) {
      std::string_view inside = trim(*boxed);
      return {inside, "an empty \\boxed{}"};
    }
    if (needs_box_) return {{}, "no \\boxed{}"};
    std::string_view text = answer.text;
    if (size_t mark = text.rfind("####"); mark != std::string_view::npos) {
      std::string_view line = first_line(text.substr(mark + 4));
      if (!line.empty()) return {line, {}};
    }
    if (std::string_view named = named_answer(text); !named.empty()) return {named, {}};
    return {last_number(text), "neither \\boxed{} nor a number"};
  }

  bool needs_box_;
  math::AnswerRules rules_;
};

}  // namespace

RulePtr make_math_rule(Options& options) { return rule_of<MathRule>(options); }

}  // namespace cohort::tasks
