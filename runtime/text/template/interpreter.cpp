#include "runtime/text/template/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/loop.hpp"
#include "runtime/text/template/printing.hpp"

namespace cohort::text::jinja {

/// A scope while it is entered: on the stack, or kept where a macro may outlive it.
class Interpreter::Entered {
 public:
  Entered(Interpreter& run, const ScopePlan& plan, Scope* outer)
      : scope_(plan.is_retained ? run.retained_.emplace_back() : local_) {
    if (plan.is_retained) run.budget.take(sizeof(Scope) + plan.slots.size() * sizeof(Value));
    run.budget.step(plan.slots.size() / 8);
    scope_.outer = outer;
    scope_.slots.resize(plan.slots.size());
    for (size_t i = 0; i < plan.slots.size(); ++i) {
      const auto& slot = plan.slots[i];
      if (slot.start == ScopePlan::Start::context) scope_.slots[i] = run.variable(slot.name);
      if (slot.start == ScopePlan::Start::outer) scope_.slots[i] = scope_.at(slot.outer);
    }
  }
  Scope& scope() { return scope_; }

 private:
  Scope local_;
  Scope& scope_;
};

/// Sends what is printed to `text`, and pays for it, until it goes.
class Interpreter::Output {
 public:
  Output(Interpreter& run, std::string& text) : run_(run), text_(text), before_(run.output_) {
    run_.output_ = this;
  }
  ~Output() {
    run_.budget.give(paid_);
    run_.output_ = before_;
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text) {
    run_.budget.check_text(text_.size() + text.size());
    run_.budget.take(text.size());
    paid_ += text.size();
    text_ += text;
  }

 private:
  Interpreter& run_;
  std::string& text_;
  Output* before_;
  size_t paid_ = 0;
};

namespace {

/// Adds the line of a failure that has none.
template <class F>
auto at_line(int line, const F& f) {
  try {
    return f();
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = line;
    throw;
  }
}

}  // namespace

Interpreter::Interpreter(const Tree& tree, const Limits& limits, std::optional<std::tm> local_time)
    : Runtime(limits, local_time), tree_(tree) {}

// Values are given back before the budget that they pay.
Interpreter::~Interpreter() {
  retained_.clear();
  variables_.clear();
}

Value Interpreter::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  // Jinja's `self` hides a variable of that name.
  return found == variables_.end() || name == "self" ? find_global(name) : found->second;
}

std::string Interpreter::render() {
  const Output output(*this, text_);
  Entered root(*this, tree_.scope, nullptr);
  run(tree_.body, root.scope());
  return std::move(text_);
}

void Interpreter::write(const std::string& text) { output_->write(text); }

Interpreter::Flow Interpreter::capture(const Block& block, Scope& scope, std::string& text) {
  const Output output(*this, text);
  return run(block, scope);
}

