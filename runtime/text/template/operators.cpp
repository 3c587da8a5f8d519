/// Python's operators on values.
#include <fmt/format.h>

#include <cmath>

#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/runtime.hpp"
#include "runtime/text/template/splitting.hpp"

namespace cohort::text::jinja {
namespace {

[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  fail("TypeError", fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op,
                                type_name(a), type_name(b)));
}

std::string markup_part(const Value& x) {
  return x.text_object().is_markup ? x.text() : escape_markup(x.text());
}

Value add_texts(Runtime& run, const Value& a, const Value& b) {
  run.budget.check_text(a.text().size() + b.text().size());
  if (a.text_object().is_markup || b.text_object().is_markup)
    return make_text(run.budget, markup_part(a) + markup_part(b), true);
  return make_text(run.budget, a.text() + b.text());
}

Value repeated(Runtime& run, const Value& x, Integer count) {
  const Integer times = count < 0 ? 0 : count;
  if (x.is(Kind::text)) {
    const auto& text = x.text();
    if (!text.empty() && times > Integer{1} << 40) run.budget.check_text(SIZE_MAX);
    const auto n = static_cast<size_t>(text.empty() ? 0 : times);
    run.budget.check_text(text.size() * n);
    std::string all;
    all.reserve(text.size() * n);
    for (size_t i = 0; i < n; ++i) all += text;
    run.budget.scan(n);
    return make_text(run.budget, std::move(all), x.text_object().is_markup);
  }
  const auto& items = x.items();
  if (!items.empty() && times > Integer{1} << 40) run.budget.check_room(SIZE_MAX, 1);
  const auto n = static_cast<size_t>(items.empty() ? 0 : times);
  run.budget.check_room(items.size() * n, sizeof(Value));
  std::vector<Value> all;
  all.reserve(items.size() * n);
  for (size_t i = 0; i < n; ++i) all.insert(all.end(), items.begin(), items.end());
  run.budget.step(all.size() / 16);
  return x.is(Kind::list) ? make_list(run.budget, std::move(all))
                          : make_tuple(run.budget, std::move(all));
}

bool is_repeatable(const Value& x) { return x.is(Kind::text) || x.is_sequence(); }

[[noreturn]] void division_by_zero(std::string_view what) {
  fail("ZeroDivisionError", std::string(what));
}

Integer floor_quotient(Integer a, Integer b) {
  const Integer q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

double python_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  return rest != 0 ? rest : std::copysign(0.0, b);
}

}  // namespace

Value add_values(Runtime& run, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_whole() && b.is_whole()) return Value::integer(add(a.whole(), b.whole()));
    return Value::real(a.number() + b.number());
  }
  if (a.is(Kind::text)) {
    if (b.is(Kind::text)) return add_texts(run, a, b);
    fail("TypeError", fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    run.budget.check_room(a.items().size() + b.items().size(), sizeof(Value));
    std::vector<Value> all = a.items();
    all.insert(all.end(), b.items().begin(), b.items().end());
    run.budget.step(all.size() / 16);
    return a.is(Kind::list) ? make_list(run.budget, std::move(all))
                            : make_tuple(run.budget, std::move(all));
  }
  if (a.is_sequence())
    fail("TypeError",
         fmt::format("can only concatenate {0} (not \"{1}\") to {0}", type_name(a), type_name(b)));
  unsupported("+", a, b);
}

Value subtract_values(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) unsupported("-", a, b);
  if (a.is_whole() && b.is_whole()) return Value::integer(subtract(a.whole(), b.whole()));
  return Value::real(a.number() - b.number());
}

Value multiply_values(Runtime& run, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_whole() && b.is_whole()) return Value::integer(multiply(a.whole(), b.whole()));
    return Value::real(a.number() * b.number());
  }
  if (is_repeatable(a) && b.is_whole()) return repeated(run, a, b.whole());
  if (is_repeatable(b) && a.is_whole()) return repeated(run, b, a.whole());
  if (is_repeatable(a) || is_repeatable(b))
    fail("TypeError", fmt::format("can't multiply sequence by non-int of type '{}'",
                                  type_name(is_repeatable(a) ? b : a)));
  unsupported("*", a, b);
}

