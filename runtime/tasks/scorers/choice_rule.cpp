// multiple_choice, crossthinkqa: which letter an answer chose.
#include <algorithm>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

/// Removes \text{}, \mathrm{}, … around a text, and math signs.
std::string_view unwrapped(std::string_view text) {
  for (int i = 0; i < 8; ++i) {
    text = trim(text);
    size_t brace = text.find('{');
    if (text.starts_with('\\') && text.ends_with('}') && brace != std::string_view::npos &&
        std::all_of(text.begin() + 1, text.begin() + static_cast<long>(brace), is_letter)) {
      text = text.substr(brace + 1, text.size() - brace - 2);
    } else if (text.size() > 1 && (text.starts_with('$') || text.starts_with('*'))) {
      text.remove_prefix(1);
      if (text.ends_with('$') || text.ends_with('*')) text.remove_suffix(1);
    } else if (text.starts_with("\\(")) {
      text.remove_prefix(2);
    } else {
      break;
    }
  }
  return text;
}

class MultipleChoice final : public RowRule {
 public:
  MultipleChoice(Options& options, bool needs_box)
      : letters_(options.text("letters", "ABCDEFGHIJ")),
        needs_box_(options.flag("boxed_only", needs_box)) {
    if (letters_.empty() || !std::all_of(letters_.begin(), letters_.end(), is_letter))
      options.reject("letters", "'" + letters_ + "' are no letters");
    std::transform(letters_.begin(), letters_.end(), letters_.begin(), upper);
  }

 protected:
  RewardResult judge(const RewardRow& row) const override {
    char gold = leading(row.ground_truth);
    if (gold == 0)
      return without_score("ground_truth '" + row.ground_truth + "' is no letter of " + letters_);
    Answer answer = after_thoughts(row.response, trim(row.prompt).ends_with("<think>"));
    char choice = answer.is_unfinished ? 0 : chosen(answer.text);
    if (choice == 0)
      return without_answer(0, answer.is_unfinished ? "the thought does not end" : "no choice");
    return with_prediction(choice == gold ? 1 : 0, std::string_view(&choice, 1));
  }

 private:
  static char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

  /// Returns `c` in upper case if it is one of the letters, else 0.
  char letter(char c) const { return letters_.find(upper(c)) == std::string::npos ? 0 : upper(c); }

  /// Returns the letter that `text` begins with and that no word continues: "B", "(B)", "B. seven".
  char leading(std::string_view text) const {
    text = unwrapped(text);
    bool has_bracket = text.starts_with('(') || text.starts_with('[');
    if (has_bracket) text = unwrapped(text.substr(1));
    if (text.empty()) return 0;
    char found = letter(text[0]);
    if (text.size() == 1) return found;
    bool ends = std::string_view(").]:,;\n").find(text[1]) != std::string_view::npos ||
                text[1] == '$' || text[1] == '*' || text[1] == '}';
    // "A dog" begins with an article: only a capital and a separator that no sentence has
    return ends ? found : 0;
  }

  char chosen(std::string_view text) const {
    if (auto boxed = last_boxed(text)) return leading(*boxed);
    if (needs_box_) return 0;
    for (std::string_view phrase : {"answer is", "answer:"}) {
      size_t at = rfind_any_case(text, phrase);
      if (at == std::string_view::npos) continue;
      std::string_view rest = unwrapped(text.substr(at + phrase.size()));
      if (rest.starts_with(':')) rest = unwrapped(rest.substr(1));
      if (char found = leading(rest)) return found;
      if (rest.size() > 1 && is_space(rest[1])) return letter(rest[0]);
    }
    for (size_t at = text.rfind(')'); at != std::string_view::npos && at > 1;
         at = text.rfind(')', at - 1))
      if (text[at - 2] == '(')
        if (char found = letter(text[at - 1])) return found;
    return leading(text);
  }

  std::string letters_;
  bool needs_box_;
};

