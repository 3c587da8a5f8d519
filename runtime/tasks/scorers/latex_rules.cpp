// math and math_dapo: verl's two string normal forms for LaTeX answers, bug for bug where a score
// depends on it (docs/rewards.md says where they score right answers 0; math_rule does not).
#include <algorithm>
#include <utility>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

using Text = std::optional<std::string>;  // nothing: where verl's code raises

/// Returns text[begin] through the brace that closes the first group behind it.
std::string_view balanced(std::string_view text, size_t begin) {
  size_t depth = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}') {
      if (depth <= 1) return depth == 1 ? text.substr(begin, at + 1 - begin) : std::string_view{};
      --depth;
    }
  }
  return {};
}

/// Returns the inside of `\boxed{…}`, nothing if `box` is not that alone.
Text unboxed(std::string_view box) {
  constexpr std::string_view k_left = "\\boxed{";
  if (!box.starts_with(k_left) || !box.ends_with('}')) return std::nullopt;
  return std::string(box.substr(k_left.size(), box.size() - k_left.size() - 1));
}

/// MATH: the last \boxed{}, else \fbox{} (which is found and then not unwrapped: no answer); once a
/// "\boxed " occurs anywhere, what follows the last of them up to a dollar sign.
Text boxed_of_math(std::string_view text) {
  constexpr std::string_view k_spaced = "\\boxed ";
  if (size_t at = text.rfind(k_spaced); at != std::string_view::npos) {
    std::string_view rest = text.substr(at + k_spaced.size());
    return std::string(rest.substr(0, rest.find('$')));
  }
  size_t at = text.rfind("\\boxed");
  return at == std::string_view::npos ? std::nullopt : unboxed(balanced(text, at));
}

Text boxed_of_dapo(std::string_view text) {
  size_t at = text.rfind("\\boxed{");
  return at == std::string_view::npos ? std::nullopt : unboxed(balanced(text, at));
}

/// Returns the character at text[at] in braces, and steps over it.
std::string braced(std::string_view text, size_t& at) {
  size_t size = character_size(text, at);
  at += size;
  return "{" + std::string(text.substr(at - size, size)) + "}";
}

/// Puts braces around the two arguments of a \frac that has none around its first.
Text brace_fractions(const std::string& text) {
  constexpr std::string_view k_frac = "\\frac";
  size_t at = text.find(k_frac);
  std::string out = text.substr(0, at);
  while (at != std::string_view::npos) {
    size_t next = text.find(k_frac, at + k_frac.size());
    std::string_view rest = std::string_view(text).substr(
        at + k_frac.size(), next == std::string_view::npos ? next : next - at - 5);
    at = next;
    out += k_frac;
    if (rest.empty()) return std::nullopt;
    if (rest[0] == '{') {
      out += rest;
      continue;
    }
    size_t end = 0;
    out += braced(rest, end);
    if (end == rest.size()) return text;
    if (rest[end] != '{') out += braced(rest, end);
    out += rest.substr(end);
  }
  return out;
}

Text brace_roots(const std::string& text) {
  constexpr std::string_view k_root = "\\sqrt";
  std::string out;
  for (size_t at = 0;;) {
    size_t found = text.find(k_root, at);
    out.append(text, at, found - at);
    if (found == std::string_view::npos) return out;
    at = found + k_root.size();
    out += k_root;
    if (at == text.size() || text.compare(at, k_root.size(), k_root) == 0) return std::nullopt;
    if (text[at] != '{') out += braced(text, at);
  }
}

bool is_plain_integer(std::string_view text) {
  if (text == "0") return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text[0] != '0' && std::all_of(text.begin(), text.end(), is_digit);
}

std::string slash_to_fraction(const std::string& text) {
  size_t slash = text.find('/');
  if (slash == std::string_view::npos || text.find('/', slash + 1) != std::string_view::npos)
    return text;
  std::string a = text.substr(0, slash), b = text.substr(slash + 1);
  return is_plain_integer(a) && is_plain_integer(b) ? "\\frac{" + a + "}{" + b + "}" : text;
}

