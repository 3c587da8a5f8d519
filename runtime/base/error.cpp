#include "runtime/base/error.hpp"

#include <array>

namespace cohort {

std::string_view to_string(Errc code) {
  static constexpr std::array<std::string_view, 17> k_names = {
      "none",         "invalid argument", "config",   "not found",   "io",       "corrupt",
      "backpressure", "timeout",          "closed",   "compute",     "capacity", "placement",
      "protocol",     "cancelled",        "internal", "unsupported", "denied"};
  auto index = static_cast<size_t>(code);
  return index < k_names.size() ? k_names[index] : "unknown";
}

Error Error::with_context(std::string_view context) const {
  return {code, std::string(context) + ": " + detail};
}

std::string Error::to_string() const {
  return std::string(cohort::to_string(code)) + ": " + detail;
}

}  // namespace cohort
