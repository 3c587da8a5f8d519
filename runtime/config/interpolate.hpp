#pragma once
/// `${a.b}`, `${oc.env:VAR,default}` and `${now:%Y%m%d}` as OmegaConf resolves them: lazily, from
/// the root of the composed tree. A value that is one whole `${a.b}` becomes a copy of the node
/// (maps too); inside a text it is spliced. `\${` is a literal "${". Pure but for the environment
/// and the clock, which are arguments.
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/config/node.hpp"

namespace cohort::config {

struct InterpolationSources {
  std::function<std::optional<std::string>(const std::string& name)> environment;
  std::function<std::string(const std::string& format)> now;  // strftime of one instant
};

/// The process environment, and the local time at the call.
InterpolationSources process_sources();

struct Interpolated {
  Node root;
  std::set<std::string> used;  // top-level keys that some `${…}` names
  std::vector<Problem> problems;
};

Interpolated interpolate(const Node& root, const InterpolationSources& sources);

/// Returns `text` so that interpolate() gives it back unchanged.
std::string escape_interpolation(std::string_view text);

}  // namespace cohort::config
