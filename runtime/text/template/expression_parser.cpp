#include "runtime/text/template/expression_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cohort::text::jinja {

void fail_syntax(std::string what, int line) { fail("TemplateSyntaxError", std::move(what), line); }

bool TokenStream::skip_op(std::string_view op) {
  if (!current().is_op(op)) return false;
  next();
  return true;
}
bool TokenStream::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}
void TokenStream::expect_op(std::string_view op) {
  if (!skip_op(op))
    fail_syntax(fmt::format("expected token '{}', got '{}'", op, described(current())), line());
}
void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name))
    fail_syntax(fmt::format("expected token '{}', got '{}'", name, described(current())), line());
}
void TokenStream::expect(Token::Type type, std::string_view what) {
  if (!current().is(type))
    fail_syntax(fmt::format("expected token '{}', got '{}'", what, described(current())), line());
  next();
}
const Token& TokenStream::expect_any_name() {
  if (!current().is(Token::Type::name))
    fail_syntax(fmt::format("expected token 'name', got '{}'", described(current())), line());
  return next();
}

/// Counts one level of brackets or prefix operators.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > k_max_nesting)
      fail_syntax(fmt::format("an expression nests more than {} deep", k_max_nesting),
                  parser_.stream_.line());
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

ExprPtr ExpressionParser::node(ExprKind kind, int line) const {
  auto x = std::make_unique<Expr>();
  x->kind = kind;
  x->line = line;
  return x;
}

void ExpressionParser::adopt(Expr& parent, ExprPtr child) const {
  if (child) parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > k_max_height)
    fail_syntax(fmt::format("an expression of more than {} levels", k_max_height), parent.line);
  parent.items.push_back(std::move(child));
}

ExprPtr ExpressionParser::binary(Operator op, ExprPtr a, ExprPtr b) {
  auto x = node(ExprKind::binary, a->line);
  x->operators.push_back(op);
  adopt(*x, std::move(a));
  adopt(*x, std::move(b));
  return x;
}

ExprPtr ExpressionParser::conditional() {
  auto value = logical_or();
  while (stream_.skip_name("if")) {
    auto x = node(ExprKind::condition, value->line);
    adopt(*x, logical_or());
    adopt(*x, std::move(value));
    ExprPtr otherwise;
    if (stream_.skip_name("else")) {
      const Nesting nesting(*this);
      otherwise = conditional();
    }
    adopt(*x, std::move(otherwise));
    value = std::move(x);
  }
  return value;
}

ExprPtr ExpressionParser::logical_or() {
  auto left = logical_and();
  while (stream_.skip_name("or")) {
    auto x = node(ExprKind::logical_or, left->line);
    adopt(*x, std::move(left));
    adopt(*x, logical_and());
    left = std::move(x);
  }
  return left;
}

ExprPtr ExpressionParser::logical_and() {
  auto left = logical_not();
  while (stream_.skip_name("and")) {
    auto x = node(ExprKind::logical_and, left->line);
    adopt(*x, std::move(left));
    adopt(*x, logical_not());
    left = std::move(x);
  }
  return left;
}

ExprPtr ExpressionParser::logical_not() {
  if (!stream_.current().is_name("not")) return comparison();
  const Nesting nesting(*this);
  auto x = node(ExprKind::logical_not, stream_.next().line);
  adopt(*x, logical_not());
  return x;
}

ExprPtr ExpressionParser::comparison() {
  constexpr std::array<std::pair<std::string_view, Operator>, 6> operators{{{"==", Operator::eq},
                                                                            {"!=", Operator::ne},
                                                                            {"<", Operator::lt},
                                                                            {"<=", Operator::le},
                                                                            {">", Operator::gt},
                                                                            {">=", Operator::ge}}};
  auto first = sum();
  ExprPtr x;
  const auto operand = [&](Operator op) {
    if (!x) {
      x = node(ExprKind::compare, first->line);
      adopt(*x, std::move(first));
    }
    x->operators.push_back(op);
    adopt(*x, sum());
  };
  while (true) {
    const auto found = std::ranges::find_if(
        operators, [&](const auto& row) { return stream_.current().is_op(row.first); });
    if (found != operators.end()) {
      stream_.next();
      operand(found->second);
    } else if (stream_.skip_name("in")) {
      operand(Operator::in);
    } else if (stream_.current().is_name("not") && stream_.look().is_name("in")) {
      stream_.next();
      stream_.next();
      operand(Operator::not_in);
    } else {
      return x ? std::move(x) : std::move(first);
    }
  }
}