Interpreter::Flow Interpreter::run(const Block& block, Scope& scope) {
  const Budget::Level level(budget);
  for (const auto& x : block) {
    budget.step();
    const Flow flow = at_line(x->line, [&] { return run(*x, scope); });
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const Stmt& x, Scope& scope) {
  switch (x.kind) {
    case StmtKind::data:
      write(x.data);
      return Flow::next;
    case StmtKind::print:
      print(x, scope);
      return Flow::next;
    case StmtKind::conditional:
      return run_conditional(x, scope);
    case StmtKind::loop:
      return run_loop(x, scope);
    case StmtKind::set:
      check_namespaces(*x.target, scope);
      assign(*x.target, eval(*x.value, scope), scope);
      return Flow::next;
    case StmtKind::set_block:
      return run_set_block(x, scope);
    case StmtKind::macro:
      scope.at(x.place) = Value::of(Kind::macro, std::make_shared<Macro>(*x.macro, scope));
      return Flow::next;
    case StmtKind::call_block:
      run_call_block(x, scope);
      return Flow::next;
    case StmtKind::filter_block:
      return run_filter_block(x, scope);
    case StmtKind::with:
      return run_with(x, scope);
    case StmtKind::generation:
      run_generation(x, scope);
      return Flow::next;
    case StmtKind::loop_break:
      return Flow::loop_break;
    case StmtKind::loop_continue:
      return Flow::loop_continue;
  }
  return Flow::next;
}

void Interpreter::print(const Stmt& x, Scope& scope) {
  for (const auto& value : x.values) {
    const Value result = eval(*value, scope);
    if (result.is(Kind::text))
      write(result.text());
    else
      write(to_text(budget, result));
  }
}

Interpreter::Flow Interpreter::run_conditional(const Stmt& x, Scope& scope) {
  for (const auto& branch : x.branches)
    if (is_true(eval(*branch.test, scope))) return run(branch.body, scope);
  return run(x.otherwise, scope);
}

Interpreter::Flow Interpreter::run_loop(const Stmt& x, Scope& scope) {
  const auto loop = std::make_shared<Loop>(*this, eval(*x.value, scope));
  std::optional<Entered> test_scope;
  if (x.test) {
    test_scope.emplace(*this, x.test_scope, &scope);
    loop->test = [&](const Value& item) {
      assign(*x.test_target, item, test_scope->scope());
      return is_true(eval(*x.test, test_scope->scope()));
    };
  }
  // Whatever holds `loop` later finds it at its end.
  struct Finish {
    Loop& loop;
    ~Finish() { loop.finish(); }
  } finish{*loop};
  bool is_empty = true;
  while (loop->advance()) {
    budget.step();
    Entered body(*this, x.scope, &scope);
    if (x.loop_slot) body.scope().slots[*x.loop_slot] = Value::of(Kind::loop, loop);
    assign(*x.target, loop->current, body.scope());
    const Flow flow = run(x.body, body.scope());
    // Jinja notes the first item at the end of its body.
    if (flow == Flow::next) is_empty = false;
    if (flow == Flow::loop_break) break;
  }
  if (!is_empty || x.otherwise.empty()) return Flow::next;
  Entered otherwise(*this, x.else_scope, &scope);
  return run(x.otherwise, otherwise.scope());
}

Interpreter::Flow Interpreter::run_set_block(const Stmt& x, Scope& scope) {
  Entered inner(*this, x.scope, &scope);
  std::string text;
  if (const Flow flow = capture(x.body, inner.scope(), text); flow != Flow::next) return flow;
  Value value = make_text(budget, std::move(text));
  if (x.value) value = feed_filters(*x.value, std::move(value), inner.scope());
  check_namespaces(*x.target, scope);
  assign(*x.target, value, scope);
  return Flow::next;
}

Interpreter::Flow Interpreter::run_filter_block(const Stmt& x, Scope& scope) {
  Entered inner(*this, x.scope, &scope);
  std::string text;
  if (const Flow flow = capture(x.body, inner.scope(), text); flow != Flow::next) return flow;
  const Value value = feed_filters(*x.value, make_text(budget, std::move(text)), inner.scope());
  write(to_text(budget, value));
  return Flow::next;
}

Interpreter::Flow Interpreter::run_with(const Stmt& x, Scope& scope) {
  Entered inner(*this, x.scope, &scope);
  for (size_t i = 0; i < x.targets.size(); ++i)
    assign(*x.targets[i], eval(*x.values[i], scope), inner.scope());
  return run(x.body, inner.scope());
}

void Interpreter::run_generation(const Stmt& x, Scope& scope) {
  Entered inner(*this, x.macro->scope, &scope);
  bind_parameters(*x.macro, {}, inner.scope());
  std::string text;
  capture(x.macro->body, inner.scope(), text);
  // As transformers counts: characters, from what the template itself has printed, not a macro in
  // it. Bytes would tell nothing once the text lands elsewhere or a filter changes it.
  text_characters_ += character_count(std::string_view(text_).substr(counted_bytes_));
  counted_bytes_ = text_.size();
  budget.scan(text.size());
  ranges_.push_back({text_characters_, text_characters_ + character_count(text)});
  write(text);
}

void Interpreter::run_call_block(const Stmt& x, Scope& scope) {
  const Value caller = Value::of(Kind::macro, std::make_shared<Macro>(*x.macro, scope));
  write(to_text(budget, eval_call(*x.value, scope, &caller)));
}

void Interpreter::check_namespaces(const Expr& target, Scope& scope) {
  if (target.kind == ExprKind::namespace_attribute && !scope.at(target.place).is(Kind::name_space))
    fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object", target.line);
  for (const auto& item : target.items) check_namespaces(*item, scope);
}

void Interpreter::assign(const Expr& target, const Value& value, Scope& scope) {
  if (target.kind == ExprKind::name) {
    scope.at(target.place) = value;
    return;
  }
  if (target.kind == ExprKind::namespace_attribute) {
    auto& names = scope.at(target.place).mutable_as<Namespace>();
    if (Value* found = names.find(target.attribute)) {
      *found = value;
      return;
    }
    names.check_size(names.entries.size() + 1);
    budget.take(2 * sizeof(Value));
    names.bytes += 2 * sizeof(Value);
    names.entries.emplace_back(make_text(budget, target.attribute), value);
    return;
  }
  check_defined(value);
  const std::vector<Value> items = items_of(*this, value);
  if (items.size() != target.items.size())
    fail("ValueError",
         fmt::format("{} values to unpack, expected {}", items.size(), target.items.size()));
  for (size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], scope);
}

