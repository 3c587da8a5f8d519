#include "runtime/compute/generate/engine_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/compute/generate/built_in_engine.hpp"

namespace cohort::compute {
namespace {

constexpr std::array k_engines = {
    EngineRow{"built_in", "this process, on the role's cards", false, open_built_in},
};

}  // namespace

Expected<EngineRow> engine_named(std::string_view name) {
  const auto row = std::ranges::find(k_engines, name, &EngineRow::name);
  if (row != k_engines.end()) return *row;
  std::string names;
  for (const EngineRow& each : k_engines)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
  return Error{Errc::config, fmt::format("engine '{}' is none of: {}", name, names)};
}

}  // namespace cohort::compute