ExprPtr ExpressionParser::sum() {
  auto left = concatenation();
  while (stream_.current().is_op("+") || stream_.current().is_op("-")) {
    const auto op = stream_.next().content == "+" ? Operator::add : Operator::sub;
    left = binary(op, std::move(left), concatenation());
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  auto first = product();
  if (!stream_.current().is_op("~")) return first;
  auto x = node(ExprKind::concat, first->line);
  adopt(*x, std::move(first));
  while (stream_.skip_op("~")) adopt(*x, product());
  return x;
}

ExprPtr ExpressionParser::product() {
  constexpr std::array<std::pair<std::string_view, Operator>, 4> operators{
      {{"*", Operator::mul},
       {"/", Operator::div},
       {"//", Operator::floor_div},
       {"%", Operator::mod}}};
  auto left = power();
  while (true) {
    const auto found = std::ranges::find_if(
        operators, [&](const auto& row) { return stream_.current().is_op(row.first); });
    if (found == operators.end()) return left;
    stream_.next();
    left = binary(found->second, std::move(left), power());
  }
}

ExprPtr ExpressionParser::power() {
  auto left = unary(true);
  while (stream_.skip_op("**")) left = binary(Operator::pow, std::move(left), unary(true));
  return left;
}

ExprPtr ExpressionParser::unary(bool has_filters) {
  ExprPtr x;
  if (stream_.current().is_op("-") || stream_.current().is_op("+")) {
    const Nesting nesting(*this);
    const Token& sign = stream_.next();
    x = node(sign.content == "-" ? ExprKind::negative : ExprKind::positive, sign.line);
    adopt(*x, unary(false));
  } else {
    x = primary(false);
  }
  x = postfix(std::move(x));
  return has_filters ? filters_and_tests(std::move(x)) : std::move(x);
}

ExprPtr ExpressionParser::name_or_constant(bool has_namespaces) {
  const Token& token = stream_.next();
  const std::string& name = token.content;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    auto x = node(ExprKind::constant, token.line);
    x->constant = Value::boolean(name == "true" || name == "True");
    return x;
  }
  if (name == "none" || name == "None") {
    auto x = node(ExprKind::constant, token.line);
    x->constant = Value::none();
    return x;
  }
  if (has_namespaces && stream_.skip_op(".")) {
    auto x = node(ExprKind::namespace_attribute, token.line);
    x->name = name;
    x->attribute = stream_.expect_any_name().content;
    return x;
  }
  auto x = node(ExprKind::name, token.line);
  x->name = name;
  return x;
}

ExprPtr ExpressionParser::primary(bool has_namespaces) {
  const Token& token = stream_.current();
  if (token.is(Token::Type::name)) return name_or_constant(has_namespaces);
  if (token.is(Token::Type::text)) {
    auto x = node(ExprKind::constant, token.line);
    std::string all;
    while (stream_.current().is(Token::Type::text)) all += stream_.next().content;
    x->constant = constant_text(std::move(all));
    return x;
  }
  if (token.is(Token::Type::integer) || token.is(Token::Type::real)) {
    auto x = node(ExprKind::constant, token.line);
    x->constant = stream_.next().number;
    return x;
  }
  if (token.is_op("(")) {
    const Nesting nesting(*this);
    stream_.next();
    auto x = tuple({.has_parentheses = true});
    stream_.expect_op(")");
    return x;
  }
  if (token.is_op("[")) return list();
  if (token.is_op("{")) return dict();
  fail_syntax(fmt::format("unexpected '{}'", described(token)), token.line);
}

bool ExpressionParser::is_tuple_end(std::string_view end_name) const {
  const Token& token = stream_.current();
  return token.is(Token::Type::variable_end) || token.is(Token::Type::block_end) ||
         token.is_op(")") || (!end_name.empty() && token.is_name(end_name));
}

