#include "runtime/text/template/resolver.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text/template/name_walk.hpp"
#include "runtime/text/template/symbols.hpp"

namespace cohort::text::jinja {
namespace {

constexpr size_t k_max_copied_names = 4'000'000;

/// Collects the names that a scope itself uses; inner scopes keep theirs.
class NameCollector {
 public:
  explicit NameCollector(size_t& copied) : copied_(copied) {}

  void collect(Symbols& symbols, const Expr* x, bool is_parameter = false) const {
    if (x == nullptr) return;
    if (x->kind == ExprKind::namespace_attribute) symbols.load(x->name);
    if (x->kind == ExprKind::name) {
      if (is_parameter)
        symbols.declare_parameter(x->name);
      else if (x->is_target)
        symbols.store(x->name);
      else
        symbols.load(x->name);
    }
    for (const auto& item : x->items) collect(symbols, item.get(), is_parameter);
    for (const auto& item : x->arguments.positional) collect(symbols, item.get());
    for (const auto& [key, item] : x->arguments.named) collect(symbols, item.get());
    collect(symbols, x->arguments.star.get());
    collect(symbols, x->arguments.star_star.get());
  }

  void collect(Symbols& symbols, const Block& block) {
    for (const auto& x : block) collect(symbols, *x);
  }

  void collect(Symbols& symbols, const Stmt& x) {
    switch (x.kind) {
      case StmtKind::conditional:
        return collect_branches(symbols, x, 0);
      case StmtKind::macro:
        return symbols.store(x.target->name);
      case StmtKind::set:
        collect(symbols, x.value.get());
        return collect(symbols, x.target.get());
      case StmtKind::set_block:
        return collect(symbols, x.target.get());
      case StmtKind::generation:
      case StmtKind::data:
        return;
      default:
        break;
    }
    for (const auto& value : x.values) collect(symbols, value.get());
    collect(symbols, x.value.get());  // a loop's items, a call, a filter block's filter
  }

 private:
  Symbols copy_of(const Symbols& symbols) {
    copied_ += symbols.size();
    if (copied_ > k_max_copied_names)
      fail("LimitError", "the template has too many names and conditions");
    return symbols;
  }
  void collect_branches(Symbols& symbols, const Stmt& x, size_t first) {
    collect(symbols, x.branches[first].test.get());
    std::vector<Symbols> branches;
    branches.push_back(copy_of(symbols));
    collect(branches.back(), x.branches[first].body);
    branches.push_back(copy_of(symbols));
    if (first == 0)
      for (size_t i = 1; i < x.branches.size(); ++i) collect_branches(branches.back(), x, i);
    branches.push_back(copy_of(symbols));
    if (first == 0) collect(branches.back(), x.otherwise);
    symbols.merge(branches);
  }

  size_t& copied_;
};

class Resolver {
 public:
  void run(Tree& tree) {
    Frame root(nullptr, tree.scope);
    collector_.collect(root.symbols, tree.body);
    root.symbols.assign_slots(tree.scope);
    resolve(tree.body, {&root, false, false});
  }

 private:
  struct Frame {
    Frame(Frame* p, ScopePlan& s)
        : parent(p), plan(s), symbols(p == nullptr ? nullptr : &p->symbols) {}
    Frame* parent;
    ScopePlan& plan;
    Symbols symbols;
  };
  struct Where {
    Frame* frame;
    bool is_soft;  // in a condition: an unknown filter fails when it is reached
    bool is_in_loop;
    Where soft() const { return {frame, true, is_in_loop}; }
    Where inner(Frame& x) const { return {&x, false, is_in_loop}; }
  };

  void resolve(Block& block, Where where) {
    for (auto& x : block) resolve(*x, where);
  }

