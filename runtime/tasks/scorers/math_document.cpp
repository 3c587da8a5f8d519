// From tokens to values: lists, brackets, relations, units.
#include <algorithm>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/math_expression.hpp"

namespace cohort::tasks::math {
namespace {

constexpr std::pair<Tok, Tok> k_brackets[] = {{Tok::open, Tok::close},
                                              {Tok::open_set, Tok::close_set},
                                              {Tok::open_group, Tok::close_group},
                                              {Tok::open_floor, Tok::close_floor},
                                              {Tok::open_matrix, Tok::close_matrix}};

bool is_opening(Tok kind) {
  return std::ranges::find(k_brackets, kind, &std::pair<Tok, Tok>::first) != std::end(k_brackets);
}

bool is_closing(Tok kind) {
  return std::ranges::find(k_brackets, kind, &std::pair<Tok, Tok>::second) != std::end(k_brackets);
}

/// Returns for each opening token its closing one, for others 0; empty if they do not pair.
std::vector<uint32_t> pair_brackets(const std::vector<Token>& tokens) {
  std::vector<uint32_t> match(tokens.size()), open;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    if (is_opening(tokens[i].kind)) open.push_back(i);
    if (!is_closing(tokens[i].kind)) continue;
    std::pair<Tok, Tok> pair{open.empty() ? Tok::symbol : tokens[open.back()].kind, tokens[i].kind};
    if (std::ranges::find(k_brackets, pair) == std::end(k_brackets)) return {};
    match[open.back()] = i;
    open.pop_back();
  }
  return open.empty() ? match : std::vector<uint32_t>{};
}

/// "cents", "Cent." and "cent" are one unit.
std::string unit_word(std::string_view word) {
  struct Synonym {
    std::string_view word, unit;
  };
  constexpr Synonym k_synonyms[] = {
      {"centimeter", "cm"}, {"centimetre", "cm"}, {"meter", "m"},       {"metre", "m"},
      {"kilometer", "km"},  {"kilometre", "km"},  {"millimeter", "mm"}, {"millimetre", "mm"},
      {"gram", "g"},        {"kilogram", "kg"},   {"hr", "hour"},       {"h", "hour"},
      {"min", "minute"},    {"sec", "second"},    {"s", "second"},      {"feet", "foot"},
      {"ft", "foot"},       {"inche", "inch"},    {"in", "inch"},       {"lb", "pound"},
      {"usd", "dollar"},    {"pmod", "mod"},      {"bmod", "mod"},      {"liter", "l"},
      {"litre", "l"},       {"square", "sq"}};
  std::string lower = to_lower(word);
  if (lower.size() > 2 && lower.ends_with('s') && !lower.ends_with("ss")) lower.pop_back();
  for (const Synonym& synonym : k_synonyms)
    if (lower == synonym.word) return std::string(synonym.unit);
  return lower;
}

class Builder {
 public:
  explicit Builder(Document& document)
      : document_(document),
        match_(pair_brackets(document.tokens.list)),
        expressions_(document, match_) {}

  void build() {
    auto count = static_cast<uint32_t>(document_.tokens.list.size());
    if (match_.size() != count) {
      document_.items.push_back(text(0, count));
      return;
    }
    document_.items = list(0, count, true);
    if (document_.items.empty()) document_.items.push_back(text(0, count));
  }

 private:
  using Range = std::pair<uint32_t, uint32_t>;

  Tok kind(uint32_t index) const { return document_.tokens.list[index].kind; }
  char mark(uint32_t index) const { return document_.tokens.list[index].mark; }

  Value text(uint32_t first, uint32_t last) const {
    Value value;
    value.owner = &document_;
    value.first = first;
    value.last = last;
    return value;
  }

  /// Cuts at the tokens of the given kinds that no bracket holds; empty pieces are left out.
  template <class IsCut>
  std::vector<Range> cut(uint32_t first, uint32_t last, IsCut is_cut) const {
    std::vector<Range> pieces;
    uint32_t begin = first;
    for (uint32_t i = first; i <= last; ++i) {
      if (i == last || is_cut(i)) {
        if (i > begin) pieces.emplace_back(begin, i);
        begin = i + 1;
      } else if (match_[i] > i) {
        i = match_[i];
      }
    }
    return pieces;
  }

  /// The items of a list; `is_top`: rows and unions part them too, sets are taken apart.
  std::vector<Value> list(uint32_t first, uint32_t last, bool is_top) {
    std::vector<Value> values;
    auto pieces = cut(first, last, [&](uint32_t i) {
      return kind(i) == Tok::comma || kind(i) == Tok::separator || (is_top && kind(i) == Tok::row);
    });
    for (auto [begin, end] : pieces) append(values, value(begin, end), is_top);
    return values;
  }

