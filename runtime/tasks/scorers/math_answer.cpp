#include "runtime/tasks/scorers/math_answer.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/math_value.hpp"

namespace cohort::tasks::math {
namespace {

using Kind = Value::Kind;

/// A scalar of `node` in the place of `whole`.
Value scalar_of(const Value& whole, int32_t node) {
  Value value = whole;
  value.kind = Kind::scalar;
  value.node = node;
  value.items.clear();
  return value;
}

class Comparison {
 public:
  explicit Comparison(const AnswerRules& rules) : rules_(rules) {}

  bool same_lists(const std::vector<Value>& a, const std::vector<Value>& b) {
    if (a.size() != b.size()) return false;
    if (a.size() == 1) return same(a[0], b[0]);
    // A perfect matching: "same" is no equivalence (a missing unit equals every unit).
    Matching matching(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      if (!place(i, a, b, matching)) return false;
    return true;
  }

 private:
  static constexpr size_t k_none = ~size_t{0};

  struct Matching {
    explicit Matching(size_t n) : holds(n, k_none), taker(n, k_none), table(n * n, -1) {}
    std::vector<size_t> holds;  // of a: its partner in b
    std::vector<size_t> taker;  // of b: its partner in a
    std::vector<char> table;    // whether a pair is the same; -1: not asked yet
  };

  /// Finds a partner for a[root] along one augmenting path.
  bool place(size_t root, const std::vector<Value>& a, const std::vector<Value>& b, Matching& m) {
    std::vector<size_t> queue = {root}, came_from(b.size(), k_none);
    for (size_t head = 0; head < queue.size(); ++head) {
      size_t i = queue[head];
      for (size_t j = 0; j < b.size(); ++j) {
        if (came_from[j] != k_none) continue;
        char& cell = m.table[i * b.size() + j];
        if (cell < 0) cell = same(a[i], b[j]) ? 1 : 0;
        if (cell == 0) continue;
        came_from[j] = i;
        if (m.taker[j] != k_none) {
          queue.push_back(m.taker[j]);
          continue;
        }
        for (size_t at = j; at != k_none;) {  // turns the path round
          size_t owner = came_from[at];
          size_t released = m.holds[owner];
          m.taker[at] = owner;
          m.holds[owner] = at;
          at = released;
        }
        return true;
      }
    }
    return false;
  }

  bool same(const Value& a, const Value& b) {
    if (!budget_.take()) return false;
    if (a.kind == Kind::relation || b.kind == Kind::relation) return same_relations(a, b);
    if (a.kind == Kind::text || b.kind == Kind::text) {
      uint32_t tokens = a.last - a.first + b.last - b.first;
      return budget_.take(tokens) && spelled(a) == spelled(b);
    }
    if (a.kind != b.kind) return a.kind == Kind::matrix ? is_vector(a, b) : is_vector(b, a);
    switch (a.kind) {
      case Kind::scalar:
        return same_scalars(a, b);
      case Kind::set:
        return same_lists(a.items, b.items);
      case Kind::matrix:
        return a.columns == b.columns && a.open == b.open && same_items(a, b);
      default:
        return a.open == b.open && a.close == b.close && same_items(a, b);
    }
  }

  bool same_items(const Value& a, const Value& b) {
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                      [&](const Value& x, const Value& y) { return same(x, y); });
  }

  /// A matrix of one row or column is the tuple of its cells.
  bool is_vector(const Value& matrix, const Value& tuple) {
    bool is_one = matrix.kind == Kind::matrix && matrix.open == '(' &&
                  (matrix.columns == 1 || matrix.columns == matrix.items.size());
    return is_one && tuple.kind == Kind::sequence && tuple.open == '(' && tuple.close == ')' &&
           same_items(matrix, tuple);
  }

  // ---- relations

  static bool is_definition(const Value& x) {
    return x.kind == Kind::relation && x.relations == "=" && is_name(x.items[0]);
  }

  /// What "exact = … \approx rounded" may be taken for: the exact part, or the last side.
  static std::vector<Value> readings(const Value& relation) {
    size_t cut = relation.kind == Kind::relation ? relation.relations.find('~') : std::string::npos;
    if (cut == std::string::npos) return {};
    Value exact = relation;
    if (cut == 0 && is_name(relation.items[0])) {
      exact.relations = "=";
      exact.items = {relation.items[0], relation.items.back()};
    } else if (cut == 0) {
      exact = relation.items[0];
    } else {
      exact.relations.resize(cut);
      exact.items.resize(cut + 1);
    }
    return {exact, relation.items.back()};
  }

