#include "runtime/tasks/scorers/math_commands.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "runtime/tasks/scorers/answer_text.hpp"

namespace cohort::tasks::math {
namespace {

using Table = std::unordered_map<std::string_view, Meaning>;

constexpr Meaning function(Function f) {
  return {Role::token, Tok::function, static_cast<char>(f)};
}

void add_functions(Table& table) {
  using enum Function;
  constexpr std::pair<std::string_view, Function> k_functions[] = {{"sin", sine},
                                                                   {"cos", cosine},
                                                                   {"tan", tangent},
                                                                   {"tg", tangent},
                                                                   {"cot", cotangent},
                                                                   {"ctg", cotangent},
                                                                   {"sec", secant},
                                                                   {"csc", cosecant},
                                                                   {"arcsin", arcsine},
                                                                   {"arccos", arccosine},
                                                                   {"arctan", arctangent},
                                                                   {"asin", arcsine},
                                                                   {"acos", arccosine},
                                                                   {"atan", arctangent},
                                                                   {"sinh", hyperbolic_sine},
                                                                   {"cosh", hyperbolic_cosine},
                                                                   {"tanh", hyperbolic_tangent},
                                                                   {"ln", logarithm},
                                                                   {"log", logarithm},
                                                                   {"lg", logarithm_10},
                                                                   {"exp", exponential},
                                                                   {"max", maximum},
                                                                   {"min", minimum},
                                                                   {"gcd", formal},
                                                                   {"lcm", formal},
                                                                   {"det", formal},
                                                                   {"dim", formal},
                                                                   {"deg", formal},
                                                                   {"arg", formal}};
  for (const auto& [name, id] : k_functions) table[name] = function(id);
}

Table make_commands() {
  Table table;
  add_functions(table);
  for (std::string_view name : {"left",      "right",       "middle", "big",
                                "Big",       "bigg",        "Bigg",   "bigl",
                                "bigr",      "Bigl",        "Bigr",   "biggl",
                                "biggr",     "Biggl",       "Biggr",  "displaystyle",
                                "textstyle", "scriptstyle", "limits", "nolimits",
                                "$",         "(",           ")",      "[",
                                "]",         "!",           "bf",     "rm",
                                "it",        "mathstrut",   "boxed",  "fbox",
                                "protect",   "nobreak",     "vec",    "mathopen",
                                "mathclose", "pounds",      "euro"})
    table[name] = {Role::skip};
  for (std::string_view name :
       {"quad", "qquad", ",", ":", ";", ">", " ", "space", "thinspace", "enspace", "medspace",
        "thickspace", "hfill", "newline", "\n", "\t"})
    table[name] = {Role::space};
  for (std::string_view name : {"hspace", "vspace", "phantom", "hphantom", "label", "tag"})
    table[name] = {Role::argument};
  for (std::string_view name : {"text", "textbf", "textit", "textrm", "texttt", "textsf",
                                "textnormal", "textup", "mbox", "hbox", "emph", "textsc"})
    table[name] = {Role::text};
  for (std::string_view name : {"mathbf", "mathit", "mathbb", "mathcal", "boldsymbol", "mathfrak",
                                "mathsf", "mathtt", "mathscr", "bm", "ensuremath", "mathnormal"})
    table[name] = {Role::font};
  for (std::string_view name : {"mathrm", "operatorname"}) table[name] = {Role::roman};
  for (std::string_view name : {"hat", "bar", "tilde", "dot", "ddot", "widehat", "widetilde",
                                "overline", "underline", "overrightarrow"})
    table[name] = {Role::accent};
  for (std::string_view name :
       {"alpha",  "beta",   "gamma",    "delta",    "epsilon",    "varepsilon", "zeta",
        "eta",    "theta",  "vartheta", "iota",     "kappa",      "lambda",     "mu",
        "nu",     "xi",     "rho",      "sigma",    "tau",        "upsilon",    "phi",
        "varphi", "chi",    "psi",      "omega",    "Gamma",      "Delta",      "Theta",
        "Lambda", "Xi",     "Pi",       "Sigma",    "Upsilon",    "Phi",        "Psi",
        "Omega",  "ell",    "hbar",     "emptyset", "varnothing", "aleph",      "Re",
        "Im",     "square", "star",     "imath"})
    table[name] = {Role::greek};
  table["begin"] = {Role::begin};
  table["end"] = {Role::end};
  return table;
}

void add_tokens(Table& table) {
  constexpr std::pair<std::string_view, Meaning> k_tokens[] = {
      {"pi", {Role::token, Tok::constant, 'p'}},
      {"infty", {Role::token, Tok::infinity}},
      {"pm", {Role::token, Tok::plus_minus}},
      {"mp", {Role::token, Tok::minus_plus}},
      {"times", {Role::token, Tok::times}},
      {"cdot", {Role::token, Tok::times}},
      {"ast", {Role::token, Tok::times}},
      {"div", {Role::token, Tok::divide}},
      {"frac", {Role::token, Tok::fraction}},
      {"dfrac", {Role::token, Tok::fraction}},
      {"tfrac", {Role::token, Tok::fraction}},
      {"cfrac", {Role::token, Tok::fraction}},
      {"binom", {Role::token, Tok::binomial}},
      {"dbinom", {Role::token, Tok::binomial}},
      {"tbinom", {Role::token, Tok::binomial}},
      {"sqrt", {Role::token, Tok::root}},
      {"%", {Role::token, Tok::percent}},
      {"circ", {Role::token, Tok::degree}},
      {"degree", {Role::token, Tok::degree}},
      {"{", {Role::token, Tok::open_set}},
      {"}", {Role::token, Tok::close_set}},
      {"lbrace", {Role::token, Tok::open_set}},
      {"rbrace", {Role::token, Tok::close_set}},
      {"lbrack", {Role::token, Tok::open, '['}},
      {"rbrack", {Role::token, Tok::close, ']'}},
      {"langle", {Role::token, Tok::open, '('}},
      {"rangle", {Role::token, Tok::close, ')'}},
      {"lfloor", {Role::token, Tok::open_floor, 'f'}},
      {"rfloor", {Role::token, Tok::close_floor, 'f'}},
      {"lceil", {Role::token, Tok::open_floor, 'c'}},
      {"rceil", {Role::token, Tok::close_floor, 'c'}},
      {"lvert", {Role::token, Tok::bar}},
      {"rvert", {Role::token, Tok::bar}},
      {"vert", {Role::token, Tok::bar}},
      {"le", {Role::token, Tok::relation, 'l'}},
      {"leq", {Role::token, Tok::relation, 'l'}},
      {"leqslant", {Role::token, Tok::relation, 'l'}},
      {"ge", {Role::token, Tok::relation, 'g'}},
      {"geq", {Role::token, Tok::relation, 'g'}},
      {"geqslant", {Role::token, Tok::relation, 'g'}},
      {"lt", {Role::token, Tok::relation, '<'}},
      {"gt", {Role::token, Tok::relation, '>'}},
      {"ne", {Role::token, Tok::relation, 'n'}},
      {"neq", {Role::token, Tok::relation, 'n'}},
      {"approx", {Role::token, Tok::relation, '~'}},
      {"equiv", {Role::token, Tok::relation, '='}},
      {"pmod", {Role::token, Tok::word}},
      {"mod", {Role::token, Tok::word}},
      {"bmod", {Role::token, Tok::word}},
      {"in", {Role::token, Tok::relation, 'i'}},
      {"cup", {Role::token, Tok::separator}},
      {"lor", {Role::token, Tok::separator}},
      {"\\", {Role::token, Tok::row}},
      {"cr", {Role::token, Tok::row}},
  };
  for (const auto& [name, meaning] : k_tokens) table[name] = meaning;
}

Table make_plain() {
  Table table;
  add_functions(table);
  for (std::string_view name : {"deg", "dim", "det", "arg", "tg", "lg"}) table.erase(name);
  table["pi"] = {Role::token, Tok::constant, 'p'};
  table["sqrt"] = {Role::token, Tok::root};
  for (std::string_view name : {"inf", "infty", "infinity", "Infinity", "oo"})
    table[name] = {Role::token, Tok::infinity};
  for (std::string_view name : {"or", "and", "Or", "And", "OR", "AND"})
    table[name] = {Role::token, Tok::separator};
  for (std::string_view name : {"percent", "percents"}) table[name] = {Role::token, Tok::percent};
  for (std::string_view name : {"degree", "degrees"}) table[name] = {Role::token, Tok::degree};
  for (std::string_view name : {"alpha", "beta", "gamma", "delta", "theta", "lambda", "sigma",
                                "omega", "phi", "psi", "epsilon"})
    table[name] = {Role::greek};
  return table;
}

constexpr std::string_view k_words[] = {
    "cent", "cents", "cm",   "day",  "days", "false", "foot", "feet", "ft", "for", "gb",
    "hour", "hr",    "hrs",  "if",   "inch", "is",    "kg",   "km",   "lb", "lbs", "mb",
    "mg",   "mi",    "min",  "mins", "ml",   "mm",    "mod",  "mph",  "no", "not", "odd",
    "oz",   "sec",   "secs", "sq",   "the",  "true",  "unit", "usd",  "yd", "yes"};

struct Character {
  std::string_view utf8, latex;
};

constexpr Character k_characters[] = {
    {"π", "\\pi "},       {"∞", "\\infty "},  {"√", "\\sqrt "},    {"°", "\\circ "},
    {"×", "\\times "},    {"·", "\\cdot "},   {"⋅", "\\cdot "},    {"∙", "\\cdot "},
    {"÷", "\\div "},      {"−", "-"},         {"–", "-"},          {"—", "-"},
    {"±", "\\pm "},       {"∓", "\\mp "},     {"≤", "\\le "},      {"≥", "\\ge "},
    {"≠", "\\ne "},       {"≈", "\\approx "}, {"∈", "\\in "},      {"∪", "\\cup "},
    {"∅", "\\emptyset "}, {"½", "\\frac12"},  {"¼", "\\frac14"},   {"¾", "\\frac34"},
    {"⅓", "\\frac13"},    {"⅔", "\\frac23"},  {"²", "^2"},         {"³", "^3"},
    {"α", "\\alpha "},    {"β", "\\beta "},   {"γ", "\\gamma "},   {"δ", "\\delta "},
    {"θ", "\\theta "},    {"λ", "\\lambda "}, {"μ", "\\mu "},      {"σ", "\\sigma "},
    {"φ", "\\phi "},      {"ω", "\\omega "},  {"ε", "\\epsilon "}, {"ρ", "\\rho "},
    {"\u00A0", " "},      {"\u202F", " "},    {"\u2009", " "},     {"，", ","},
    {"、", ","},          {"；", ";"},        {"：", ":"},         {"或", " or "},
    {"和", " and "},      {"％", "\\%"},      {"（", "("},         {"）", ")"},
    {"。", " "},          {"€", " "},         {"£", " "},          {"’", "'"},
    {"⟨", "("},           {"⟩", ")"},         {"⌊", "\\lfloor "},  {"⌋", "\\rfloor "},
    {"⌈", "\\lceil "},    {"⌉", "\\rceil "},
};

const Meaning* find(const Table& table, std::string_view name) {
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace

const Meaning* command(std::string_view name) {
  static const Table k_table = [] {
    Table table = make_commands();
    add_tokens(table);
    return table;
  }();
  return find(k_table, name);
}

const Meaning* plain_name(std::string_view name) {
  static const Table k_table = make_plain();
  return find(k_table, name);
}

bool is_known_word(std::string_view lower) {
  return std::find(std::begin(k_words), std::end(k_words), lower) != std::end(k_words);
}

std::string_view latex_of(std::string_view text, size_t& size) {
  size = character_size(text, 0);
  for (const Character& character : k_characters)
    if (text.substr(0, size) == character.utf8) return character.latex;
  return {};
}

}  // namespace cohort::tasks::math