  /// Adds `item`; "x in S" as S, a set at the top as its items, a ± b as two.
  void append(std::vector<Value>& values, Value item, bool is_top) {
    if (item.kind == Value::Kind::relation && item.relations == "i" && is_name(item.items[0])) {
      Value inner = std::move(item.items[1]);
      item = std::move(inner);
    }
    if (is_top && item.kind == Value::Kind::set) {
      for (Value& inner : item.items) values.push_back(std::move(inner));
      return;
    }
    Value* scalar = &item;
    if (item.kind == Value::Kind::relation && item.relations == "=") scalar = &item.items[1];
    bool is_double = scalar->kind == Value::Kind::scalar && has_sign_choice(scalar->node);
    if (is_double) {
      scalar->sign = -1;
      values.push_back(item);
      scalar->sign = 1;
    }
    values.push_back(std::move(item));
  }

  /// Nodes are in the order of their making: those of the expression end with its root.
  bool has_sign_choice(int32_t root) const {
    const Node& node = document_.at(root);
    if (node.op == Op::plus_minus || node.op == Op::minus_plus) return true;
    for (int32_t child : {node.a, node.b})
      if (child >= 0 && has_sign_choice(child)) return true;
    return false;
  }

  Value value(uint32_t first, uint32_t last) {
    Value whole = text(first, last);
    if (first == last || depth_ >= k_max_depth) return whole;
    ++depth_;
    if (!relation(whole) && !bracket(whole)) scalar(whole);
    --depth_;
    return whole;
  }

  bool relation(Value& whole) {
    std::string marks;
    uint32_t first = whole.first;
    bool is_led =
        kind(first) == Tok::relation && (mark(first) == '=' || mark(first) == '~');  // "= 5"
    if (is_led) ++first;
    auto sides = cut(first, whole.last, [&](uint32_t i) {
      if (kind(i) != Tok::relation) return false;
      marks += mark(i);
      return true;
    });
    if (marks.empty() && !is_led) return false;
    if (sides.size() != marks.size() + 1) return true;  // stays a text
    if (sides.size() == 1) {
      whole = value(sides[0].first, sides[0].second);
      return true;
    }
    whole.kind = Value::Kind::relation;
    whole.relations = marks;
    for (auto [begin, end] : sides) whole.items.push_back(value(begin, end));
    return true;
  }

  /// A set, tuple, interval or matrix that is the whole value, or brackets around one.
  bool bracket(Value& whole) {
    uint32_t first = whole.first, last = whole.last - 1;
    if (!is_opening(kind(first)) || match_[first] != last) return ratio(whole);
    if (kind(first) == Tok::open_matrix) return matrix(whole);
    if (kind(first) == Tok::open_set) {
      auto items = list(first + 1, last, false);
      if (has_text(items)) return true;  // {x : x > 0}
      whole.kind = Value::Kind::set;
      whole.items = std::move(items);
      return true;
    }
    if (kind(first) == Tok::open_floor) return false;
    auto items = cut(first + 1, last, [&](uint32_t i) { return kind(i) == Tok::comma; });
    bool is_plain =
        mark(first) == (mark(last) == ')' ? '(' : '[') || kind(first) == Tok::open_group;
    if (items.size() == 1 && is_plain) {
      whole = value(first + 1, last);
      return true;
    }
    if (items.size() < 2) return true;
    // "{1, 2}" without backslashes is meant as a set.
    whole.kind = kind(first) == Tok::open_group ? Value::Kind::set : Value::Kind::sequence;
    whole.open = mark(first);
    whole.close = mark(last);
    for (auto [begin, end] : items) whole.items.push_back(value(begin, end));
    return true;
  }

  static bool has_text(const std::vector<Value>& items) {
    return std::any_of(items.begin(), items.end(), [](const Value& x) {
      return x.kind == Value::Kind::text && x.last - x.first > 1;
    });
  }

  /// a : b : c; two terms are a quotient.
  bool ratio(Value& whole) {
    auto terms = cut(whole.first, whole.last, [&](uint32_t i) { return kind(i) == Tok::colon; });
    if (terms.size() < 3) return false;
    whole.kind = Value::Kind::sequence;
    whole.open = whole.close = ':';
    for (auto [begin, end] : terms) whole.items.push_back(value(begin, end));
    return true;
  }

  bool matrix(Value& whole) {
    auto rows =
        cut(whole.first + 1, whole.last - 1, [&](uint32_t i) { return kind(i) == Tok::row; });
    whole.open = mark(whole.first);
    for (auto [first, last] : rows) {
      size_t cuts = 0;
      auto cells = cut(first, last, [&](uint32_t i) {
        cuts += kind(i) == Tok::column ? 1 : 0;
        return kind(i) == Tok::column;
      });
      bool is_ragged = whole.columns != 0 && cells.size() != whole.columns;
      if (is_ragged || cells.size() != cuts + 1) return true;  // stays a text
      whole.columns = static_cast<uint32_t>(cells.size());
      for (auto [begin, end] : cells) whole.items.push_back(value(begin, end));
    }
    if (whole.columns != 0) whole.kind = Value::Kind::matrix;
    return true;
  }

