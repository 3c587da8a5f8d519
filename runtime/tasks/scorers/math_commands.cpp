#include "runtime/tasks/scorers/math_commands.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "runtime/tasks/scorers/answer_text.hpp"

namespace cohort::tasks::math {
namespace {

using Table = std::unordered_map<std::string_view, Meaning>;

struct Named {
  std::string_view names;  // separated by spaces
  Tok kind;
  char mark = 0;
};

/// In the order of Function.
constexpr std::string_view k_functions[] = {
    "sin",         "cos",         "tan tg",      "cot ctg", "sec",  "csc",
    "arcsin asin", "arccos acos", "arctan atan", "sinh",    "cosh", "tanh",
    "ln log",      "lg",          "exp",         "max",     "min",  "gcd lcm det dim deg arg"};
static_assert(std::size(k_functions) == static_cast<size_t>(Function::formal) + 1);

constexpr std::pair<Role, std::string_view> k_roles[] = {
    {Role::skip,
     "left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle "
     "textstyle scriptstyle limits nolimits $ ( ) [ ] ! bf rm it mathstrut boxed fbox protect "
     "nobreak vec mathopen mathclose pounds euro"},
    {Role::space, "quad qquad , : ; > space thinspace enspace medspace thickspace hfill newline"},
    {Role::argument, "hspace vspace phantom hphantom label tag"},
    {Role::text, "text textbf textit textrm texttt textsf textnormal textup mbox hbox emph textsc"},
    {Role::font,
     "mathbf mathit mathbb mathcal boldsymbol mathfrak mathsf mathtt mathscr bm ensuremath "
     "mathnormal"},
    {Role::roman, "mathrm operatorname"},
    {Role::accent, "hat bar tilde dot ddot widehat widetilde overline underline overrightarrow"},
    {Role::greek,
     "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
     "rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon "
     "Phi Psi Omega ell hbar emptyset varnothing aleph Re Im square star imath"},
    {Role::begin, "begin"},
    {Role::end, "end"},
};

constexpr Named k_tokens[] = {
    {"pi", Tok::constant, 'p'},
    {"infty", Tok::infinity},
    {"pm", Tok::plus_minus},
    {"mp", Tok::minus_plus},
    {"times cdot ast", Tok::times},
    {"div", Tok::divide},
    {"frac dfrac tfrac cfrac", Tok::fraction},
    {"binom dbinom tbinom", Tok::binomial},
    {"sqrt", Tok::root},
    {"%", Tok::percent},
    {"circ degree", Tok::degree},
    {"{ lbrace", Tok::open_set},
    {"} rbrace", Tok::close_set},
    {"lbrack", Tok::open, '['},
    {"rbrack", Tok::close, ']'},
    {"langle", Tok::open, '('},
    {"rangle", Tok::close, ')'},
    {"lfloor", Tok::open_floor, 'f'},
    {"rfloor", Tok::close_floor, 'f'},
    {"lceil", Tok::open_floor, 'c'},
    {"rceil", Tok::close_floor, 'c'},
    {"lvert rvert vert", Tok::bar},
    {"le leq leqslant", Tok::relation, 'l'},
    {"ge geq geqslant", Tok::relation, 'g'},
    {"lt", Tok::relation, '<'},
    {"gt", Tok::relation, '>'},
    {"ne neq", Tok::relation, 'n'},
    {"approx", Tok::relation, '~'},
    {"equiv", Tok::relation, '='},
    {"pmod mod bmod", Tok::word},
    {"in", Tok::relation, 'i'},
    {"cup lor", Tok::separator},
    {"\\ cr", Tok::row},
};

constexpr Named k_plain[] = {
    {"pi", Tok::constant, 'p'},
    {"sqrt", Tok::root},
    {"inf infty infinity Infinity oo", Tok::infinity},
    {"or and Or And OR AND", Tok::separator},
    {"percent percents", Tok::percent},
    {"degree degrees", Tok::degree},
};

void add(Table& table, std::string_view names, Meaning meaning) {
  for (std::string_view name : words_of(names)) table[name] = meaning;
}

void add_functions(Table& table) {
  for (size_t id = 0; id < std::size(k_functions); ++id)
    add(table, k_functions[id], {Role::token, Tok::function, static_cast<char>(id)});
}

Table make_commands() {
  Table table;
  add_functions(table);
  for (const auto& [role, names] : k_roles) add(table, names, {role});
  for (std::string_view blank : {" ", "\n", "\t"}) table[blank] = {Role::space};
  for (const Named& x : k_tokens) add(table, x.names, {Role::token, x.kind, x.mark});
  return table;
}

Table make_plain() {
  Table table;
  add_functions(table);
  for (std::string_view name : {"deg", "dim", "det", "arg", "tg", "lg"}) table.erase(name);
  for (const Named& x : k_plain) add(table, x.names, {Role::token, x.kind, x.mark});
  add(table, "alpha beta gamma delta theta lambda sigma omega phi psi epsilon", {Role::greek});
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
  static const Table k_table = make_commands();
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
