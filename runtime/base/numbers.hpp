#pragma once
/// Named numbers, from the loss to the row of metrics.jsonl. The function that computes a number
/// names it; each stage adds up what it gets by the number's own rule, without knowing the name.
///   share  micro-batches' shares of an optimizer step add up; optimizer steps are averaged
///   max    the greatest of micro-batches and of optimizer steps
/// Fixed in size, so that ranks exchange them as bytes. Values; the order is that of the first put.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/check.hpp"

namespace cohort {

enum class Reduce : uint8_t { share = 0, max = 1 };

struct Number {
  std::array<char, 39> text{};  // the name, filled up with 0
  Reduce reduce = Reduce::share;
  double value = 0;
  std::string_view name() const { return text.data(); }
};

class Numbers {
 public:
  static constexpr size_t k_capacity = 24;

  /// Adds `value` by its rule to what is there under the name.
  void add(std::string_view name, double value, Reduce reduce = Reduce::share) {
    Number& number = at_or_new(name, reduce);
    number.value = reduce == Reduce::max ? std::max(number.value, value) : number.value + value;
  }
  void add(const Numbers& others) {
    for (const Number& other : others.all()) add(other.name(), other.value, other.reduce);
  }
  /// Returns the value, or 0 if nobody has put it.
  double at(std::string_view name) const {
    for (const Number& number : all())
      if (number.name() == name) return number.value;
    return 0;
  }
  std::span<const Number> all() const { return std::span(numbers_).first(count_); }

 private:
  Number& at_or_new(std::string_view name, Reduce reduce) {
    for (Number& number : std::span(numbers_).first(count_))
      if (number.name() == name) return number;
    COHORT_CHECK(count_ < k_capacity && name.size() < Number{}.text.size(),
                 "numbers: at most 24 numbers, names below 39 bytes");
    Number& number = numbers_.at(count_++);
    std::copy(name.begin(), name.end(), number.text.begin());
    number.reduce = reduce;
    return number;
  }

  std::array<Number, k_capacity> numbers_{};
  size_t count_ = 0;
};

}  // namespace cohort
