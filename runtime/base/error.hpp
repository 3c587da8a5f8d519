#pragma once
/// Expected failures as values. An Error says what, where (file:line, key, card, peer) and what to
/// do. Thread-safety: value types. Codes and their numbers are append-only: they cross actor
/// borders.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/base/check.hpp"

namespace cohort {

enum class Errc : uint8_t {
  none = 0,
  invalid_argument = 1,
  config = 2,  // the user's configuration is wrong; detail starts with file:line
  not_found = 3,
  io = 4,            // file system; detail names the path and errno's text
  corrupt = 5,       // checksum, magic or structure does not hold; detail names the record
  backpressure = 6,  // a bounded queue is full; retry after credit comes back
  timeout = 7,
  closed = 8,      // the peer or the object is gone or is shutting down
  compute = 9,     // a tensor computation failed (shape, NaN, allocator)
  capacity = 10,   // bytes would exceed a card's or a buffer's bound
  placement = 11,  // a PLACE-* rule would be broken by the user's mapping
  protocol = 12,   // a peer sent something that the wire format forbids
  cancelled = 13,  // stopped on request
  internal = 14,
  unsupported = 15,  // this build or this machine lacks it; detail says what to install or choose
  denied = 16,       // not allowed: credentials are missing or wrong
};

/// Returns the stable lower-case name of `code`, e.g. "backpressure".
std::string_view to_string(Errc code);

struct [[nodiscard]] Error {
  Errc code = Errc::none;
  std::string detail;

  /// Returns this error with "context: " put before its detail.
  Error with_context(std::string_view context) const;
  /// Returns "<code>: <detail>".
  std::string to_string() const;
};

/// A value or an Error. Access without checking aborts (COHORT_CHECK).
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    check();
    return std::get<0>(state_);
  }
  const T& value() const& {
    check();
    return std::get<0>(state_);
  }
  T&& value() && {
    check();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    COHORT_CHECK(!has_value(), "error() of an Expected that holds a value");
    return std::get<1>(state_);
  }

 private:
  void check() const { COHORT_CHECK(has_value(), std::get<1>(state_).to_string()); }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : error_(std::move(error)) {}
  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  void value() const { COHORT_CHECK(has_value(), error_->to_string()); }
  const Error& error() const {
    COHORT_CHECK(error_.has_value(), "error() of an Expected that holds a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace cohort

/// Returns the error of `expr` from the enclosing function, or goes on. `expr` is an Expected<…>.
#define COHORT_TRY(expr)                                                     \
  do {                                                                       \
    if (auto cohort_try_ = (expr); !cohort_try_) return cohort_try_.error(); \
  } while (false)

#define COHORT_CONCAT_INNER(a, b) a##b
#define COHORT_CONCAT(a, b) COHORT_CONCAT_INNER(a, b)
/// COHORT_ASSIGN(auto x, expr): declares x from the value of `expr`, or returns its error.
#define COHORT_ASSIGN(declaration, expr) \
  COHORT_ASSIGN_IMPL(COHORT_CONCAT(cohort_assign_, __LINE__), declaration, expr)
#define COHORT_ASSIGN_IMPL(temporary, declaration, expr) \
  auto temporary = (expr);                               \
  if (!temporary) return temporary.error();              \
  declaration = std::move(*temporary)
