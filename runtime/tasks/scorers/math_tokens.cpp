#include "runtime/tasks/scorers/math_tokens.hpp"

#include <algorithm>
#include <utility>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/math_commands.hpp"

namespace cohort::tasks::math {
namespace {

struct Sign {
  std::string_view text;
  Tok kind;
  char mark;
};

/// Longer ones first.
constexpr Sign k_signs[] = {
    {"**", Tok::power, 0},      {"<=", Tok::relation, 'l'}, {">=", Tok::relation, 'g'},
    {"!=", Tok::relation, 'n'}, {"==", Tok::relation, '='}, {":=", Tok::relation, '='},
    {"=", Tok::relation, '='},  {"<", Tok::relation, '<'},  {">", Tok::relation, '>'},
    {"+", Tok::plus, 0},        {"-", Tok::minus, 0},       {"*", Tok::times, 0},
    {"/", Tok::divide, 0},      {"!", Tok::factorial, 0},   {"%", Tok::percent, 0},
    {":", Tok::colon, 0},       {",", Tok::comma, 0},       {";", Tok::separator, 0},
    {"(", Tok::open, '('},      {"[", Tok::open, '['},      {")", Tok::close, ')'},
    {"]", Tok::close, ']'},     {"{", Tok::open_group, 0},  {"}", Tok::close_group, 0},
    {"|", Tok::bar, 0},         {"&", Tok::column, 0},
};

/// Returns a subscript without typesetting.
std::string plain_subscript(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '\\') {
      size_t end = at + 1;
      while (end < text.size() && is_letter(text[end])) ++end;
      std::string_view name = text.substr(at + 1, end - at - 1);
      const Meaning* meaning = command(name);
      if (meaning == nullptr || meaning->role == Role::greek || meaning->role == Role::token)
        out.append("\\").append(name);
      at = std::max(end, at + 2) - 1;
    } else if (c != '{' && c != '}' && c != '$' && !is_space(c)) {
      out += c;
    }
  }
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view text, bool joins_commas) : in_(text), joins_commas_(joins_commas) {
    out_.pool.reserve(text.size() + 16);
    out_.list.reserve(text.size() / 2 + 4);
  }

  Tokens run() && {
    while (at_ < in_.size()) step();
    join_temperatures();
    return std::move(out_);
  }

 private:
  /// 25°C: a unit, no angle times C.
  void join_temperatures() {
    auto& list = out_.list;
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      Token& scale = list[i + 1];
      bool is_scale = (scale.kind == Tok::variable || scale.kind == Tok::word) && scale.size == 1 &&
                      (out_.text(scale) == "C" || out_.text(scale) == "F");
      if (list[i].kind != Tok::degree || !is_scale) continue;
      scale.kind = Tok::word;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  bool in_text() const { return at_ < text_end_; }
  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  std::string_view rest() const { return in_.substr(at_); }
  Token* last() { return out_.list.empty() ? nullptr : &out_.list.back(); }
  bool follows(Tok kind) { return last() != nullptr && last()->kind == kind; }
  void skip_spaces() {
    while (is_space(peek())) ++at_;
  }

  Token& push(Tok kind, std::string_view text, char mark = 0) {
    out_.list.push_back({kind, mark, std::exchange(has_space_, false),
                         static_cast<uint32_t>(out_.pool.size()),
                         static_cast<uint32_t>(text.size())});
    out_.pool += text;
    return out_.list.back();
  }

  void step() {
    char c = peek();
    if (at_ == text_end_ && c == '}' && text_end_ != 0) {
      ++at_;
      text_end_ = 0;
      has_space_ = true;
    } else if (is_space(c) || c == '~' || c == '$') {
      has_space_ = true;
      ++at_;
    } else if (c == '\\') {
      backslash();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number();
    } else if (is_letter(c)) {
      in_text() ? words() : letters();
    } else if ((static_cast<unsigned char>(c) & 0x80) != 0) {
      character();
    } else {
      punctuation(c);
    }
  }

  void character() {
    size_t size = 1;
    std::string_view latex = latex_of(rest(), size);
    std::string_view whole = in_.substr(at_, size);
    at_ += size;
    if (latex.empty()) {  // other scripts: units and words, letter by letter
      push(size > 1 ? Tok::word : Tok::symbol, whole);
      return;
    }
    // An own lexer for the few bytes that stand for it: its tokens are appended.
    Tokens inner = Lexer(latex, joins_commas_).run();
    if (inner.list.empty()) has_space_ = true;
    for (const Token& token : inner.list) {
      bool is_letter_like = token.kind == Tok::variable;
      Token& copy = push(token.kind, inner.text(token), token.mark);
      copy.decimals = token.decimals;
      if (is_letter_like) suffixes(copy);
    }
  }

  /// Joins groups of three digits: "1,000", "1{,}000", "1\,000", "1 000". Returns the separator's
  /// bytes if one is here and three digits, and no fourth, follow it.
  size_t thousands_separator() const {
    constexpr std::string_view k_always[] = {"{,}", "\\,", "\\!", ",\\!", "\\ ", " "};
    auto three = [&](size_t at) {
      for (size_t i = 0; i < 3; ++i)
        if (at + i >= in_.size() || !is_digit(in_[at + i])) return false;
      return at + 3 >= in_.size() || !is_digit(in_[at + 3]);
    };
    for (std::string_view separator : k_always)
      if (rest().starts_with(separator) && three(at_ + separator.size())) return separator.size();
    if (joins_commas_ && peek() == ',' && three(at_ + 1)) return 1;
    return 0;
  }

  void number() {
    Token& token = push(Tok::number, "");
    size_t digits = 0;
    auto take = [&] {
      while (is_digit(peek())) {
        out_.pool += in_[at_++];
        ++digits;
      }
    };
    take();
    bool has_group = digits >= 1 && digits <= 3 && out_.pool[token.begin] != '0';
    while (has_group) {
      size_t separator = thousands_separator();
      if (separator == 0) break;
      if (separator == 1 && peek() == ',') out_.has_joined_comma = true;
      at_ += separator;
      take();
    }
    if (peek() == '.' && is_digit(peek(1))) {
      size_t whole = digits;
      ++at_;
      take();
      token.decimals = static_cast<int32_t>(digits - whole);
    } else if (peek() == '.' && rest().substr(1).starts_with("\\overline")) {
      ++at_;
    }
    exponent(token);
    token.size = static_cast<uint32_t>(digits);
    std::string_view tail = rest();  // 5th
    for (std::string_view ordinal : {"th", "st", "nd", "rd"})
      if (tail.starts_with(ordinal) && (tail.size() == 2 || !is_letter(tail[2]))) at_ += 2;
  }

  /// "2e5", "1E-7", "1e-05" as programs print them; "2e-3" and "2e" are products with e.
  void exponent(Token& token) {
    if (peek() != 'e' && peek() != 'E') return;
    size_t sign = peek(1) == '-' || peek(1) == '+' ? 1 : 0;
    size_t count = 0;
    while (is_digit(peek(1 + sign + count))) ++count;
    bool is_program = sign == 0 || peek() == 'E' || count >= 2;
    if (count == 0 || count > 3 || !is_program) return;
    int32_t value = 0;
    for (size_t i = 0; i < count; ++i) value = value * 10 + (peek(1 + sign + i) - '0');
    token.decimals -= peek(1) == '-' ? -value : value;
    at_ += 1 + sign + count;
  }

  void letters() {
    size_t size = 1;
    while (is_letter(peek(size))) ++size;
    std::string_view run = in_.substr(at_, size);
    if (size == 1) return variable(run);
    const Meaning* meaning = plain_name(run);
    if (meaning != nullptr && !is_unit_here(run, size)) {
      at_ += size;
      return apply(*meaning, run);
    }
    if (is_known_word(to_lower(run)) || run == "min" || run == "sec") return word(size);
    if (size < 4 && is_adjective(size)) return word(size);
    if (size >= 4) {
      const Meaning* head = plain_name(run.substr(0, size - 1));  // "sinx"
      if (head == nullptr || head->kind != Tok::function) return word(size);
      at_ += size - 1;
      return apply(*head, run.substr(0, size - 1));
    }
    const Meaning* head = size == 3 ? plain_name(run.substr(0, 2)) : nullptr;  // "lnx"
    if (head != nullptr && head->kind == Tok::function) {
      at_ += 2;
      return apply(*head, run.substr(0, 2));
    }
    for (size_t i = 0; i < size; ++i) variable(in_.substr(at_, 1));
  }

  /// "red apples": a short run before a word is one itself.
  bool is_adjective(size_t size) const {
    size_t begin = at_ + size;
    while (begin < in_.size() && is_space(in_[begin])) ++begin;
    size_t end = begin;
    while (end < in_.size() && is_letter(in_[end])) ++end;
    return begin > at_ + size && end - begin >= 4 &&
           plain_name(in_.substr(begin, end - begin)) == nullptr;
  }

  /// "5 min", "5 sec": no function where nothing follows that could be its argument.
  bool is_unit_here(std::string_view run, size_t size) const {
    if (run != "min" && run != "sec") return false;
    std::string_view next = trim(in_.substr(at_ + size));
    return next.empty() || !(is_letter(next[0]) || is_digit(next[0]) || next[0] == '(' ||
                             next[0] == '{' || next[0] == '\\' || next[0] == '^');
  }

  void word(size_t size) {
    push(Tok::word, in_.substr(at_, size));
    at_ += size;
  }

  /// A run of letters inside \text{}.
  void words() {
    size_t size = 1;
    auto continues = [&](char c) {
      return is_letter(c) || ((c == '-' || c == '\'') && is_letter(peek(size + 1)));
    };
    while (at_ + size < text_end_ && continues(peek(size))) ++size;
    std::string_view run = in_.substr(at_, size);
    const Meaning* meaning = plain_name(run);
    if (meaning != nullptr && (meaning->kind == Tok::separator || meaning->kind == Tok::percent ||
                               meaning->kind == Tok::degree)) {
      at_ += size;
      return apply(*meaning, run);
    }
    word(size);
  }

  void variable(std::string_view letter) {
    at_ += letter.size();
    char c = letter[0];
    bool is_alone = peek() != '_' && peek() != '\'';
    if ((c == 'e' || c == 'i') && is_alone) {
      push(Tok::constant, letter, c);
      return;
    }
    suffixes(push(Tok::variable, letter));
  }

  /// Takes the subscript and the primes of the variable just pushed into its name.
  void suffixes(Token& token) {
    auto primes = [&] {
      for (; peek() == '\''; ++at_) out_.pool += '\'';
    };
    primes();
    size_t begin = at_;
    skip_spaces();
    if (peek() == '_') {
      ++at_;
      out_.pool += '_';
      out_.pool += subscript();
      primes();
    } else {
      at_ = begin;
    }
    token.size = static_cast<uint32_t>(out_.pool.size()) - token.begin;
  }

  std::string subscript() {
    skip_spaces();
    size_t begin = at_;
    if (peek() == '{') {
      size_t end = closing_brace(in_, at_);
      at_ = std::min(end + 1, in_.size());
      return plain_subscript(in_.substr(begin + 1, end - begin - 1));
    }
    if (peek() == '\\') {
      ++at_;
      while (is_letter(peek())) ++at_;
      std::string name = plain_subscript(in_.substr(begin, at_ - begin));
      return name.empty() && peek() == '{' ? subscript() : name;
    }
    if (is_digit(peek()))
      while (is_digit(peek())) ++at_;
    else if (at_ < in_.size())
      ++at_;
    return std::string(in_.substr(begin, at_ - begin));
  }

  void backslash() {
    ++at_;
    size_t begin = at_;
    if (at_ == in_.size()) return;
    while (is_letter(peek())) ++at_;
    if (at_ == begin) ++at_;
    std::string_view name = in_.substr(begin, at_ - begin);
    const Meaning* meaning = command(name);
    if (meaning == nullptr) {
      push(Tok::symbol, in_.substr(begin - 1, at_ - begin + 1));
      return;
    }
    apply(*meaning, name);
  }

  void apply(const Meaning& meaning, std::string_view name) {
    switch (meaning.role) {
      case Role::skip:
        if (peek() == '.' && (name == "left" || name == "right")) ++at_;
        return;
      case Role::space:
        has_space_ = true;
        return;
      case Role::token:
        push(meaning.kind, name, meaning.mark);
        return;
      case Role::greek: {
        std::string spelled = "\\";
        if (name == "varnothing") name = "emptyset";
        spelled += name.starts_with("var") ? name.substr(3) : name;
        suffixes(push(Tok::variable, spelled));
        return;
      }
      default:
        return with_argument(meaning.role, name);
    }
  }

  void with_argument(Role role, std::string_view name) {
    if (role == Role::roman && peek() == '*') ++at_;
    skip_spaces();
    if (peek() != '{') {  // \mathbb R: what follows is mathematics as ever
      if (role == Role::accent) push(Tok::symbol, name);
      return;
    }
    size_t end = closing_brace(in_, at_);
    std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
    std::string_view plain = trim(inside);
    bool is_one_letter = plain.size() == 1 && is_letter(plain[0]);
    auto consume = [&] { at_ = std::min(end + 1, in_.size()); };
    if (role == Role::begin || role == Role::end) {
      consume();
      return environment(role == Role::begin, plain);
    }
    if (role == Role::argument) return consume();
    if (role == Role::text || (role == Role::roman && is_name(plain))) {
      ++at_;
      has_space_ = true;
      if (!in_text()) text_end_ = end;
      if (role == Role::roman) roman(plain, end);
      return;
    }
    if (is_one_letter) {
      consume();
      bool is_unit = role == Role::roman && follows(Tok::number) && plain != "e" && plain != "i";
      if (is_unit) {
        push(Tok::word, plain);
      } else if (role == Role::accent) {
        suffixes(push(Tok::variable, std::string(name) + " " + plain[0]));
      } else if (plain == "e" || plain == "i") {
        push(Tok::constant, plain, plain[0]);
      } else {
        suffixes(push(Tok::variable, plain));
      }
    } else if (role == Role::accent) {
      bool is_digits = !plain.empty() && std::all_of(plain.begin(), plain.end(), is_digit);
      if (is_digits && name == "overline" && follows(Tok::number)) {
        consume();
        push(Tok::repeating, plain);
      } else {
        push(Tok::symbol, name);
      }
    }
  }

  static bool is_name(std::string_view text) {
    return text.size() > 1 && std::all_of(text.begin(), text.end(), is_letter);
  }

  /// \mathrm{cm}, \operatorname{arctan}; the lexer stands inside the braces.
  void roman(std::string_view name, size_t end) {
    const Meaning* meaning = plain_name(name);
    if (meaning == nullptr) return;  // a word
    at_ = std::min(end + 1, in_.size());
    text_end_ = 0;
    apply(*meaning, name);
  }

  void environment(bool begins, std::string_view name) {
    constexpr std::string_view k_matrices[] = {"pmatrix", "bmatrix",     "matrix", "vmatrix",
                                               "array",   "smallmatrix", "Bmatrix"};
    if (std::find(std::begin(k_matrices), std::end(k_matrices), name) == std::end(k_matrices)) {
      push(Tok::symbol, name);
      return;
    }
    skip_spaces();
    if (begins && name == "array" && peek() == '{')
      at_ = std::min(closing_brace(in_, at_) + 1, in_.size());
    char mark = name == "vmatrix" ? '|' : name == "Bmatrix" ? '{' : '(';
    push(begins ? Tok::open_matrix : Tok::close_matrix, "", mark);
  }

  void caret() {
    ++at_;
    size_t begin = at_;
    skip_spaces();
    size_t end = in_.size();
    bool has_group = peek() == '{';
    if (has_group) {
      end = closing_brace(in_, at_);
      ++at_;
      skip_spaces();
    }
    std::string_view inside = trim(in_.substr(at_, end - std::min(at_, end)));
    auto whole = [&](std::string_view text) {
      return has_group ? inside == text : inside.starts_with(text);
    };
    if (whole("\\circ") || whole("°") || whole("\\degree")) {
      at_ = has_group ? std::min(end + 1, in_.size()) : at_ + (inside[0] == '\\' ? 5 : 2);
      if (!has_group && inside.starts_with("\\degree")) at_ += 2;
      push(Tok::degree, "");
      return;
    }
    for (std::string_view ordinal : {"th", "st", "nd", "rd"}) {
      if (!has_group || replace_all(replace_all(inside, "\\text{", ""), "}", "") != ordinal)
        continue;
      at_ = std::min(end + 1, in_.size());
      return;
    }
    at_ = begin;
    push(Tok::power, "");
  }

  void underscore() {
    ++at_;
    if (follows(Tok::function)) {
      push(Tok::under, "");
    } else if (follows(Tok::number)) {
      std::string base = subscript();
      push(Tok::subscript, base);
    } else {
      push(Tok::symbol, "_");
    }
  }

  void punctuation(char c) {
    if (c == '^') return caret();
    if (c == '_') return underscore();
    std::string_view here = rest();
    bool is_tight = at_ > 0 && !is_space(in_[at_ - 1]);  // "3!=6": a factorial
    const Sign* sign = std::find_if(std::begin(k_signs), std::end(k_signs), [&](const Sign& x) {
      return here.starts_with(x.text) && !(is_tight && x.text == "!=");
    });
    bool is_known = sign != std::end(k_signs);
    at_ += is_known ? sign->text.size() : 1;
    if (is_known)
      push(sign->kind, "", sign->mark);
    else if (c != '.' || !trim(rest()).empty())
      push(Tok::symbol, here.substr(0, 1));
  }

  std::string_view in_;
  bool joins_commas_;
  size_t at_ = 0;
  size_t text_end_ = 0;  // the brace that ends the \text{} under way; 0: none
  bool has_space_ = false;
  Tokens out_;
};

}  // namespace

Tokens tokenize(std::string_view text, bool joins_commas) {
  return Lexer(text, joins_commas).run();
}

bool operator==(const Tokens& a, const Tokens& b) {
  if (a.list.size() != b.list.size()) return false;
  for (size_t i = 0; i < a.list.size(); ++i) {
    const Token &x = a.list[i], &y = b.list[i];
    if (x.kind != y.kind || x.mark != y.mark || x.decimals != y.decimals) return false;
    bool is_spelled = x.kind == Tok::number || x.kind == Tok::variable || x.kind == Tok::word ||
                      x.kind == Tok::symbol || x.kind == Tok::subscript ||
                      x.kind == Tok::repeating ||
                      (x.kind == Tok::function && x.mark == static_cast<char>(Function::formal));
    if (is_spelled && a.text(x) != b.text(y)) return false;
  }
  return true;
}

}  // namespace cohort::tasks::math