/// Returns the normal form of the MATH data set's authors.
Text math_normal_form(std::string_view answer) {
  std::string text(answer);
  constexpr std::pair<std::string_view, std::string_view> k_replaced[] = {
      {"\n", ""},     {"\\!", ""},     {"\\\\", "\\"},    {"tfrac", "frac"}, {"dfrac", "frac"},
      {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""}, {"^\\circ", ""},   {"\\$", ""},
  };
  for (const auto& [from, to] : k_replaced) text = replace_all(text, from, to);
  constexpr std::string_view k_unit = "\\text{ ";
  if (size_t unit = text.find(k_unit); unit != std::string_view::npos) {
    if (text.find(k_unit, unit + k_unit.size()) != std::string_view::npos) return std::nullopt;
    text.resize(unit);
  }
  text = replace_all(text, "\\%", "");
  text = replace_all(text, " .", " 0.");
  text = replace_all(text, "{.", "{0.");
  if (text.empty()) return text;
  if (text[0] == '.') text.insert(0, 1, '0');
  size_t equals = text.find('=');
  if (equals != std::string_view::npos && text.find('=', equals + 1) == std::string_view::npos &&
      last_characters(std::string_view(text).substr(0, equals), 2).size() == equals)
    text.erase(0, equals + 1);
  Text rooted = brace_roots(text);
  if (!rooted) return std::nullopt;
  Text fractions = brace_fractions(replace_all(*rooted, " ", ""));
  if (!fractions) return std::nullopt;
  if (*fractions == "0.5") return "\\frac{1}{2}";
  return slash_to_fraction(*fractions);
}

class Math final : public RowRule {
 protected:
  RewardResult judge(const RewardRow& row) const override {
    Text answer = boxed_of_math(row.response);
    if (!answer) return without_answer(0, "no \\boxed{}");
    Text a = math_normal_form(*answer), b = math_normal_form(row.ground_truth);
    bool is_right = a && b ? *a == *b : *answer == row.ground_truth;
    return with_prediction(is_right ? 1 : 0, a ? *a : *answer);
  }
};

/// Replaces `open`inside`}` by the inside, for each `open`.
std::string unwrap(std::string_view text, std::string_view open) {
  std::string out;
  for (size_t at = 0;;) {
    size_t begin = text.find(open, at);
    size_t end = begin == std::string_view::npos ? std::string_view::npos
                                                 : text.find('}', begin + open.size());
    if (end == std::string_view::npos) return out += text.substr(at);
    out += text.substr(at, begin - at);
    out += text.substr(begin + open.size(), end - begin - open.size());
    at = end + 1;
  }
}

/// Braces what follows `command` if it is no group: its next `count` characters one by one.
std::string brace_arguments(std::string_view text, std::string_view command, size_t count) {
  std::string out;
  for (size_t at = 0;;) {
    size_t begin = text.find(command, at);
    if (begin == std::string_view::npos) return out += text.substr(at);
    begin += command.size();
    out += text.substr(at, begin - at);
    at = begin;
    if (begin == text.size() || text[begin] == '{') continue;
    std::string arguments;
    size_t taken = 0;
    for (; taken < count && begin < text.size(); ++taken) arguments += braced(text, begin);
    if (taken < count) continue;
    out += arguments;
    at = begin;
  }
}