  bool same_relations(const Value& a, const Value& b) {
    for (const Value& reading : readings(a))
      if (same(reading, b)) return true;
    for (const Value& reading : readings(b))
      if (same(a, reading)) return true;
    if (a.relations.find('~') != std::string::npos || b.relations.find('~') != std::string::npos)
      return false;
    if (a.kind != Kind::relation) return same_relations(b, a);
    if (b.kind != Kind::relation) return relation_is(a, b);
    if (is_definition(a) && is_definition(b)) {
      std::string x = spelled(a.items[0]), y = spelled(b.items[0]);
      bool is_value_of_function = (x == "y" && b.items[0].last - b.items[0].first > 1) ||
                                  (y == "y" && a.items[0].last - a.items[0].first > 1);
      if ((x == y || is_value_of_function) && same(a.items[1], b.items[1])) return true;
    }
    if (a.relations.size() == 1 && b.relations.size() == 1) return same_equations(a, b);
    if (a.relations == b.relations && same_items(a, b)) return true;
    if (is_mirror(a, b)) return true;
    auto x = interval_of(a), y = interval_of(b);
    return x && y && same(*x, *y) && spelled(variable_of(a)) == spelled(variable_of(b));
  }

  /// The value that a relation says: x = 5, 2 + 3 = 5, a = b = 5, 1 < x < 2.
  bool relation_is(const Value& a, const Value& b) {
    bool all_equal =
        std::all_of(a.relations.begin(), a.relations.end(), [](char c) { return c == '='; });
    if (!all_equal) {
      auto interval = interval_of(a);
      return interval && same(*interval, b);
    }
    bool has_value = a.items.size() > 2 || is_definition(a) || same(a.items[0], a.items[1]);
    return has_value && same(a.items.back(), b);
  }

  static char flipped(char mark) {
    constexpr std::string_view k_marks = "<>lg", k_flipped = "><gl";
    size_t at = k_marks.find(mark);
    return at == std::string_view::npos ? mark : k_flipped[at];
  }

  bool is_mirror(const Value& a, const Value& b) {
    size_t n = a.relations.size();
    if (n != b.relations.size()) return false;
    for (size_t i = 0; i < n; ++i)
      if (a.relations[i] != flipped(b.relations[n - 1 - i]) || a.relations[i] == 'i') return false;
    return std::equal(a.items.begin(), a.items.end(), b.items.rbegin(), b.items.rend(),
                      [&](const Value& x, const Value& y) { return same(x, y); });
  }

  /// Two equations, or two inequalities, of which one is a multiple of the other.
  bool same_equations(const Value& a, const Value& b) {
    for (const Value* x : {&a, &b})
      if (x->items[0].kind != Kind::scalar || x->items[1].kind != Kind::scalar)
        return a.relations == b.relations && same_items(a, b);
    char left = a.relations[0], right = b.relations[0];
    bool turns = left == flipped(right) && left != right;
    if (left != right && !turns) return false;
    if (left == 'i') return same_items(a, b);
    uint64_t x[2], y[2];
    for (uint32_t seed = 0; seed < 2; ++seed) {
      auto difference = [&](const Value& v) {
        Residue l = residue_of(v.items[0], seed, budget_),
                r = residue_of(v.items[1], seed, budget_);
        return l.is_known && r.is_known ? field_subtract(l.value, r.value) : 0;
      };
      x[seed] = difference(a);
      y[seed] = difference(b);
      if (x[seed] == 0 || y[seed] == 0) return same_items(a, b) && !turns;
    }
    if (field_multiply(x[0], y[1]) != field_multiply(x[1], y[0])) return false;
    if (left == '=' || left == 'n') return true;
    for (uint32_t point = 0; point < k_points; ++point) {  // what is multiplied by: its sign
      double p = numeric_difference(a, point), q = numeric_difference(b, point);
      if (p != 0 && q != 0) return (p > 0) == ((q > 0) != turns);
    }
    return false;
  }

  double numeric_difference(const Value& relation, uint32_t point) {
    Numeric l = numeric_at(relation.items[0], point, budget_);
    Numeric r = numeric_at(relation.items[1], point, budget_);
    double difference = (l.value - r.value).real();
    bool is_clear = l.is_known && r.is_known && std::abs(difference) > 8 * (l.error + r.error);
    return is_clear ? difference : 0;
  }

  static const Value& variable_of(const Value& relation) {
    for (const Value& side : relation.items)
      if (is_name(side)) return side;
    return relation;
  }

