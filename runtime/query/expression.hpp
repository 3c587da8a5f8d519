#pragma once
/// Expression: a query, checked and typed when it is parsed, so that evaluation cannot fail. Pure;
/// immutable after parse: any thread may evaluate.
///   or < and < not < comparisons < + - < * / % < unary - < ( ) field literal true false
///   comparisons: < <= > >= == != of two numbers or two texts (== != of truths too);
///                text ~ 'regex', text !~ 'regex', text contains text
/// QUERY-1: a comparison with a number that the trajectory does not have (NaN) is false, also !=.
/// Bound: k_max_bytes of text, k_max_depth of nesting; a regex that backtracks without end counts
/// as no match (tasks::Pattern).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/query/fields.hpp"
#include "runtime/tasks/pattern.hpp"

namespace cohort::query {

class Expression {
 public:
  static constexpr size_t k_max_bytes = 4096;
  static constexpr int k_max_depth = 64;

  /// Returns Errc::invalid_argument with the position of what is wrong, and of which type it is.
  static Expected<Expression> parse(std::string_view query);
  /// As parse, and Errc::invalid_argument if the query has another type than `wanted`.
  static Expected<Expression> parse(std::string_view query, Type wanted);

  Type type() const { return nodes_.back().type; }
  /// Whether it reads turns or columns; else proto::decode_head has all that it asks for.
  bool needs_body() const;
  /// Returns the names of the metrics that it asks for.
  std::vector<std::string> metrics() const;
  Value evaluate(const proto::Trajectory& trajectory) const;
  /// Of a query of type truth.
  bool holds(const proto::Trajectory& trajectory) const;
  /// Of a query of type number; NaN where the trajectory lacks a number that it needs.
  double number(const proto::Trajectory& trajectory) const;

 private:
  friend class Parser;
  enum class Op : uint8_t {
    constant,
    field,
    reward,
    metric,
    negate,
    not_,
    and_,
    or_,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    less,
    less_equal,
    greater,
    greater_equal,
    equal,
    unequal,
    matches,
    contains,
  };
  struct Node {  // children stand before their parent; the root is the last
    Op op = Op::constant;
    Type type = Type::number;
    uint32_t left = 0, right = 0;  // -> nodes_; of matches: right -> patterns_
    Value constant;                // of reward and metric: the name
    const Field* field = nullptr;
  };

  Value evaluate(uint32_t node, const proto::Trajectory& trajectory) const;
  bool compare(const Node& node, const Value& left, const Value& right) const;

  std::vector<Node> nodes_;
  std::vector<tasks::Pattern> patterns_;
};

}  // namespace cohort::query