  void resolve(Stmt& x, Where where) {
    switch (x.kind) {
      case StmtKind::data:
        return;
      case StmtKind::print:
        for (auto& value : x.values) resolve(value.get(), where);
        return;
      case StmtKind::conditional:
        for (auto& branch : x.branches) {
          resolve(branch.test.get(), where.soft());
          resolve(branch.body, where.soft());
        }
        return resolve(x.otherwise, where.soft());
      case StmtKind::loop:
        return resolve_loop(x, where);
      case StmtKind::set:
        resolve(x.value.get(), where);
        return resolve(x.target.get(), where);
      case StmtKind::set_block:
        return resolve_captured(x, where);
      case StmtKind::macro:
        resolve_macro(*x.macro, where, true);
        x.place = where.frame->symbols.place_of(x.target->name);
        return;
      case StmtKind::call_block:
        resolve_macro(*x.macro, where, true);
        return resolve(x.value.get(), where);
      case StmtKind::generation:
        return resolve_macro(*x.macro, where, false);
      case StmtKind::filter_block:
        return resolve_captured(x, where);
      case StmtKind::with:
        return resolve_with(x, where);
      case StmtKind::loop_break:
      case StmtKind::loop_continue:
        if (!where.is_in_loop)
          fail("TemplateSyntaxError", "'break' and 'continue' stand in loops only", x.line);
    }
  }

  void resolve_loop(Stmt& x, Where where) {
    refuse_loop_as_target(x);
    resolve(x.value.get(), where);
    Frame body(where.frame, x.scope);
    const bool uses_loop = uses(x.body, "loop");
    if (uses_loop) body.symbols.declare_parameter("loop");
    collector_.collect(body.symbols, x.target.get(), true);
    collector_.collect(body.symbols, x.body);
    body.symbols.assign_slots(x.scope);
    if (uses_loop) x.loop_slot = body.symbols.slot_of("loop");
    if (x.test) {
      Frame test(where.frame, x.test_scope);
      collector_.collect(test.symbols, x.target.get(), true);
      collector_.collect(test.symbols, x.test.get());
      test.symbols.assign_slots(x.test_scope);
      resolve(x.test.get(), where.inner(test));
      x.test_target = copy_of_target(*x.target);
      resolve(x.test_target.get(), where.inner(test));
    }
    resolve(x.target.get(), where.inner(body));
    Where inside = where.inner(body);
    inside.is_in_loop = true;
    resolve(x.body, inside);
    Frame otherwise(where.frame, x.else_scope);
    collector_.collect(otherwise.symbols, x.otherwise);
    otherwise.symbols.assign_slots(x.else_scope);
    resolve(x.otherwise, where.inner(otherwise));
  }

  static void refuse_loop_as_target(const Stmt& x) {
    const auto refuse = [](const Expr& name, bool is_load) {
      if (!is_load && name.name == "loop")
        fail("TemplateAssertionError", "Can't assign to special loop variable in for-loop",
             name.line);
    };
    walk_names(x.target.get(), refuse);
    walk_names(x.body, refuse);
  }

  static ExprPtr copy_of_target(const Expr& x) {
    auto copy = std::make_unique<Expr>();
    copy->kind = x.kind;
    copy->line = x.line;
    copy->is_target = x.is_target;
    copy->name = x.name;
    for (const auto& item : x.items) copy->items.push_back(copy_of_target(*item));
    return copy;
  }

  /// Whether a block reads `name` before it stores it.
  static bool uses(const Block& block, std::string_view name) {
    bool is_used = false, is_stored = false;
    walk_names(block, [&](const Expr& x, bool is_load) {
      if (x.name != name) return;
      if (!is_load) is_stored = true;
      if (is_load && !is_stored) is_used = true;
    });
    return is_used;
  }

  /// A block whose text is filtered: it is printed, or kept under the target.
  void resolve_captured(Stmt& x, Where where) {
    Frame frame(where.frame, x.scope);
    collector_.collect(frame.symbols, x.body);
    collector_.collect(frame.symbols, x.value.get());
    frame.symbols.assign_slots(x.scope);
    resolve(x.body, where.inner(frame));
    resolve(x.value.get(), where.inner(frame));
    if (x.target) resolve(x.target.get(), where);
  }

  void resolve_with(Stmt& x, Where where) {
    for (auto& value : x.values) resolve(value.get(), where);
    Frame frame(where.frame, x.scope);
    for (const auto& target : x.targets) collector_.collect(frame.symbols, target.get(), true);
    collector_.collect(frame.symbols, x.body);
    frame.symbols.assign_slots(x.scope);
    for (auto& target : x.targets) resolve(target.get(), where.inner(frame));
    resolve(x.body, where.inner(frame));
  }

