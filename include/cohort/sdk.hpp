/// What <cohort/reward.hpp>, <cohort/environment.hpp> and <cohort/tool.hpp> share: texts, and
/// exceptions that end here.
#ifndef COHORT_SDK_HPP
#define COHORT_SDK_HPP

#include <cstring>
#include <exception>
#include <string_view>
#include <type_traits>

#include "cohort/abi.h"

namespace cohort::sdk::detail {

inline std::string_view view(cohort_text text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}
inline cohort_text text(std::string_view value) { return {value.data(), value.size()}; }

inline int fail(cohort_message* message, const char* why) {
  if (message != nullptr && message->capacity > 0) {
    std::strncpy(message->data, why, message->capacity - 1);
    message->data[message->capacity - 1] = '\0';
  }
  return 1;
}

/// Runs `body`; an exception becomes a message.
template <class Body>
int guarded(cohort_message* message, Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    return fail(message, e.what());
  } catch (...) {
    return fail(message, "threw something that is no std::exception");
  }
}

template <class T>
T* make(cohort_text config) {
  if constexpr (std::is_constructible_v<T, std::string_view>)
    return new T(view(config));
  else
    return new T();
}

}  // namespace cohort::sdk::detail
#endif
