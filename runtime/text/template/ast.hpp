#pragma once
/// The tree of a template. The parser makes it, the resolver gives each name its place, rendering
/// only reads it: threads share one tree. Depth is bounded by k_max_nesting and k_max_height.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/template/runtime.hpp"
#include "runtime/text/template/value.hpp"

namespace cohort::text::jinja {

inline constexpr int k_max_nesting = 64;  // of statements, and of brackets in an expression
inline constexpr int k_max_height = 200;  // of an expression's tree

/// Where a variable is: `hops` scopes outwards, in slot `slot`.
struct Place {
  uint32_t hops = 0;
  uint32_t slot = 0;
};

/// What a scope's variables are when it is entered (Jinja decides this before rendering).
struct ScopePlan {
  enum class Start : uint8_t {
    missing,    // nothing yet
    parameter,  // who enters the scope sets it
    context,    // the variable `name` of the rendering
    outer,      // the value of the variable at `outer`, seen from this scope
  };
  struct Slot {
    Start start = Start::missing;
    std::string name;
    Place outer;
  };
  std::vector<Slot> slots;
  bool is_retained = false;  // a macro inside may outlive it
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  constant,
  name,
  namespace_attribute,  // a target: name.attribute
  tuple,
  list,
  dict,  // items: key, value, key, value …
  attribute,
  item,    // items: object, key
  slice,   // items: object, start, stop, step; null where absent
  call,    // items: callee
  filter,  // items: value; null in a filter block
  test,
  negative,
  positive,
  logical_not,
  logical_and,
  logical_or,
  binary,
  compare,  // items: operands; operators between them
  concat,
  condition,  // items: test, then, else; else may be null
};

enum class Operator : uint8_t {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  pow,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, star_star;  // may be null
};

struct Expr {
  ExprKind kind = ExprKind::constant;
  int line = 0;
  int height = 1;
  bool is_target = false;  // stores
  /// Jinja computes what has no variable when it compiles, and writes a negative number without
  /// brackets: a power of it binds tighter than its sign.
  bool is_folded = false;
  bool is_negated_power = false;
  Value constant;
  std::string name;       // name, attribute, filter, test
  std::string attribute;  // namespace_attribute
  Place place;
  std::vector<ExprPtr> items;
  std::vector<Operator> operators;
  CallArguments arguments;
  const Filter* filter = nullptr;  // null: unknown, fails where it is reached
  const Test* test = nullptr;
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

enum class StmtKind : uint8_t {
  data,
  print,
  conditional,
  loop,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  generation,
  loop_break,
  loop_continue,
};

struct Branch {
  ExprPtr test;
  Block body;
};

/// Parameters of a macro or call block, and the scope of its body.
struct MacroPlan {
  std::string name;  // empty: of a call block
  std::vector<ExprPtr> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  std::optional<uint32_t> caller_slot, kwargs_slot, varargs_slot;
  bool uses_caller = false;
  bool has_caller_parameter = false;
  ScopePlan scope;
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::data;
  int line = 0;
  std::string data;
  std::vector<ExprPtr> values;   // print; with
  std::vector<ExprPtr> targets;  // with
  std::vector<Branch> branches;  // conditional
  ExprPtr target, value, test;   // set, loop, set_block's filter, call, filter
  ExprPtr test_target;           // a loop's target in the scope of its test
  Block body, otherwise;
  std::unique_ptr<MacroPlan> macro;
  Place place;                              // of the macro's name
  std::optional<uint32_t> loop_slot;        // of `loop`, if the body uses it
  ScopePlan scope, test_scope, else_scope;  // of the body, a loop's test, a loop's else
};

struct Tree {
  Block body;
  ScopePlan scope;
};

}  // namespace cohort::text::jinja
