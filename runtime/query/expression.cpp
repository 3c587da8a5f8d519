#include "runtime/query/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/base/suggest.hpp"
#include "runtime/query/tokens.hpp"

namespace cohort::query {

/// Recursive descent, one function a level of binding. Each returns the place of its node.
class Parser {
 public:
  Parser(std::string_view query, std::vector<Token> tokens)
      : query_(query), tokens_(std::move(tokens)) {}

  Expected<Expression> run() {
    COHORT_TRY(disjunction());
    if (peek().kind != TokenKind::end) return error(peek(), "an operator or the end is missing");
    return std::move(result_);
  }

 private:
  using Op = Expression::Op;
  using Node = Expression::Node;
  using Place = Expected<uint32_t>;

  const Token& peek() const { return tokens_[next_]; }
  const Token& take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool is(TokenKind kind, std::string_view text) const {
    return peek().kind == kind && peek().text == text;
  }
  Error error(const Token& token, std::string_view what) const {
    return query_error(query_, token.at, what);
  }
  Type type_of(uint32_t node) const { return result_.nodes_[node].type; }
  uint32_t add(Node node) {
    result_.nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(result_.nodes_.size() - 1);
  }
  Expected<void> want(const Token& token, uint32_t node, Type wanted) const {
    if (type_of(node) == wanted) return {};
    return error(token, fmt::format("a {} stands where '{}' needs a {}", to_string(type_of(node)),
                                    token.text, to_string(wanted)));
  }

  /// One level of left-associative operators between operands of `wanted`, which make `wanted`.
  template <class Operand>
  Place chain(TokenKind kind, std::initializer_list<std::pair<std::string_view, Op>> operators,
              Type wanted, Operand operand) {
    COHORT_ASSIGN(uint32_t left, operand());
    while (true) {
      std::optional<Op> op;
      for (const auto& [text, value] : operators)
        if (is(kind, text)) op = value;
      if (!op) return left;
      const Token token = take();
      COHORT_TRY(want(token, left, wanted));
      COHORT_ASSIGN(uint32_t right, operand());
      COHORT_TRY(want(token, right, wanted));
      left = add({*op, wanted, left, right, {}, nullptr});
      COHORT_TRY(bounded(token));
    }
  }

  /// A long chain nests to the left: its nodes count as depth, for evaluation recurses.
  Expected<void> bounded(const Token& token) {
    if (result_.nodes_.size() <= k_max_nodes) return {};
    return error(token, "more than 1000 parts");
  }

  Place disjunction() {
    return chain(TokenKind::name, {{"or", Op::or_}}, Type::truth, [this] { return conjunction(); });
  }
  Place conjunction() {
    return chain(TokenKind::name, {{"and", Op::and_}}, Type::truth, [this] { return negation(); });
  }

  Place negation() {
    if (!is(TokenKind::name, "not")) return comparison();
    const Token token = take();
    COHORT_TRY(enter(token));
    COHORT_ASSIGN(uint32_t operand, negation());
    --depth_;
    COHORT_TRY(want(token, operand, Type::truth));
    return add({Op::not_, Type::truth, operand, 0, {}, nullptr});
  }

  static std::optional<Op> comparison_of(const Token& token) {
    static const std::pair<std::string_view, Op> k_signs[] = {
        {"<", Op::less},           {"<=", Op::less_equal}, {">", Op::greater},
        {">=", Op::greater_equal}, {"==", Op::equal},      {"!=", Op::unequal}};
    if (token.kind == TokenKind::sign)
      for (const auto& [text, op] : k_signs)
        if (token.text == text) return op;
    return std::nullopt;
  }