  /// x > a, a < x, a < x <= b as intervals.
  static std::optional<Value> interval_of(const Value& a) {
    size_t n = a.items.size();
    std::string marks = a.relations;
    std::vector<const Value*> sides;
    for (const Value& side : a.items) sides.push_back(&side);
    bool goes_down = marks[0] == '>' || marks[0] == 'g';
    if (goes_down) {
      std::reverse(marks.begin(), marks.end());
      for (char& c : marks) c = flipped(c);
      std::reverse(sides.begin(), sides.end());
    }
    for (char c : marks)
      if (c != '<' && c != 'l') return std::nullopt;
    Value interval = a;
    interval.kind = Kind::sequence;
    interval.items.clear();
    interval.open = '(';
    interval.close = ')';
    if (n == 2 && is_name(*sides[0])) {
      interval.items = {scalar_of(a, k_minus_infinity), *sides[1]};
      if (marks[0] == 'l') interval.close = ']';
    } else if (n == 2 && is_name(*sides[1])) {
      interval.items = {*sides[0], scalar_of(a, k_infinity)};
      if (marks[0] == 'l') interval.open = '[';
    } else if (n == 3 && is_name(*sides[1])) {
      interval.items = {*sides[0], *sides[2]};
      if (marks[0] == 'l') interval.open = '[';
      if (marks[1] == 'l') interval.close = ']';
    } else {
      return std::nullopt;
    }
    return interval;
  }

  // ---- scalars

  bool same_scalars(const Value& a, const Value& b) {
    if (!units_agree(a.unit, b.unit)) return false;
    if (equal(a, b) || is_measure(a, b) || is_measure(b, a)) return true;
    Value x = a, y = b;
    bool is_marked = strip(x), is_other_marked = strip(y);
    if (is_marked == is_other_marked) return false;
    const Value& bare = is_marked ? b : a;
    bool is_percent = mark_of(is_marked ? a : b) == Op::percent;
    if (is_percent && (rules_.strict_percent || !is_at_least_one(bare))) return false;
    return equal(x, y);
  }

  static bool units_agree(const std::string& a, const std::string& b) {
    if (a.empty() || b.empty() || a == b) return true;
    if (a.find_first_of("_^/") != std::string::npos || b.find_first_of("_^/") != std::string::npos)
      return false;
    std::vector<std::string_view> x = words_of(a), y = words_of(b);
    if (x.size() > y.size()) std::swap(x, y);
    return std::all_of(x.begin(), x.end(), [&](std::string_view word) {  // "red apple", "apple"
      return std::find(y.begin(), y.end(), word) != y.end();
    });
  }

  /// True if `a` is "5 m", a number and behind a space a letter that may be a unit, and `b`, which
  /// has no variables, the number.
  bool is_measure(const Value& a, const Value& b) {
    constexpr std::string_view k_units = "mgshL";
    const Node& product = a.owner->at(a.node);
    if (product.op != Op::multiply || a.is_negated || has_variables(b)) return false;
    const Node& letter = a.owner->at(product.b);
    if (letter.op != Op::variable || letter.token + 1 != a.last) return false;
    std::string_view unit = a.owner->text(letter);
    bool is_unit = unit.size() == 1 && k_units.find(unit[0]) != std::string_view::npos &&
                   a.owner->words[letter.token].has_space;
    if (!is_unit || !step_of(scalar_of(a, product.a))) return false;
    Value number = scalar_of(a, product.a);
    number.unit = unit == "L" ? "l" : unit == "h" ? "hour" : unit == "s" ? "second" : unit;
    return units_agree(number.unit, b.unit) && equal(number, b);
  }

  /// Returns percent or degree if that is what the expression ends with, else number.
  static Op mark_of(const Value& x) {
    const Node* node = &x.owner->at(x.node);
    if (node->op == Op::negate) node = &x.owner->at(node->a);
    return node->op == Op::percent || node->op == Op::degree ? node->op : Op::number;
  }

  /// Takes the mark away, if there is one; a minus before it stays.
  static bool strip(Value& x) {
    if (mark_of(x) == Op::number) return false;
    const Node& node = x.owner->at(x.node);
    bool is_negative = node.op == Op::negate;
    x.node = is_negative ? x.owner->at(node.a).a : node.a;
    x.is_negated = is_negative;
    return true;
  }

  bool is_at_least_one(const Value& x) {
    if (has_variables(x)) return false;
    Numeric value = numeric_at(x, 0, budget_);
    return value.is_known && std::abs(value.value) >= 1 - value.error;
  }

  bool equal(const Value& a, const Value& b) {
    Residue x = residue_of(a, 0, budget_), y = residue_of(b, 0, budget_);
    bool are_known = x.is_known && y.is_known;
    if (are_known && x.value == y.value) return true;
    bool is_decided = are_known && !x.is_formal && !y.is_formal;
    // Of two plain numbers neither is rounded.
    std::optional<double> step = step_of(a), other_step = step_of(b);
    if (step && !other_step && *step > 0) return is_rounded(a, b, *step);
    if (other_step && !step && *other_step > 0) return is_rounded(b, a, *other_step);
    return !is_decided && agree_numerically(a, b);
  }