/// What ROLL's crossthinkqa pays: the first capital letter of the last \boxed{} (without one, of
/// what is behind the last "answer is"; without that, of the answer) is the ground truth's first
/// letter or not, in a box or not; less half the share of repeated 3-grams of words, and with a
/// coefficient the length reward: -0.5 below 100 tokens, 0 above 400, linear between (there the
/// length is that of the padded row, so that it pays by the batch; here it is the answer's own).
class GradedChoice final : public RowRule {
 public:
  explicit GradedChoice(Options& options)
      : grade_(options.choice("reward_type", {"loose", "soft", "strict"})),
        length_(options.number("response_length_penalty_coef", 0)) {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    if (row.ground_truth.empty()) return without_score("ground_truth is empty");
    constexpr std::string_view k_end = "</think>";
    std::string_view text = row.response;
    if (const size_t end = text.rfind(k_end); end != std::string_view::npos)
      text.remove_prefix(end + k_end.size());
    const auto boxed = last_flat_box(text);
    const char choice = first_capital(boxed ? *boxed : behind_answer_is(text));
    const bool is_right = choice != 0 && choice == row.ground_truth.front();
    const double letter = points(is_right, boxed.has_value());
    constexpr double k_repetition = -0.5;
    const std::string words = to_lower(row.response);
    const double repetition = k_repetition * repeated_share(words_of(words), 3);
    const double length = length_reward(row.response_tokens);
    const double score = letter + repetition + length_ * length;
    RewardResult result = choice == 0 ? without_answer(score, "no capital letter")
                                      : with_prediction(score, std::string_view(&choice, 1));
    result.parts = {{"acc", letter > 0 ? 1 : 0},
                    {"boxed", boxed ? 1 : 0},
                    {"repetition", repetition},
                    {"length", length}};
    return result;
  }

 private:
  double points(bool is_right, bool is_boxed) const {
    if (grade_ == "strict") return is_right && is_boxed ? 1 : -1;
    const double sign = is_right ? 1 : -1;
    if (grade_ == "loose" || is_right == is_boxed) return sign;
    return sign / 2;
  }
  static double length_reward(double tokens) {
    constexpr double k_short = 100, k_long = 400, k_most = -0.5;
    if (tokens < k_short) return k_most;
    return tokens > k_long ? 0 : k_most * (k_long - tokens) / (k_long - k_short);
  }
  /// The inside of the last `\boxed{` that a brace closes: up to the first one, and not empty.
  static std::optional<std::string_view> last_flat_box(std::string_view text) {
    constexpr std::string_view k_box = "\\boxed{";
    std::optional<std::string_view> last;
    for (size_t at = text.find(k_box); at != std::string_view::npos; at = text.find(k_box, at)) {
      const size_t begin = at + k_box.size(), end = text.find('}', begin);
      if (end == std::string_view::npos) break;
      if (end > begin) last = text.substr(begin, end - begin);
      at = end;
    }
    return last;
  }
  static std::string_view behind_answer_is(std::string_view text) {
    constexpr std::string_view k_phrase = "answer is";
    const size_t at = rfind_any_case(text, k_phrase);
    return at == std::string_view::npos ? text : text.substr(at + k_phrase.size());
  }
  static char first_capital(std::string_view text) {
    const auto found = std::ranges::find_if(text, [](char c) { return c >= 'A' && c <= 'Z'; });
    return found == text.end() ? '\0' : *found;
  }

  std::string grade_;
  double length_;
};

}  // namespace

RulePtr make_multiple_choice(Options& options) { return rule_of<MultipleChoice>(options, false); }

RulePtr make_crossthinkqa(Options& options) {
  return options.has("reward_type") ? rule_of<GradedChoice>(options)
                                    : make_multiple_choice(options);
}

/// ROLL's: only a letter in \boxed{} counts.
RulePtr make_multiple_choice_boxed(Options& options) {
  return rule_of<MultipleChoice>(options, true);
}

}  // namespace cohort::tasks