  Place comparison() {
    COHORT_ASSIGN(uint32_t left, sum());
    if (is(TokenKind::sign, "~") || is(TokenKind::sign, "!~")) return match(left);
    const bool is_contains = is(TokenKind::name, "contains");
    const auto op = is_contains ? std::optional(Op::contains) : comparison_of(peek());
    if (!op) return left;
    const Token token = take();
    COHORT_ASSIGN(uint32_t right, sum());
    if (is_contains) COHORT_TRY(want(token, left, Type::text));
    COHORT_TRY(want(token, right, type_of(left)));
    if (type_of(left) == Type::truth && *op != Op::equal && *op != Op::unequal)
      return error(token, "truths have no order");
    if (comparison_of(peek())) return error(peek(), "two comparisons in a row (write and)");
    return add({*op, Type::truth, left, right, {}, nullptr});
  }

  Place match(uint32_t left) {
    const Token sign = take();
    COHORT_TRY(want(sign, left, Type::text));
    const Token text = take();
    if (text.kind != TokenKind::text) return error(text, "no regular expression in quotes");
    auto pattern = tasks::Pattern::compile(text.text);
    if (!pattern) return error(text, pattern.error().detail);
    result_.patterns_.push_back(std::move(*pattern));
    const auto place = static_cast<uint32_t>(result_.patterns_.size() - 1);
    const uint32_t node = add({Op::matches, Type::truth, left, place, {}, nullptr});
    return sign.text == "~" ? node : add({Op::not_, Type::truth, node, 0, {}, nullptr});
  }

  Place sum() {
    return chain(TokenKind::sign, {{"+", Op::add}, {"-", Op::subtract}}, Type::number,
                 [this] { return product(); });
  }
  Place product() {
    return chain(TokenKind::sign, {{"*", Op::multiply}, {"/", Op::divide}, {"%", Op::remainder}},
                 Type::number, [this] { return unary(); });
  }

  Place unary() {
    if (!is(TokenKind::sign, "-")) return primary();
    const Token token = take();
    COHORT_TRY(enter(token));
    COHORT_ASSIGN(uint32_t operand, unary());
    --depth_;
    COHORT_TRY(want(token, operand, Type::number));
    return add({Op::negate, Type::number, operand, 0, {}, nullptr});
  }

  Expected<void> enter(const Token& token) {
    if (++depth_ <= Expression::k_max_depth) return {};
    return error(token, fmt::format("nested deeper than {}", Expression::k_max_depth));
  }

  Place primary() {
    const Token token = take();
    if (token.kind == TokenKind::number)
      return add({Op::constant, Type::number, 0, 0, token.number, nullptr});
    if (token.kind == TokenKind::text)
      return add({Op::constant, Type::text, 0, 0, token.text, nullptr});
    if (token.kind == TokenKind::name) return named(token);
    if (token.text != "(" || token.kind != TokenKind::sign)
      return error(token, "a field, number, text or ( is missing");
    COHORT_TRY(enter(token));
    COHORT_ASSIGN(uint32_t inner, disjunction());
    --depth_;
    if (!is(TokenKind::sign, ")")) return error(peek(), "a closing ) is missing");
    take();
    return inner;
  }

  Place named(const Token& token) {
    if (token.text == "true" || token.text == "false")
      return add({Op::constant, Type::truth, 0, 0, token.text == "true", nullptr});
    for (const auto& [family, op] : {std::pair{std::string_view("reward"), Op::reward},
                                     std::pair{std::string_view("metric"), Op::metric}}) {
      if (token.text.starts_with(std::string(family) + "."))
        return add({op, Type::number, 0, 0, token.text.substr(family.size() + 1), nullptr});
      if (token.text == family) return quoted_name(token, op);
    }
    const Field* field = find_field(token.text);
    if (field != nullptr) return add({Op::field, field->type, 0, 0, {}, field});
    std::vector<std::string> names;
    for (const Field& known : fields()) names.emplace_back(known.name);
    return error(token, fmt::format("no field '{}'{} (traj fields lists them)", token.text,
                                    did_you_mean(token.text, names)));
  }

  /// reward["a/b"]: names that are no names of the language.
  Place quoted_name(const Token& family, Op op) {
    const std::string how = fmt::format("write {0}.NAME or {0}[\"NAME\"]", family.text);
    if (!is(TokenKind::sign, "[")) return error(family, how);
    take();
    const Token name = take();
    if (name.kind != TokenKind::text || !is(TokenKind::sign, "]")) return error(name, how);
    take();
    return add({op, Type::number, 0, 0, name.text, nullptr});
  }