void Interpreter::bind_parameters(const MacroPlan& plan, Arguments arguments, Scope& scope) {
  const size_t count = plan.parameters.size();
  auto& named = arguments.named;
  const auto take_named = [&](std::string_view name) {
    const auto found = std::ranges::find_if(named, [&](const auto& x) { return x.first == name; });
    if (found == named.end()) return Value();
    Value value = std::move(found->second);
    named.erase(found);
    return value;
  };
  for (size_t i = 0; i < count; ++i) {
    Value& slot = scope.at(plan.parameters[i]->place);
    slot = i < arguments.positional.size() ? arguments.positional[i]
                                           : take_named(plan.parameters[i]->name);
  }
  if (plan.caller_slot) {
    Value caller = take_named("caller");
    if (caller.is(Kind::missing) || caller.is(Kind::none))
      caller = Value::undefined("No caller defined");
    scope.slots[*plan.caller_slot] = std::move(caller);
  }
  if (plan.kwargs_slot) {
    Dict::Entries entries;
    for (auto& [name, value] : named)
      entries.emplace_back(make_text(budget, name), std::move(value));
    scope.slots[*plan.kwargs_slot] = make_dict(budget, std::move(entries));
  } else if (!named.empty()) {
    fail("TypeError",
         fmt::format("macro '{}' takes no keyword argument '{}'", plan.name, named.front().first));
  }
  if (plan.varargs_slot) {
    auto& all = arguments.positional;
    std::vector<Value> rest(all.begin() + static_cast<ptrdiff_t>(std::min(count, all.size())),
                            all.end());
    scope.slots[*plan.varargs_slot] = make_tuple(budget, std::move(rest));
  } else if (arguments.positional.size() > count) {
    fail("TypeError",
         fmt::format("macro '{}' takes not more than {} argument(s)", plan.name, count));
  }
  for (size_t i = 0; i < count; ++i) {
    Value& slot = scope.at(plan.parameters[i]->place);
    if (!slot.is(Kind::missing)) continue;
    const size_t from_end = count - i;
    slot = from_end <= plan.defaults.size()
               ? eval(*plan.defaults[plan.defaults.size() - from_end], scope)
               : Value::undefined(
                     fmt::format("parameter '{}' was not provided", plan.parameters[i]->name));
  }
}

Value Interpreter::call_macro(const Value& macro, Arguments arguments) {
  const Budget::Level level(budget);
  budget.step();
  const auto& x = macro.as<Macro>();
  Entered inner(*this, x.plan.scope, &x.scope);
  bind_parameters(x.plan, std::move(arguments), inner.scope());
  std::string text;
  capture(x.plan.body, inner.scope(), text);
  return make_text(budget, std::move(text));
}

}  // namespace cohort::text::jinja
