#pragma once
/// One case of `actor-node evaluate`: named parameters and arrays that a kind reads, computes with
/// the functions of a run, and answers. A reader that finds nothing usable notes the first problem
/// and returns a value of the right form, so that a kind reads all it needs and then asks once
/// (`read`). Numbers are those of JSON and NaN, Infinity and -Infinity (bare, as Python writes
/// them, or quoted); null in an array is NaN, true and false are 1 and 0. An array whose name
/// begins with "mask" holds 0 and 1 alone. Params and inputs that a kind does not read are a
/// problem.
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::evaluate {

using Json = nlohmann::ordered_json;

/// What a case is computed in; a run computes in f32.
enum class Precision : uint8_t { f64, f32 };

/// A dense array, the last index fastest: as many values as the shape says. With Precision::f32
/// each value is a float's.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;

  size_t rows() const { return shape.empty() ? 0 : static_cast<size_t>(shape[0]); }
  size_t columns() const { return shape.size() < 2 ? 1 : static_cast<size_t>(shape[1]); }
};

class Case {
 public:
  Case(const Json& object, Precision precision);

  /// "" if it has none that is a text or a number.
  const std::string& id() const { return id_; }
  const std::string& kind() const { return kind_; }
  Precision precision() const { return precision_; }

  // -- parameters: required without a fallback ---
  std::string text(std::string_view name, std::optional<std::string> fallback = {});
  /// A text, or a number as it is written; "" for null.
  std::string loose_text(std::string_view name, std::optional<std::string> fallback = {});
  double number(std::string_view name, std::optional<double> fallback = {});
  /// Nothing if it is missing or null.
  std::optional<double> maybe_number(std::string_view name);
  int64_t integer(std::string_view name, std::optional<int64_t> fallback = {});
  /// Nothing if it is null.
  std::optional<int64_t> integer_or_none(std::string_view name);
  bool flag(std::string_view name, std::optional<bool> fallback = {});
  std::vector<double> numbers(std::string_view name);
  /// One of `known`; another one is a problem that names them.
  std::string choice(std::string_view name, const std::vector<std::string>& known,
                     std::optional<std::string> fallback = {});

  // -- inputs, all required ---
  bool has_input(std::string_view name);
  /// Inputs that the kind has and this case does not need may be there.
  void pass_over(std::initializer_list<std::string_view> names);
  int64_t integer_input(std::string_view name);
  /// An array of `rank` indices whose rows are equally long; an empty one where there is a problem.
  Array array(std::string_view name, size_t rank);
  /// Likewise, of the shape of `model`: a case's arrays belong to one batch; zeros where there is a
  /// problem.
  Array array_like(std::string_view name, const Array& model);
  /// What `rows` texts or numbers name, such as groups: 0, 1, … in the order of their first rows,
  /// one number for equal ones; zeros where there is a problem.
  std::vector<uint32_t> labels(std::string_view name, size_t rows);
  /// A problem if an entry of this input is no whole number from 0 to 2^31.
  void check_lengths(std::string_view name, const Array& lengths);

  /// Returns values of the shape of `model`, each a float's with Precision::f32.
  Json answer(std::span<const double> values, const Array& model) const;
  Json answer(double value) const { return rounded(value); }

  /// Notes a problem of the kind's own.
  void refuse(std::string problem);
  bool has_problem() const { return problem_.has_value(); }
  /// Errc::invalid_argument: the first problem, or a parameter or input that nobody has read (with
  /// those that somebody has).
  Expected<void> read() const;

 private:
  const Json* param(std::string_view name, bool is_required);
  const Json* input(std::string_view name);
  double rounded(double x) const;

  std::string id_, kind_;
  Json params_, inputs_;
  Precision precision_;
  std::optional<std::string> problem_;
  std::set<std::string, std::less<>> read_params_, read_inputs_;  // names
};

/// Returns "a, b, c".
std::string joined(const std::vector<std::string>& words);

/// Rows and columns of a batch as a run has it: tokens back to back, sequence after sequence.
struct Packed {
  std::vector<int32_t> cu_seqlens;  // [rows + 1]
  std::vector<uint8_t> mask;        // [rows * columns]
};
Packed packed_of(const Array& mask);
}  // namespace cohort::evaluate
