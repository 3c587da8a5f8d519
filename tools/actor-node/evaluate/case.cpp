#include "tools/actor-node/evaluate/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cohort::evaluate {
namespace {

/// Returns the number that a JSON value stands for.
std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

/// Appends what `value` holds, `rank` indices deep. Returns the problem, or "".
std::string flatten(const Json& value, size_t depth, size_t rank, Array& out) {
  if (depth == rank) {
    const auto number = number_of(value);
    if (!number) return "holds " + value.dump() + " in the place of a number";
    out.values.push_back(*number);
    return "";
  }
  if (!value.is_array()) return fmt::format("is no array of {} indices", rank);
  const auto size = static_cast<int64_t>(value.size());
  if (out.shape.size() == depth)
    out.shape.push_back(size);
  else if (out.shape[depth] != size)
    return fmt::format("has rows of {} and of {} entries", out.shape[depth], size);
  for (const Json& part : value)
    if (std::string problem = flatten(part, depth + 1, rank, out); !problem.empty()) return problem;
  return "";
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

Packed packed_of(const Array& mask) {
  Packed packed{{0}, {}};
  for (size_t row = 0; row < mask.rows(); ++row)
    packed.cu_seqlens.push_back(static_cast<int32_t>((row + 1) * mask.columns()));
  for (double x : mask.values) packed.mask.push_back(x != 0 ? 1 : 0);
  return packed;
}

Case::Case(const Json& object, Precision precision)
    : id_(text_of(object, "id")),
      kind_(text_of(object, "kind")),
      params_(Json::object()),
      inputs_(Json::object()),
      precision_(precision) {
  if (!object.is_object()) {
    refuse("the case is no object with id, kind, params and inputs");
    return;
  }
  for (auto [name, target] : {std::pair{"params", &params_}, std::pair{"inputs", &inputs_}}) {
    const auto found = object.find(name);
    if (found == object.end()) continue;
    if (found->is_object())
      *target = *found;
    else
      refuse(fmt::format("'{}' is no object", name));
  }
}

void Case::refuse(std::string problem) {
  if (!problem_) problem_ = std::move(problem);
}

const Json* Case::param(std::string_view name, bool is_required) {
  read_.emplace(name);
  const auto found = params_.find(std::string(name));
  if (found != params_.end()) return &*found;
  if (is_required) refuse(fmt::format("params: '{}' is missing", name));
  return nullptr;
}

const Json* Case::input(std::string_view name) {
  const auto found = inputs_.find(std::string(name));
  if (found != inputs_.end()) return &*found;
  refuse(fmt::format("inputs: '{}' is missing", name));
  return nullptr;
}

bool Case::has_input(std::string_view name) const { return inputs_.contains(std::string(name)); }

std::string Case::text(std::string_view name, std::optional<std::string> fallback) {
  const Json* found = param(name, !fallback);
  if (found == nullptr) return fallback.value_or("");
  if (found->is_string()) return found->get<std::string>();
  refuse(fmt::format("params: '{}' is {}, no text", name, found->dump()));
  return "";
}

std::string Case::loose_text(std::string_view name, std::optional<std::string> fallback) {
  const Json* found = param(name, !fallback);
  if (found == nullptr) return fallback.value_or("");
  if (found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number()) return found->dump();
  refuse(fmt::format("params: '{}' is {}, neither text nor number", name, found->dump()));
  return "";
}

std::string Case::choice(std::string_view name, const std::vector<std::string>& known,
                         std::optional<std::string> fallback) {
  std::string found = text(name, std::move(fallback));
  if (std::find(known.begin(), known.end(), found) == known.end())
    refuse(fmt::format("params: {} '{}' is unknown; known: {}", name, found, joined(known)));
  return found;
}

double Case::number(std::string_view name, std::optional<double> fallback) {
  const Json* found = param(name, !fallback);
  if (found == nullptr) return fallback.value_or(0);
  if (!found->is_null())
    if (const auto number = number_of(*found)) return *number;
  refuse(fmt::format("params: '{}' is {}, no number", name, found->dump()));
  return 0;
}

std::optional<double> Case::maybe_number(std::string_view name) {
  const Json* found = param(name, false);
  if (found == nullptr || found->is_null()) return std::nullopt;
  return number(name);
}

int64_t Case::integer(std::string_view name, std::optional<int64_t> fallback) {
  const Json* found = param(name, !fallback);
  if (found == nullptr) return fallback.value_or(0);
  if (found->is_number_integer()) return found->get<int64_t>();
  refuse(fmt::format("params: '{}' is {}, no integer", name, found->dump()));
  return 0;
}

bool Case::flag(std::string_view name, std::optional<bool> fallback) {
  const Json* found = param(name, !fallback);
  if (found == nullptr) return fallback.value_or(false);
  if (found->is_boolean()) return found->get<bool>();
  refuse(fmt::format("params: '{}' is {}, neither true nor false", name, found->dump()));
  return false;
}

std::vector<double> Case::numbers(std::string_view name) {
  Array out;
  if (const Json* found = param(name, true))
    if (std::string problem = flatten(*found, 0, 1, out); !problem.empty())
      refuse(fmt::format("params: '{}' {}", name, problem));
  return out.values;
}

int64_t Case::integer_input(std::string_view name) {
  const Json* found = input(name);
  if (found == nullptr) return 0;
  if (found->is_number_integer()) return found->get<int64_t>();
  refuse(fmt::format("inputs: '{}' is {}, no integer", name, found->dump()));
  return 0;
}

double Case::rounded(double x) const {
  return precision_ == Precision::f32 ? static_cast<double>(static_cast<float>(x)) : x;
}

Array Case::array(std::string_view name, size_t rank) {
  Array out;
  if (const Json* found = input(name))
    if (std::string problem = flatten(*found, 0, rank, out); !problem.empty())
      refuse(fmt::format("inputs: '{}' {}", name, problem));
  out.shape.resize(rank, 0);  // an empty row says nothing of its own rows
  for (double& x : out.values) x = rounded(x);
  return out;
}

Array Case::array_like(std::string_view name, const Array& model) {
  Array out = array(name, model.shape.size());
  if (out.shape != model.shape)
    refuse(fmt::format("inputs: '{}' has the shape [{}] beside [{}]", name,
                       fmt::join(out.shape, ", "), fmt::join(model.shape, ", ")));
  return out;
}

Json Case::answer(std::span<const double> values, const Array& model) const {
  Json out = Json::array();
  if (model.shape.size() < 2) {
    for (double x : values) out.push_back(rounded(x));
    return out;
  }
  const Array row{{model.shape.begin() + 1, model.shape.end()}, {}};
  const size_t size = values.size() / std::max<size_t>(model.rows(), 1);
  for (size_t i = 0; i < model.rows(); ++i)
    out.push_back(answer(values.subspan(i * size, size), row));
  return out;
}

Expected<void> Case::read() const {
  if (problem_) return Error{Errc::invalid_argument, *problem_};
  for (const auto& [name, value] : params_.items())
    if (!read_.contains(name))
      return Error{Errc::invalid_argument, fmt::format("params: '{}' is unknown here; known: {}",
                                                       name, joined({read_.begin(), read_.end()}))};
  return {};
}

}  // namespace cohort::evaluate
