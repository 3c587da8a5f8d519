#include "tools/actor-node/evaluate/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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

std::optional<int64_t> integer_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  constexpr auto k_max = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (value.is_number_unsigned() && value.get<uint64_t>() > k_max) return std::nullopt;
  return value.get<int64_t>();
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

/// A text, or a number as it is written.
std::string text_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (found == object.end()) return "";
  if (found->is_number()) return found->dump();
  return found->is_string() ? found->get<std::string>() : "";
}

/// Returns what is wrong with the values of a mask, or "".
std::string problem_of_mask(const std::vector<double>& values) {
  for (double x : values)
    if (x != 0 && x != 1) return fmt::format("holds {}; a mask holds 0 and 1", x);
  return "";
}

Expected<void> all_read(const char* what, const Json& given,
                        const std::set<std::string, std::less<>>& read) {
  for (const auto& [name, value] : given.items())
    if (!read.contains(name))
      return Error{Errc::invalid_argument, fmt::format("{}: '{}' is unknown here; known: {}", what,
                                                       name, joined({read.begin(), read.end()}))};
  return {};
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
  read_params_.emplace(name);
  const auto found = params_.find(std::string(name));
  if (found != params_.end()) return &*found;
  if (is_required) refuse(fmt::format("params: '{}' is missing", name));
  return nullptr;
}

const Json* Case::input(std::string_view name) {
  read_inputs_.emplace(name);
  const auto found = inputs_.find(std::string(name));
  if (found != inputs_.end()) return &*found;
  refuse(fmt::format("inputs: '{}' is missing", name));
  return nullptr;
}

bool Case::has_input(std::string_view name) {
  read_inputs_.emplace(name);
  return inputs_.contains(std::string(name));
}

void Case::pass_over(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) read_inputs_.emplace(name);
}

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
  if (const auto integer = integer_of(*found)) return *integer;
  refuse(fmt::format("params: '{}' is {}, no integer", name, found->dump()));
  return 0;
}

std::optional<int64_t> Case::integer_or_none(std::string_view name) {
  const Json* found = param(name, true);
  if (found == nullptr || found->is_null()) return std::nullopt;
  return integer(name);
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
  if (const auto integer = integer_of(*found)) return *integer;
  refuse(fmt::format("inputs: '{}' is {}, no integer", name, found->dump()));
  return 0;
}

double Case::rounded(double x) const {
  return precision_ == Precision::f32 ? static_cast<double>(static_cast<float>(x)) : x;
}

Array Case::array(std::string_view name, size_t rank) {
  const Array nothing{std::vector<int64_t>(rank, 0), {}};
  const Json* found = input(name);
  if (found == nullptr) return nothing;
  Array out;
  std::string problem = flatten(*found, 0, rank, out);
  if (problem.empty() && name.starts_with("mask")) problem = problem_of_mask(out.values);
  if (!problem.empty()) {
    refuse(fmt::format("inputs: '{}' {}", name, problem));
    return nothing;
  }
  out.shape.resize(rank, 0);  // an empty row says nothing of its own rows
  for (double& x : out.values) x = rounded(x);
  return out;
}

Array Case::array_like(std::string_view name, const Array& model) {
  Array out = array(name, model.shape.size());
  if (out.shape == model.shape) return out;
  refuse(fmt::format("inputs: '{}' has the shape [{}] beside [{}]", name,
                     fmt::join(out.shape, ", "), fmt::join(model.shape, ", ")));
  size_t size = 1;
  for (int64_t entries : model.shape) size *= static_cast<size_t>(entries);
  return {model.shape, std::vector<double>(size, 0)};
}

std::vector<uint32_t> Case::labels(std::string_view name, size_t rows) {
  std::vector<uint32_t> out;
  std::map<Json, uint32_t> seen;
  const Json* found = input(name);
  if (found != nullptr && (!found->is_array() || found->size() != rows)) {
    refuse(fmt::format("inputs: '{}' is no array of {} texts or numbers, one per row", name, rows));
  } else if (found != nullptr) {
    for (const Json& label : *found) {
      const bool is_label = label.is_string() || label.is_number();
      if (!is_label || std::isnan(number_of(label).value_or(0)))
        refuse(fmt::format("inputs: '{}' holds {} in the place of a text or number", name,
                           label.dump()));
      out.push_back(seen.emplace(label, static_cast<uint32_t>(seen.size())).first->second);
    }
  }
  out.resize(rows, 0);
  return out;
}

void Case::check_lengths(std::string_view name, const Array& lengths) {
  constexpr double k_max = 2147483648;
  for (double x : lengths.values)
    if (!(x >= 0 && x <= k_max && x == std::floor(x)))
      refuse(fmt::format("inputs: '{}' holds {}, no whole number from 0 to 2^31", name, x));
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
  COHORT_TRY(all_read("params", params_, read_params_));
  return all_read("inputs", inputs_, read_inputs_);
}

}  // namespace cohort::evaluate
