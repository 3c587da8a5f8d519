#pragma once
/// Floating-point fields of messages, on the wire as their 64 bits: exact(x.seconds) in an
/// inspector. CAF 0.17's own form never ends with an infinity, which would hold the thread that
/// writes to other processes for good, and makes a number of a NaN; of normal numbers it has the
/// same bytes. WIRE-3 refuses numbers in CAF's form.
#include <bit>
#include <caf/all.hpp>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cohort::control {

template <class T>
struct Exact {
  T& x;
};

using NamedNumbers = std::vector<std::pair<std::string, double>>;

inline Exact<double> exact(double& x) { return {x}; }
inline Exact<NamedNumbers> exact(NamedNumbers& x) { return {x}; }

/// The others print.
template <class Inspector>
inline constexpr bool k_is_of_wire =
    std::is_same_v<Inspector, caf::serializer> || std::is_same_v<Inspector, caf::deserializer>;

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Exact<double>& number) {
  if constexpr (k_is_of_wire<Inspector>) {
    auto bits = std::bit_cast<uint64_t>(number.x);
    auto load = [&]() -> caf::error {
      number.x = std::bit_cast<double>(bits);
      return caf::none;
    };
    return f(bits, caf::meta::load_callback(load));
  } else {
    return f(number.x);
  }
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Exact<NamedNumbers>& numbers) {
  if constexpr (k_is_of_wire<Inspector>) {
    std::vector<std::pair<std::string, uint64_t>> bits;
    if constexpr (Inspector::reads_state)
      for (const auto& [name, x] : numbers.x) bits.emplace_back(name, std::bit_cast<uint64_t>(x));
    auto load = [&]() -> caf::error {
      numbers.x.clear();
      for (auto& [name, x] : bits)
        numbers.x.emplace_back(std::move(name), std::bit_cast<double>(x));
      return caf::none;
    };
    return f(bits, caf::meta::load_callback(load));
  } else {
    return f(numbers.x);
  }
}

}  // namespace cohort::control

/// The fields of a message, in the order of the wire.
#define COHORT_MESSAGE(Type, ...)                                  \
  template <class Inspector>                                       \
  typename Inspector::result_type inspect(Inspector& f, Type& x) { \
    return f(caf::meta::type_name(#Type), __VA_ARGS__);            \
  }