  /// An expression and, behind it, its unit.
  void scalar(Value& whole) {
    uint32_t first = whole.first, last = whole.last;
    if (last - first == 1 && kind(first) == Tok::word && document_.tokens.list[first].size == 1) {
      document_.words[first].kind = Tok::variable;  // \text{B}
    }
    int32_t node = expressions_.parse(first, last);
    if (node < 0) return;
    std::string unit;
    for (uint32_t i = expressions_.end(); i < last; ++i) {
      if (unit.empty() && kind(i) == Tok::word) {
        if (int32_t larger = multiplied(node, to_lower(text_at(i))); larger != node) {
          node = larger;
          if (node < 0) return;
          continue;
        }
      }
      if (!add_unit(unit, i)) return;
    }
    whole.kind = Value::Kind::scalar;
    whole.node = node;
    whole.unit = std::move(unit);
  }

  std::string_view text_at(uint32_t index) const {
    return document_.tokens.text(document_.tokens.list[index]);
  }

  /// 5 million is 5 * 10^6. Returns `node` if `word` is no such number.
  int32_t multiplied(int32_t node, std::string_view word) {
    constexpr std::pair<std::string_view, int32_t> k_numbers[] = {
        {"hundred", 2}, {"thousand", 3}, {"million", 6}, {"billion", 9}, {"trillion", 12}};
    for (const auto& [name, zeros] : k_numbers)
      if (word == name) return expressions_.scale(node, zeros);
    return node;
  }

  bool add_unit(std::string& unit, uint32_t index) const {
    const Token& token = document_.tokens.list[index];
    switch (token.kind) {
      case Tok::word: {
        std::string word = unit_word(document_.tokens.text(token));
        if (word == "unit" || word == "the") return true;
        if (!unit.empty() && unit.back() != '/') unit += ' ';
        unit += word;
        return true;
      }
      case Tok::subscript:
        unit.append("_").append(document_.tokens.text(token));
        return unit.find('_') == 0;
      case Tok::power:
        return !unit.empty();
      case Tok::number:
        if (unit.empty() || (kind(index - 1) != Tok::power && kind(index - 1) != Tok::open_group &&
                             !unit.ends_with("mod")))
          return false;
        unit.append("^").append(document_.tokens.text(token));
        return true;
      case Tok::divide:
        unit += '/';
        return true;
      case Tok::variable:  // km/h
        if (!unit.ends_with('/')) return false;
        unit += unit_word(document_.tokens.text(token));
        return true;
      case Tok::open_group:  // cm^{2}
      case Tok::close_group:
        return !unit.empty();
      default:
        return false;
    }
  }

  Document& document_;
  std::vector<uint32_t> match_;
  ExpressionParser expressions_;
  int depth_ = 0;
};

bool has_letters_only(const std::vector<Token>& list, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; ++i)
    if (list[i].kind != Tok::variable && list[i].kind != Tok::constant &&
        list[i].kind != Tok::comma)
      return false;
  return true;
}

bool is_letters(const Token& token) {
  return token.kind == Tok::word || token.kind == Tok::variable || token.kind == Tok::constant;
}

}  // namespace

Document::Document(Tokens list) : tokens(std::move(list)), words(tokens.list) {
  nodes.push_back({Op::infinity, 0, -1, -1, 0});
  nodes.push_back({Op::negate, 0, k_infinity, -1, 0});
  Builder(*this).build();
}

std::string spelled(const Value& value) {
  const Tokens& tokens = value.owner->tokens;
  std::string out;
  bool has_only_letters = true;
  for (uint32_t i = value.first; i < value.last; ++i) {
    const Token& token = tokens.list[i];
    has_only_letters = has_only_letters && is_letters(token);
    std::string text = written(tokens, token);
    out += token.kind == Tok::word ? to_lower(text) : text;
  }
  return has_only_letters && out.size() > 1 ? to_lower(out) : out;
}

bool is_name(const Value& value) {
  const auto& list = value.owner->tokens.list;
  uint32_t count = value.last - value.first;
  auto is_letter_token = [&](uint32_t i) {
    return list[i].kind == Tok::variable || list[i].kind == Tok::constant;
  };
  if (count == 0) return false;
  bool is_tuple = list[value.first].kind == Tok::open;
  if (!is_tuple && !is_letter_token(value.first) && list[value.first].kind != Tok::word)
    return false;
  if (count == 1) return !is_tuple;
  if (is_tuple) return has_letters_only(list, value.first + 1, value.last - 1);
  if (count < 4 || list[value.first + 1].kind != Tok::open ||
      list[value.last - 1].kind != Tok::close)
    return false;
  return has_letters_only(list, value.first + 2, value.last - 1);
}

}  // namespace cohort::tasks::math
