// Tokens back as LaTeX, one writing for equal meanings.
#include <algorithm>

#include "runtime/tasks/scorers/math_tokens.hpp"

namespace cohort::tasks::math {
namespace {

std::string written_number(std::string_view digits, int32_t decimals) {
  std::string out(digits);
  if (decimals < 0) return out + "e" + std::to_string(-decimals);
  auto places = static_cast<size_t>(decimals);
  if (out.size() <= places) out.insert(0, places + 1 - out.size(), '0');
  if (places > 0) {
    out.insert(out.size() - places, 1, '.');
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  out.erase(0, std::min(out.find_first_not_of('0'), out.size() - 1));
  return out[0] == '.' ? "0" + out : out;
}

/// In the order of Tok; "": written() spells it, or nothing does.
constexpr std::string_view k_fixed[] = {
    "",       "",    "",    "",  "",  "\\infty", "+", "-", "\\pm ",  "\\mp ",
    "*",      "/",   "^",   "!", "%", "^\\circ", ":", ",", ";",      "",
    "",       "\\{", "\\}", "{", "}", "",        "",  "|", "\\frac", "\\binom",
    "\\sqrt", "",    "_",   "",  "",  "",        ")", "&", "\\\\",   ""};
static_assert(std::size(k_fixed) == static_cast<size_t>(Tok::symbol) + 1);

constexpr std::pair<char, std::string_view> k_relations[] = {
    {'l', "\\le "},     {'g', "\\ge "}, {'n', "\\ne "}, {'i', "\\in "},
    {'~', "\\approx "}, {'<', "<"},     {'>', ">"},
};

std::string relation_text(char mark) {
  for (const auto& [known, text] : k_relations)
    if (known == mark) return std::string(text);
  return "=";
}

std::string function_name(char mark) {
  constexpr std::string_view k_names[] = {"sin",    "cos",    "tan",    "cot",  "sec",  "csc",
                                          "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
                                          "ln",     "lg",     "exp",    "max",  "min"};
  return "\\" + std::string(k_names[static_cast<size_t>(mark)]) + " ";
}

}  // namespace

std::string written(const Tokens& tokens, const Token& token) {
  std::string_view text = tokens.text(token);
  switch (token.kind) {
    case Tok::number:
      return written_number(text, token.decimals);
    case Tok::relation:
      return relation_text(token.mark);
    case Tok::open:
    case Tok::close:
      return {token.mark};
    case Tok::open_floor:
      return token.mark == 'f' ? "\\lfloor " : "\\lceil ";
    case Tok::close_floor:
      return token.mark == 'f' ? "\\rfloor " : "\\rceil ";
    case Tok::open_matrix:
      return token.mark == '|' ? "vmatrix(" : "matrix(";
    case Tok::subscript:
      return "_" + std::string(text);
    case Tok::repeating:
      return "\\overline{" + std::string(text) + "}";
    case Tok::constant:
      return token.mark == 'p' ? "\\pi " : std::string{token.mark};
    case Tok::function: {
      bool is_formal = static_cast<Function>(token.mark) == Function::formal;
      return is_formal ? "\\" + std::string(text) + " " : function_name(token.mark);
    }
    case Tok::variable:
      return std::string(text) + (text.starts_with('\\') ? " " : "");
    case Tok::word:
    case Tok::symbol:
      return std::string(text);
    default:
      return std::string(k_fixed[static_cast<size_t>(token.kind)]);
  }
}

}  // namespace cohort::tasks::math