  bool agree_numerically(const Value& a, const Value& b) {
    uint32_t points = has_variables(a) || has_variables(b) ? k_points : 1;
    bool has_agreed = false;
    for (uint32_t point = 0; point < points; ++point) {
      Numeric x = numeric_at(a, point, budget_), y = numeric_at(b, point, budget_);
      if (!x.is_known || !y.is_known) continue;
      bool agrees = std::abs(x.value - y.value) <= 8 * (x.error + y.error);
      if (!agrees && !x.left_reals && !y.left_reals) return false;
      has_agreed = has_agreed || agrees;
      // Where no variable is, a root of a negative number is as good as another.
      if (!agrees && points == 1) return false;
    }
    return has_agreed;
  }

  /// Returns, of a plain number, one unit of its last place; 0 if it cannot stand for what it was
  /// rounded from.
  static std::optional<double> step_of(const Value& value) {
    constexpr size_t k_least_digits = 6;
    const Node* node = &value.owner->at(value.node);
    if (node->op == Op::negate) node = &value.owner->at(node->a);
    if (node->op != Op::number) return std::nullopt;
    std::string_view digits = value.owner->text(*node);
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    int32_t decimals = value.owner->words[node->token].decimals;
    bool counts = decimals > 0 && digits.size() >= k_least_digits;
    return counts ? std::pow(10.0, -decimals) : 0.0;
  }

  /// True if `literal`, of that last place, is `exact` rounded to it, or cut off behind it.
  bool is_rounded(const Value& literal, const Value& exact, double step) {
    if (has_variables(exact)) return false;
    Numeric x = numeric_at(literal, 0, budget_), y = numeric_at(exact, 0, budget_);
    if (!x.is_known || !y.is_known || std::abs(y.value.imag()) > y.error) return false;
    double from = x.value.real(), to = y.value.real();
    if (from < 0) from = -from, to = -to;
    constexpr double k_slack = 1e-6;   // of a step, for the rounding of this very computation
    double rest = (to - from) / step;  // cut: 0 … 1, rounded: -1/2 … 1/2
    return rest > -0.5 - k_slack && rest < 1 - k_slack;
  }

  AnswerRules rules_;
  Budget budget_;
};

/// Returns `text` without math signs, stars of Markdown and full stops around it.
std::string_view bare(std::string_view text) {
  for (;;) {
    size_t before = text.size();
    text = trim(text);
    while (text.starts_with("**") && text.ends_with("**") && text.size() > 4)
      text = text.substr(2, text.size() - 4);
    if (text.ends_with('.') || text.ends_with(',') || text.ends_with(';')) text.remove_suffix(1);
    if (text.size() > 1 && text.front() == '"' && text.back() == '"')
      text = text.substr(1, text.size() - 2);
    if (text.size() == before) return text;
  }
}

bool same_readings(std::string_view a, std::string_view b, const AnswerRules& rules, bool joins,
                   bool& is_ambiguous) {
  Tokens x = tokenize(a, joins), y = tokenize(b, joins);
  is_ambiguous = x.has_joined_comma || y.has_joined_comma;
  if (x.list.empty() || y.list.empty()) return false;
  if (x == y) return true;
  Document left(std::move(x)), right(std::move(y));
  return Comparison(rules).same_lists(left.items, right.items);
}

}  // namespace

bool same_answer(std::string_view a, std::string_view b, const AnswerRules& rules) {
  a = bare(a);
  b = bare(b);
  if (a.empty() || b.empty()) return false;
  if (a == b) return true;
  if (a.size() > k_max_bytes || b.size() > k_max_bytes) return false;
  bool is_ambiguous = false;
  if (same_readings(a, b, rules, true, is_ambiguous)) return true;
  // "1,234" is one number or two: the answers are the same if they are in either reading.
  return is_ambiguous && same_readings(a, b, rules, false, is_ambiguous);
}

std::string normal_form(std::string_view answer) {
  answer = bare(answer);
  if (answer.size() > k_max_bytes) return std::string(answer);
  Tokens tokens = tokenize(answer, true);
  std::string out;
  bool was_word = false;
  for (const Token& token : tokens.list) {
    bool is_word = token.kind == Tok::word;
    if (was_word && is_word) out += ' ';
    was_word = is_word;
    out += written(tokens, token);
  }
  return out;
}

}  // namespace cohort::tasks::math