ExprPtr ExpressionParser::tuple(const TupleOptions& options) {
  auto x = node(ExprKind::tuple, stream_.line());
  bool is_tuple = false;
  while (true) {
    if (!x->items.empty()) stream_.expect_op(",");
    if (is_tuple_end(options.end_name)) break;
    adopt(*x, options.is_simplified   ? primary(options.has_namespaces)
              : options.has_condition ? conditional()
                                      : logical_or());
    if (!stream_.current().is_op(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return x;
  if (!x->items.empty()) return std::move(x->items.front());
  if (!options.has_parentheses)
    fail_syntax(fmt::format("Expected an expression, got '{}'", described(stream_.current())),
                stream_.line());
  return x;
}

void ExpressionParser::set_as_target(Expr& x) const {
  switch (x.kind) {
    case ExprKind::name:
    case ExprKind::namespace_attribute:
      x.is_target = true;
      return;
    case ExprKind::tuple:
      for (const auto& item : x.items) set_as_target(*item);
      return;
    default:
      fail_syntax("can't assign to this expression", x.line);
  }
}

ExprPtr ExpressionParser::target(std::string_view end_name, bool has_namespaces) {
  auto x = tuple({.is_simplified = true, .has_namespaces = has_namespaces, .end_name = end_name});
  set_as_target(*x);
  return x;
}

ExprPtr ExpressionParser::name_target() {
  const Token& token = stream_.expect_any_name();
  constexpr std::array<std::string_view, 6> constants{"true",  "True", "false",
                                                      "False", "none", "None"};
  if (std::ranges::find(constants, token.content) != constants.end())
    fail_syntax(fmt::format("can't assign to '{}'", token.content), token.line);
  auto x = node(ExprKind::name, token.line);
  x->name = token.content;
  x->is_target = true;
  return x;
}

ExprPtr ExpressionParser::list() {
  const Nesting nesting(*this);
  auto x = node(ExprKind::list, stream_.next().line);
  while (!stream_.current().is_op("]")) {
    if (!x->items.empty()) stream_.expect_op(",");
    if (stream_.current().is_op("]")) break;
    adopt(*x, expression());
  }
  stream_.expect_op("]");
  return x;
}

ExprPtr ExpressionParser::dict() {
  const Nesting nesting(*this);
  auto x = node(ExprKind::dict, stream_.next().line);
  while (!stream_.current().is_op("}")) {
    if (!x->items.empty()) stream_.expect_op(",");
    if (stream_.current().is_op("}")) break;
    adopt(*x, expression());
    stream_.expect_op(":");
    adopt(*x, expression());
  }
  stream_.expect_op("}");
  return x;
}

ExprPtr ExpressionParser::postfix(ExprPtr x) {
  while (true) {
    if (stream_.current().is_op(".") || stream_.current().is_op("[")) {
      x = subscript(std::move(x));
    } else if (stream_.current().is_op("(")) {
      x = call(std::move(x));
    } else {
      return x;
    }
  }
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr x) {
  while (true) {
    if (stream_.current().is_op("|")) {
      x = filter_chain(std::move(x), false);
    } else if (stream_.current().is_name("is")) {
      x = test(std::move(x));
    } else if (stream_.current().is_op("(")) {
      x = call(std::move(x));
    } else {
      return x;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  const Token& open = stream_.next();
  if (open.content == ".") {
    const Token& name = stream_.next();
    if (name.is(Token::Type::name)) {
      auto x = node(ExprKind::attribute, open.line);
      x->name = name.content;
      adopt(*x, std::move(object));
      return x;
    }
    if (!name.is(Token::Type::integer)) fail_syntax("expected name or number", name.line);
    auto x = node(ExprKind::item, open.line);
    auto key = node(ExprKind::constant, name.line);
    key->constant = name.number;
    adopt(*x, std::move(object));
    adopt(*x, std::move(key));
    return x;
  }
  const Nesting nesting(*this);
  auto x = subscribed(std::move(object));
  if (stream_.current().is_op(",")) {
    if (x->kind == ExprKind::slice) fail_syntax("a slice in a tuple is not supported", x->line);
    auto key = node(ExprKind::tuple, open.line);
    adopt(*key, std::move(x->items[1]));
    while (!stream_.current().is_op("]")) {
      stream_.expect_op(",");
      if (stream_.current().is_op(":")) fail_syntax("a slice in a tuple is not supported", x->line);
      adopt(*key, expression());
    }
    x->items.pop_back();
    adopt(*x, std::move(key));
  }
  stream_.expect_op("]");
  return x;
}

/// What stands in brackets: a key, or start:stop:step.
ExprPtr ExpressionParser::subscribed(ExprPtr object) {
  const int line = stream_.line();
  const auto is_end = [&] { return stream_.current().is_op("]") || stream_.current().is_op(","); };
  ExprPtr start;
  if (stream_.current().is_op("]")) fail_syntax("expected subscript expression", line);
  if (!stream_.current().is_op(":")) start = expression();
  if (!stream_.skip_op(":")) {
    auto x = node(ExprKind::item, line);
    adopt(*x, std::move(object));
    adopt(*x, std::move(start));
    return x;
  }
  auto x = node(ExprKind::slice, line);
  adopt(*x, std::move(object));
  adopt(*x, std::move(start));
  adopt(*x, stream_.current().is_op(":") || is_end() ? nullptr : expression());
  adopt(*x, stream_.skip_op(":") && !is_end() ? expression() : nullptr);
  return x;
}

CallArguments ExpressionParser::call_arguments() {
  const Nesting nesting(*this);
  const int line = stream_.line();
  stream_.expect_op("(");
  CallArguments x;
  const auto ensure = [&](bool is_right) {
    if (!is_right) fail_syntax("invalid syntax for function call expression", line);
  };
  bool needs_comma = false;
  while (!stream_.current().is_op(")")) {
    if (needs_comma) {
      stream_.expect_op(",");
      if (stream_.current().is_op(")")) break;
    }
    if (stream_.current().is_op("*")) {
      ensure(!x.star && !x.star_star);
      stream_.next();
      x.star = expression();
    } else if (stream_.current().is_op("**")) {
      ensure(!x.star_star);
      stream_.next();
      x.star_star = expression();
    } else if (stream_.current().is(Token::Type::name) && stream_.look().is_op("=")) {
      ensure(!x.star_star);
      std::string name = stream_.next().content;
      stream_.next();
      x.named.emplace_back(std::move(name), expression());
    } else {
      ensure(!x.star && !x.star_star && x.named.empty());
      x.positional.push_back(expression());
    }
    needs_comma = true;
  }
  stream_.expect_op(")");
  return x;
}

namespace {

int height_of(const CallArguments& x) {
  int height = 0;
  for (const auto& item : x.positional) height = std::max(height, item->height);
  for (const auto& [name, item] : x.named) height = std::max(height, item->height);
  if (x.star) height = std::max(height, x.star->height);
  if (x.star_star) height = std::max(height, x.star_star->height);
  return height;
}

}  // namespace

ExprPtr ExpressionParser::call(ExprPtr callee) {
  auto x = node(ExprKind::call, stream_.line());
  x->arguments = call_arguments();
  x->height = height_of(x->arguments) + 1;
  adopt(*x, std::move(callee));
  return x;
}

ExprPtr ExpressionParser::filter_chain(ExprPtr value, bool begins) {
  while (begins || stream_.current().is_op("|")) {
    if (!begins) stream_.next();
    begins = false;
    const Token& token = stream_.expect_any_name();
    auto x = node(ExprKind::filter, token.line);
    x->name = token.content;
    while (stream_.skip_op(".")) x->name += "." + stream_.expect_any_name().content;
    if (stream_.current().is_op("(")) x->arguments = call_arguments();
    x->height = height_of(x->arguments) + 1;
    adopt(*x, std::move(value));
    value = std::move(x);
  }
  return value;
}

ExprPtr ExpressionParser::test(ExprPtr value) {
  const int line = stream_.next().line;
  const bool is_negated = stream_.skip_name("not");
  auto x = node(ExprKind::test, line);
  x->name = stream_.expect_any_name().content;
  while (stream_.skip_op(".")) x->name += "." + stream_.expect_any_name().content;
  const Token& token = stream_.current();
  const bool is_operand = token.is(Token::Type::name) || token.is(Token::Type::text) ||
                          token.is(Token::Type::integer) || token.is(Token::Type::real) ||
                          token.is_op("[") || token.is_op("{");
  if (token.is_op("(")) {
    x->arguments = call_arguments();
  } else if (is_operand && !token.is_name("else") && !token.is_name("or") &&
             !token.is_name("and")) {
    if (token.is_name("is")) fail_syntax("You cannot chain multiple tests with is", token.line);
    x->arguments.positional.push_back(postfix(primary(false)));
  }
  x->height = height_of(x->arguments) + 1;
  adopt(*x, std::move(value));
  if (!is_negated) return x;
  auto negation = node(ExprKind::logical_not, line);
  adopt(*negation, std::move(x));
  return negation;
}

}  // namespace cohort::text::jinja