  void resolve_macro(MacroPlan& x, Where where, bool may_outlive) {
    Frame frame(where.frame, x.scope);
    for (Frame* f = where.frame; may_outlive && f != nullptr; f = f->parent)
      f->plan.is_retained = true;
    const auto has_parameter = [&](std::string_view name) {
      return std::ranges::any_of(x.parameters, [&](const auto& p) { return p->name == name; });
    };
    for (const auto& p : x.parameters) frame.symbols.declare_parameter(p->name);
    x.has_caller_parameter = has_parameter("caller");
    x.uses_caller = uses(x.body, "caller");
    if (x.uses_caller && x.has_caller_parameter) {
      const auto at = static_cast<size_t>(
          std::ranges::find_if(x.parameters, [](const auto& p) { return p->name == "caller"; }) -
          x.parameters.begin());
      if (at + x.defaults.size() < x.parameters.size())
        fail("TemplateAssertionError",
             "the special \"caller\" argument of a macro must be omitted or have a default",
             x.parameters[at]->line);
    }
    const bool adds_caller = x.uses_caller && !x.has_caller_parameter;
    const bool adds_kwargs = uses(x.body, "kwargs") && !has_parameter("kwargs");
    const bool adds_varargs = uses(x.body, "varargs") && !has_parameter("varargs");
    if (adds_caller) frame.symbols.declare_parameter("caller");
    if (adds_kwargs) frame.symbols.declare_parameter("kwargs");
    if (adds_varargs) frame.symbols.declare_parameter("varargs");
    for (const auto& value : x.defaults) collector_.collect(frame.symbols, value.get());
    collector_.collect(frame.symbols, x.body);
    frame.symbols.assign_slots(x.scope);
    if (adds_caller) x.caller_slot = frame.symbols.slot_of("caller");
    if (adds_kwargs) x.kwargs_slot = frame.symbols.slot_of("kwargs");
    if (adds_varargs) x.varargs_slot = frame.symbols.slot_of("varargs");
    const Where inside{&frame, false, false};
    for (auto& p : x.parameters) resolve(p.get(), inside);
    for (auto& value : x.defaults) resolve(value.get(), inside);
    resolve(x.body, inside);
  }

  void resolve(Expr* x, Where where) {
    if (x == nullptr) return;
    if (x->kind == ExprKind::name || x->kind == ExprKind::namespace_attribute)
      x->place = where.frame->symbols.place_of(x->name);
    if (x->kind == ExprKind::condition) where.is_soft = true;
    if (x->kind == ExprKind::filter) {
      x->filter = find_filter(x->name);
      if (x->filter == nullptr && !where.is_soft)
        fail("TemplateAssertionError", fmt::format("No filter named '{}'.", x->name), x->line);
    }
    if (x->kind == ExprKind::test) {
      x->test = find_test(x->name);
      if (x->test == nullptr && !where.is_soft)
        fail("TemplateAssertionError", fmt::format("No test named '{}'.", x->name), x->line);
    }
    for (auto& item : x->items) resolve(item.get(), where);
    for (auto& item : x->arguments.positional) resolve(item.get(), where);
    for (auto& [key, item] : x->arguments.named) resolve(item.get(), where);
    resolve(x->arguments.star.get(), where);
    resolve(x->arguments.star_star.get(), where);
    note_folding(*x);
  }

  static bool is_folded(const ExprPtr& x) { return !x || x->is_folded; }
  static void note_folding(Expr& x) {
    const bool has_arguments = x.kind == ExprKind::filter || x.kind == ExprKind::test;
    x.is_folded = x.kind != ExprKind::name && x.kind != ExprKind::namespace_attribute &&
                  x.kind != ExprKind::call && !has_arguments &&
                  std::ranges::all_of(x.items, is_folded);
    x.is_negated_power = x.kind == ExprKind::binary && x.operators[0] == Operator::pow &&
                         x.items[0]->is_folded && !x.items[1]->is_folded;
  }

  size_t copied_ = 0;
  NameCollector collector_{copied_};
};

}  // namespace

void resolve_names(Tree& tree) { Resolver().run(tree); }

}  // namespace cohort::text::jinja
