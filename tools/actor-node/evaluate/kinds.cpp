#include "tools/actor-node/evaluate/kinds.hpp"

#include <fmt/format.h>

#include <exception>

namespace cohort::evaluate {
namespace {

struct Kind {
  const char* name;
  Expected<Json> (*compute)(Case& in);
};
constexpr Kind k_kinds[] = {
#define COHORT_KIND(name) {#name, name},
#include "tools/actor-node/evaluate/kinds.def"
#undef COHORT_KIND
};

}  // namespace

Expected<Json> outputs_of(Case& in) {
  std::vector<std::string> known;
  for (const Kind& kind : k_kinds) {
    known.emplace_back(kind.name);
    if (in.kind() != kind.name) continue;
    try {
      return kind.compute(in);
    } catch (const std::exception& e) {  // c10::Error
      return Error{Errc::compute, fmt::format("{}: {}", kind.name, e.what())};
    }
  }
  return Error{Errc::invalid_argument,
               fmt::format("kind '{}' is unknown; known: {}", in.kind(), joined(known))};
}

}  // namespace cohort::evaluate
