#pragma once
/// `${…}` as OmegaConf resolves it: lazily, on the composed tree. `${a.b}` and `${a[b]}` start at
/// the root, `${.b}` at the map that holds the value, `${..b}` one map above. A value that is one
/// whole reference becomes a copy of the node (maps too); inside a text it is spliced; braces nest.
/// Resolvers: oc.env:NAME,default; oc.select:path,default; oc.decode:text; now:%Y%m%d. `\${` is a
/// literal "${", `\\${` a backslash before a reference. A value `???` must be given by someone.
/// Pure but for the environment and the clock, which are arguments. Bounds: k_max_nodes values and
/// k_max_scalar_bytes in the result, 32 references in a chain.
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

struct InterpolationSources {
  std::function<std::optional<std::string>(const std::string& name)> environment;
  std::function<std::string(const std::string& format)> now;  // strftime of one instant
};

/// The process environment, and the local time at the call.
InterpolationSources process_sources();

struct Interpolated {
  Node root;
  std::set<std::string> used;  // top-level keys that some `${…}` of another one names
  std::vector<Problem> problems;
};

/// Resolves all of `root`. A reference that fails is one problem, and its node is_broken; what
/// refers to a broken node is broken too, without a problem of its own.
Interpolated interpolate(const Node& root, const InterpolationSources& sources);

/// Returns `text` so that interpolate() gives it back unchanged.
std::string escape_interpolation(std::string_view text);

/// The path "a.b" if `text` is one whole reference from the root without a resolver ("${a.b}").
std::optional<std::string> whole_reference(std::string_view text);

}  // namespace cohort::config
