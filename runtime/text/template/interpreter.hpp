#pragma once
/// Walks a template's tree and writes its text. One rendering, one thread; the tree is shared.
/// Bound: the budget of its Runtime. Fails with a Failure.
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/text/template/ast.hpp"
#include "runtime/text/template/runtime.hpp"

namespace cohort::text::jinja {

/// The variables of a block that is being rendered.
struct Scope {
  Scope* outer = nullptr;
  std::vector<Value> slots;
  Scope& at(uint32_t hops) {
    Scope* x = this;
    for (; hops > 0; --hops) x = x->outer;
    return *x;
  }
  Value& at(Place place) { return at(place.hops).slots[place.slot]; }
};

/// A macro or the body of a call block, with the scope it was defined in.
struct Macro : Object {
  Macro(const MacroPlan& p, Scope& s) : Object(nullptr, 0), plan(p), scope(s) {}
  const MacroPlan& plan;
  Scope& scope;  // the interpreter keeps it
};

struct Loop;

/// A range of characters of the rendered text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

class Interpreter final : public Runtime {
 public:
  Interpreter(const Tree& tree, const Limits& limits, std::optional<std::tm> local_time);
  ~Interpreter() override;

  void set_variable(std::string name, Value value) {
    variables_[std::move(name)] = std::move(value);
  }
  std::string render();
  /// What generation blocks printed. Begins ascend; where a block's text was changed or dropped (a
  /// filter, a set block), a range may reach behind the rendered text.
  const std::vector<TextRange>& generation_ranges() const { return ranges_; }

  Value call_macro(const Value& macro, Arguments arguments) override;

 private:
  enum class Flow : uint8_t { next, loop_break, loop_continue };
  class Entered;
  class Output;

  // Statements.
  Flow run(const Block& block, Scope& scope);
  Flow run(const Stmt& x, Scope& scope);
  void print(const Stmt& x, Scope& scope);
  Flow run_conditional(const Stmt& x, Scope& scope);
  Flow run_loop(const Stmt& x, Scope& scope);
  Flow run_set_block(const Stmt& x, Scope& scope);
  Flow run_filter_block(const Stmt& x, Scope& scope);
  Flow run_with(const Stmt& x, Scope& scope);
  void run_generation(const Stmt& x, Scope& scope);
  void run_call_block(const Stmt& x, Scope& scope);
  void assign(const Expr& target, const Value& value, Scope& scope);
  void check_namespaces(const Expr& target, Scope& scope);
  void write(const std::string& text);
  /// Runs a block and takes what it printed.
  Flow capture(const Block& block, Scope& scope, std::string& text);

  // Expressions.
  Value eval(const Expr& x, Scope& scope);
  Value eval_container(const Expr& x, Scope& scope);
  Value eval_item(const Expr& x, Scope& scope);
  Value eval_slice(const Expr& x, Scope& scope);
  Value eval_call(const Expr& x, Scope& scope, const Value* caller);
  Value apply_filter(const Expr& x, const Value& value, Scope& scope);
  /// A chain of filters whose first one is given its value.
  Value feed_filters(const Expr& x, Value value, Scope& scope);
  Value eval_test(const Expr& x, Scope& scope);
  Value eval_binary(const Expr& x, Scope& scope);
  Value eval_compare(const Expr& x, Scope& scope);
  Value eval_concat(const Expr& x, Scope& scope);
  Value eval_condition(const Expr& x, Scope& scope);
  Value eval_name(const Expr& x, Scope& scope);
  bool compare(Operator op, const Value& a, const Value& b);
  Arguments eval_arguments(const CallArguments& x, Scope& scope);

  Value variable(const std::string& name) const;
  void bind_parameters(const MacroPlan& plan, Arguments arguments, Scope& scope);

  const Tree& tree_;
  std::unordered_map<std::string, Value> variables_;
  std::deque<Scope> retained_;
  Output* output_ = nullptr;
  std::string text_;            // what the template itself has printed
  size_t counted_bytes_ = 0;    // of text_, whose characters are counted
  size_t text_characters_ = 0;  // of these bytes
  std::vector<TextRange> ranges_;
};

}  // namespace cohort::text::jinja