/// Returns the normal form of the Minerva evaluation, as DAPO has it.
std::string minerva_normal_form(std::string_view answer) {
  // Replacements, then omissions; the order counts.
  constexpr std::pair<std::string_view, std::string_view> k_replaced[] = {
      {"an ", ""},          {"a ", ""},
      {".$", "$"},          {"\\$", ""},
      {"\\ ", ""},          {" ", ""},
      {"mbox", "text"},     {",\\text{and}", ","},
      {"\\text{and}", ","}, {"\\text{m}", "\\text{}"},
  };
  constexpr std::string_view k_removed[] = {
      "square",     "ways",       "integers",  "dollars",      "mph",
      "inches",     "hours",      "km",        "units",        "\\ldots",
      "sue",        "points",     "feet",      "minutes",      "digits",
      "cents",      "degrees",    "cm",        "gm",           "pounds",
      "meters",     "meals",      "edges",     "students",     "childrentickets",
      "multiples",  "\\text{s}",  "\\text{.}", "\\text{\ns}",  "\\text{}^2",
      "\\text{}^3", "\\text{\n}", "\\text{}",  "\\mathrm{th}", "^\\circ",
      "^{\\circ}",  "\\;",        ",\\!",      "{,}",          "\"",
      "\\dots"};
  if (size_t equals = answer.rfind('='); equals != std::string_view::npos)
    answer.remove_prefix(equals + 1);
  std::string text(answer);
  for (const auto& [from, to] : k_replaced) text = replace_all(text, from, to);
  for (std::string_view word : k_removed) text = replace_all(text, word, "");
  if (size_t open = text.find('$'); open != std::string_view::npos)
    if (size_t close = text.find('$', open + 1); close != std::string_view::npos)
      text = text.substr(open, close + 1 - open);
  for (std::string_view open : {"\\text{", "\\textbf{", "\\overline{"}) text = unwrap(text, open);
  constexpr std::string_view k_box = "\\boxed{";
  if (size_t open = text.find(k_box); open != std::string_view::npos)
    if (size_t close = text.rfind('}');
        close != std::string_view::npos && close >= open + k_box.size())
      text.erase(close, 1).erase(open, k_box.size());
  text = brace_arguments(text, "frac", 2);
  text = brace_arguments(text, "sqrt", 1);
  text = replace_all(text, "$", "");
  std::string digits = replace_all(text, ",", "");
  if (!digits.empty() && std::all_of(digits.begin(), digits.end(), is_digit)) text = digits;
  return std::string(trim(text));
}

class MathDapo final : public RowRule {
 public:
  explicit MathDapo(Options& options) : is_strict_(options.flag("strict_box", false)) {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    std::string_view text = last_characters(row.response, 300);
    if (is_strict_) {
      Text boxed = boxed_of_dapo(last_characters(text, 100));
      if (!boxed) return verdict(without_answer(-1, "no \\boxed{} in the last 100 characters"));
      return verdict(with_prediction(*boxed == row.ground_truth ? 1 : -1, *boxed));
    }
    std::string answer = minerva_normal_form(after_answer(text));
    bool is_right = answer == minerva_normal_form(row.ground_truth);
    return verdict(with_prediction(is_right ? 1 : -1, answer));
  }

 private:
  static RewardResult verdict(RewardResult result) {
    result.parts = {{"acc", result.score > 0 ? 1 : 0}};
    return result;
  }

  /// Returns the last capture of (?i)Answer\s*:\s*([^\n]+), else "[INVALID]".
  static std::string_view after_answer(std::string_view text) {
    std::string_view found = "[INVALID]";
    std::string lowered = to_lower(text);
    for (size_t at = lowered.find("answer"); at != std::string_view::npos;
         at = lowered.find("answer", at)) {
      at += 6;
      size_t colon = at;
      while (colon < text.size() && is_space(text[colon])) ++colon;
      if (colon == text.size() || text[colon] != ':') continue;
      size_t begin = colon + 1;
      while (begin < text.size() && is_space(text[begin])) ++begin;
      size_t end = std::min(text.find('\n', begin), text.size());
      if (begin == end) {  // \s* gives back a space that is no newline, if there is one
        while (begin > colon + 1 && text[begin - 1] == '\n') --begin, --end;
        if (begin == colon + 1) continue;
        --begin;
      }
      found = text.substr(begin, end - begin);
      at = end;
    }
    return found;
  }

  bool is_strict_;
};

}  // namespace

RulePtr make_math(Options&) { return rule_of<Math>(); }
RulePtr make_math_dapo(Options& options) { return rule_of<MathDapo>(options); }

}  // namespace cohort::tasks
