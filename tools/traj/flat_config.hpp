#pragma once
/// A config as one text per key, so that two can be compared. Pure.
#include <map>
#include <string>

namespace cohort::traj {

/// Returns the scalars, lists included, of a YAML text by key path ("a.b"); nothing of a text that
/// is no YAML.
std::map<std::string, std::string> flat_config(const std::string& yaml);

}  // namespace cohort::traj
