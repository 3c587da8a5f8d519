/// Expressions of a template: Interpreter::eval and what it needs.
#include <fmt/format.h>

#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/printing.hpp"

namespace cohort::text::jinja {

Value Interpreter::eval(const Expr& x, Scope& scope) {
  const Budget::Level level(budget);
  budget.step();
  switch (x.kind) {
    case ExprKind::constant:
      return x.constant;
    case ExprKind::name:
      return eval_name(x, scope);
    case ExprKind::tuple:
    case ExprKind::list:
    case ExprKind::dict:
      return eval_container(x, scope);
    case ExprKind::attribute:
      return attribute_of(*this, eval(*x.items[0], scope), x.name);
    case ExprKind::item:
      return eval_item(x, scope);
    case ExprKind::slice:
      return eval_slice(x, scope);
    case ExprKind::call:
      return eval_call(x, scope, nullptr);
    case ExprKind::filter:
      return apply_filter(x, eval(*x.items[0], scope), scope);
    case ExprKind::test:
      return eval_test(x, scope);
    case ExprKind::negative:
      return negative_of(eval(*x.items[0], scope));
    case ExprKind::positive:
      return positive_of(eval(*x.items[0], scope));
    case ExprKind::logical_not:
      return Value::boolean(!is_true(eval(*x.items[0], scope)));
    case ExprKind::logical_and: {
      Value a = eval(*x.items[0], scope);
      return is_true(a) ? eval(*x.items[1], scope) : a;
    }
    case ExprKind::logical_or: {
      Value a = eval(*x.items[0], scope);
      return is_true(a) ? a : eval(*x.items[1], scope);
    }
    case ExprKind::binary:
      return eval_binary(x, scope);
    case ExprKind::compare:
      return eval_compare(x, scope);
    case ExprKind::concat:
      return eval_concat(x, scope);
    case ExprKind::condition:
      return eval_condition(x, scope);
    case ExprKind::namespace_attribute:
      break;  // a target only
  }
  fail("TemplateRuntimeError", "an expression that has no value", x.line);
}

Value Interpreter::eval_name(const Expr& x, Scope& scope) {
  const Value& value = scope.at(x.place);
  return value.is(Kind::missing) ? Value::undefined_name(x.name) : value;
}

Value Interpreter::eval_container(const Expr& x, Scope& scope) {
  if (x.kind == ExprKind::dict) {
    Dict::Entries entries;
    for (size_t i = 0; i + 1 < x.items.size(); i += 2) {
      Value key = eval(*x.items[i], scope);
      entries.emplace_back(std::move(key), eval(*x.items[i + 1], scope));
    }
    return make_dict(budget, std::move(entries));
  }
  std::vector<Value> items;
  items.reserve(x.items.size());
  for (const auto& item : x.items) items.push_back(eval(*item, scope));
  return x.kind == ExprKind::list ? make_list(budget, std::move(items))
                                  : make_tuple(budget, std::move(items));
}

Value Interpreter::eval_item(const Expr& x, Scope& scope) {
  const Value object = eval(*x.items[0], scope);
  return item_of(*this, object, eval(*x.items[1], scope));
}

Value Interpreter::eval_slice(const Expr& x, Scope& scope) {
  const auto part = [&](size_t i) { return x.items[i] ? eval(*x.items[i], scope) : Value::none(); };
  const Value object = part(0);
  const Value start = part(1), stop = part(2), step = part(3);
  return slice_of(*this, object, start, stop, step);
}

Arguments Interpreter::eval_arguments(const CallArguments& x, Scope& scope) {
  Arguments arguments;
  for (const auto& item : x.positional) arguments.positional.push_back(eval(*item, scope));
  for (const auto& [name, item] : x.named) arguments.named.emplace_back(name, eval(*item, scope));
  if (x.star) {
    auto rest = items_of(*this, eval(*x.star, scope));
    arguments.positional.insert(arguments.positional.end(), rest.begin(), rest.end());
  }
  if (x.star_star) {
    const Value rest = eval(*x.star_star, scope);
    if (!rest.is(Kind::dict)) fail("TypeError", "argument after ** must be a mapping");
    for (const auto& [key, value] : rest.dict().entries) {
      budget.step();
      if (!key.is(Kind::text)) fail("TypeError", "keywords must be strings");
      arguments.named.emplace_back(key.text(), value);
    }
  }
  for (size_t i = 0; i < arguments.named.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      budget.step();
      if (arguments.named[i].first == arguments.named[j].first)
        fail("TypeError", fmt::format("got multiple values for keyword argument '{}'",
                                      arguments.named[i].first));
    }
  return arguments;
}

Value Interpreter::eval_call(const Expr& x, Scope& scope, const Value* caller) {
  const Value callee = eval(*x.items[0], scope);
  Arguments arguments = eval_arguments(x.arguments, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return call_value(*this, callee, std::move(arguments));
}

Value Interpreter::apply_filter(const Expr& x, const Value& value, Scope& scope) {
  if (x.filter == nullptr)
    fail("TemplateRuntimeError", fmt::format("No filter named '{}' found.", x.name), x.line);
  return (*x.filter)(*this, value, eval_arguments(x.arguments, scope));
}

Value Interpreter::feed_filters(const Expr& x, Value value, Scope& scope) {
  if (x.items[0]) value = feed_filters(*x.items[0], std::move(value), scope);
  return apply_filter(x, value, scope);
}

Value Interpreter::eval_test(const Expr& x, Scope& scope) {
  const Value value = eval(*x.items[0], scope);
  if (x.test == nullptr)
    fail("TemplateRuntimeError", fmt::format("No test named '{}' found.", x.name), x.line);
  return Value::boolean((*x.test)(*this, value, eval_arguments(x.arguments, scope)));
}

Value Interpreter::eval_binary(const Expr& x, Scope& scope) {
  const Value a = eval(*x.items[0], scope);
  const Value b = eval(*x.items[1], scope);
  check_defined(a);
  const bool is_format = a.is(Kind::text) && x.operators[0] == Operator::mod;
  if (!is_format) check_defined(b);
  switch (x.operators[0]) {
    case Operator::add:
      return add_values(*this, a, b);
    case Operator::sub:
      return subtract_values(a, b);
    case Operator::mul:
      return multiply_values(*this, a, b);
    case Operator::div:
      return divide_values(a, b);
    case Operator::floor_div:
      return floor_divide_values(a, b);
    case Operator::mod:
      return modulo_values(*this, a, b);
    default:
      break;
  }
  const bool has_sign = a.is_number() && a.number() < 0;
  if (!x.is_negated_power || !has_sign) return power_values(a, b);
  return negative_of(power_values(negative_of(a), b));
}

bool Interpreter::compare(Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::eq:
      return is_equal(budget, a, b);
    case Operator::ne:
      return !is_equal(budget, a, b);
    case Operator::lt:
      return is_less(budget, a, b, "<");
    case Operator::gt:
      return is_less(budget, b, a, ">");
    case Operator::le:
      return is_less(budget, a, b, "<=") || is_equal(budget, a, b);
    case Operator::ge:
      return is_less(budget, b, a, ">=") || is_equal(budget, a, b);
    case Operator::in:
      return contains(*this, b, a);
    default:
      return !contains(*this, b, a);
  }
}

Value Interpreter::eval_compare(const Expr& x, Scope& scope) {
  Value left = eval(*x.items[0], scope);
  for (size_t i = 0; i < x.operators.size(); ++i) {
    Value right = eval(*x.items[i + 1], scope);
    if (!compare(x.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_concat(const Expr& x, Scope& scope) {
  std::string all;
  for (const auto& item : x.items) {
    const Value value = eval(*item, scope);
    if (value.is(Kind::text))
      all += value.text();
    else
      all += to_text(budget, value);
    budget.check_text(all.size());
  }
  return make_text(budget, std::move(all));
}

Value Interpreter::eval_condition(const Expr& x, Scope& scope) {
  if (is_true(eval(*x.items[0], scope))) return eval(*x.items[1], scope);
  if (x.items[2]) return eval(*x.items[2], scope);
  return Value::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section "
                  "was defined.",
                  x.line));
}

}  // namespace cohort::text::jinja