Value divide_values(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) unsupported("/", a, b);
  if (b.number() == 0)
    division_by_zero(a.is_whole() && b.is_whole() ? "division by zero" : "float division by zero");
  if (a.is_whole() && b.is_whole())
    return Value::real(static_cast<double>(static_cast<long double>(a.whole()) /
                                           static_cast<long double>(b.whole())));
  return Value::real(a.number() / b.number());
}

Value floor_divide_values(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) unsupported("//", a, b);
  if (b.number() == 0) division_by_zero("integer division or modulo by zero");
  if (a.is_whole() && b.is_whole()) return Value::integer(floor_quotient(a.whole(), b.whole()));
  const double x = a.number(), y = b.number();
  const double quotient = (x - python_modulo(x, y)) / y;
  double floor = std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1;
  return Value::real(quotient == 0 ? std::copysign(0.0, x / y) : floor);
}

Value modulo_values(Runtime& run, const Value& a, const Value& b) {
  if (a.is(Kind::text))
    return make_text(run.budget, percent_format(run, a.text(), b), a.text_object().is_markup);
  if (!a.is_number() || !b.is_number()) unsupported("%", a, b);
  if (b.number() == 0) division_by_zero("integer modulo by zero");
  if (a.is_whole() && b.is_whole())
    return Value::integer(a.whole() - b.whole() * floor_quotient(a.whole(), b.whole()));
  return Value::real(python_modulo(a.number(), b.number()));
}

Value power_values(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) unsupported("** or pow()", a, b);
  if (a.is_whole() && b.is_whole() && b.whole() >= 0) {
    const Integer base = a.whole();
    if (base == 0 || base == 1) return Value::integer(b.whole() == 0 ? 1 : base);
    if (base == -1) return Value::integer(b.whole() % 2 == 0 ? 1 : -1);
    Integer result = 1;
    for (Integer i = 0; i < b.whole(); ++i) result = multiply(result, base);  // fails by 127
    return Value::integer(result);
  }
  const double x = a.number(), y = b.number();
  if (x == 0 && y < 0) division_by_zero("0.0 cannot be raised to a negative power");
  if (x < 0 && std::floor(y) != y)
    fail("TypeError", "a power that is a complex number is not supported");
  const double result = std::pow(x, y);
  if (std::isinf(result) && !std::isinf(x) && !std::isinf(y))
    fail("OverflowError", "(34, 'Numerical result out of range')");
  return Value::real(result);
}

Value negative_of(const Value& x) {
  check_defined(x);
  if (x.is_whole()) return Value::integer(subtract(0, x.whole()));
  if (x.is(Kind::real)) return Value::real(-x.real_value());
  fail("TypeError", fmt::format("bad operand type for unary -: '{}'", type_name(x)));
}

Value positive_of(const Value& x) {
  check_defined(x);
  if (x.is_whole()) return Value::integer(x.whole());
  if (x.is(Kind::real)) return x;
  fail("TypeError", fmt::format("bad operand type for unary +: '{}'", type_name(x)));
}

bool contains(Runtime& run, const Value& container, const Value& x) {
  switch (container.kind()) {
    case Kind::text:
      if (!x.is(Kind::text))
        fail("TypeError",
             fmt::format("'in <string>' requires string as left operand, not {}", type_name(x)));
      run.budget.scan(container.text().size());
      return find_part(container.text(), x.text()) != std::string_view::npos;
    case Kind::dict:
      return container.dict().find(run.budget, x) != nullptr;
    case Kind::dict_view:
      if (container.as<DictView>().part == DictView::Part::keys)
        return contains(run, container.as<DictView>().dict, x);
      break;
    case Kind::name_space:
    case Kind::macro:
    case Kind::function:
      fail("TypeError", fmt::format("argument of type '{}' is not iterable", type_name(container)));
    default:
      if (!is_iterable(container))
        fail("TypeError",
             fmt::format("argument of type '{}' is not iterable", type_name(container)));
  }
  Items items(run, container);
  for (Value item; items.next(item);)
    if (is_equal(run.budget, item, x)) return true;
  return false;
}

}  // namespace cohort::text::jinja
