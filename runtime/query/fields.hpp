#pragma once
/// What a query may name of a trajectory, with types. Pure.
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::query {

/// The three types of a query: number, text, truth. A number that a trajectory lacks is NaN.
using Value = std::variant<double, std::string, bool>;
enum class Type { number = 0, text = 1, truth = 2 };  // as the index of Value
std::string_view to_string(Type type);

struct Field {
  std::string_view name;
  Type type = Type::number;
  std::string_view what;  // one line, with the unit
  Value (*get)(const proto::Trajectory&) = nullptr;
  bool needs_body = false;  // turns or columns: proto::decode_head does not have them
};

/// All fields but the two families `reward.NAME` and `metric.NAME`, sorted by name.
std::span<const Field> fields();
/// Returns null if there is no such field.
const Field* find_field(std::string_view name);

/// Returns the value of the reward part `name` before its weight, or NaN.
double reward_part(const proto::Trajectory& trajectory, std::string_view name);
/// Returns the metric `name`, or NaN.
double metric(const proto::Trajectory& trajectory, std::string_view name);

}  // namespace cohort::query