  static constexpr size_t k_max_nodes = 1000;

  std::string_view query_;
  std::vector<Token> tokens_;
  size_t next_ = 0;
  int depth_ = 0;
  Expression result_;
};

Expected<Expression> Expression::parse(std::string_view query) {
  if (query.size() > k_max_bytes)
    return Error{Errc::invalid_argument,
                 fmt::format("query: {} bytes long, the longest is {}", query.size(), k_max_bytes)};
  COHORT_ASSIGN(std::vector<Token> tokens, tokenize(query));
  return Parser(query, std::move(tokens)).run();
}

Expected<Expression> Expression::parse(std::string_view query, Type wanted) {
  COHORT_ASSIGN(Expression expression, parse(query));
  if (expression.type() != wanted)
    return Error{Errc::invalid_argument,
                 fmt::format("query: '{}' is a {}, a {} is needed", query,
                             to_string(expression.type()), to_string(wanted))};
  return expression;
}

Value Expression::evaluate(const proto::Trajectory& trajectory) const {
  return evaluate(static_cast<uint32_t>(nodes_.size() - 1), trajectory);
}

std::vector<std::string> Expression::metrics() const {
  std::vector<std::string> names;
  for (const Node& node : nodes_)
    if (node.op == Op::metric) names.push_back(std::get<std::string>(node.constant));
  return names;
}

bool Expression::needs_body() const {
  return std::ranges::any_of(
      nodes_, [](const Node& node) { return node.field != nullptr && node.field->needs_body; });
}

bool Expression::holds(const proto::Trajectory& trajectory) const {
  return std::get<bool>(evaluate(trajectory));
}

double Expression::number(const proto::Trajectory& trajectory) const {
  return std::get<double>(evaluate(trajectory));
}

bool Expression::compare(const Node& node, const Value& left, const Value& right) const {
  if (const double* number = std::get_if<double>(&left);
      number != nullptr && (std::isnan(*number) || std::isnan(std::get<double>(right))))
    return false;  // QUERY-1
  switch (node.op) {
    case Op::less:
      return left < right;
    case Op::less_equal:
      return left <= right;
    case Op::greater:
      return left > right;
    case Op::greater_equal:
      return left >= right;
    case Op::equal:
      return left == right;
    default:
      return left != right;
  }
}

Value Expression::evaluate(uint32_t place, const proto::Trajectory& x) const {
  const Node& node = nodes_[place];
  auto left_number = [&] { return std::get<double>(evaluate(node.left, x)); };
  auto right_number = [&] { return std::get<double>(evaluate(node.right, x)); };
  auto left_text = [&] { return std::get<std::string>(evaluate(node.left, x)); };
  auto is_left = [&] { return std::get<bool>(evaluate(node.left, x)); };
  switch (node.op) {
    case Op::constant:
      return node.constant;
    case Op::field:
      return node.field->get(x);
    case Op::reward:
      return reward_part(x, std::get<std::string>(node.constant));
    case Op::metric:
      return query::metric(x, std::get<std::string>(node.constant));
    case Op::negate:
      return -left_number();
    case Op::not_:
      return !is_left();
    case Op::and_:
      return is_left() && std::get<bool>(evaluate(node.right, x));
    case Op::or_:
      return is_left() || std::get<bool>(evaluate(node.right, x));
    case Op::add:
      return left_number() + right_number();
    case Op::subtract:
      return left_number() - right_number();
    case Op::multiply:
      return left_number() * right_number();
    case Op::divide:
      return left_number() / right_number();
    case Op::remainder:
      return std::fmod(left_number(), right_number());
    case Op::matches:
      return patterns_[node.right].search(left_text()).has_value();
    case Op::contains:
      return left_text().find(std::get<std::string>(evaluate(node.right, x))) != std::string::npos;
    default:
      return compare(node, evaluate(node.left, x), evaluate(node.right, x));
  }
}

}  // namespace cohort::query
