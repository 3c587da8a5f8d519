#pragma once
/// Tree -> struct, strictly: a key that the schema does not visit is a problem with the nearest
/// name.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/config/roll/visitor.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

/// What binding and the checks after it know about a file.
struct Findings {
  std::vector<Problem> problems;
  std::vector<Note> notes;
  std::vector<Note> warnings;
  std::map<std::string, Mark> present;  // key path -> place of the key
  std::set<std::string> broken;         // paths whose value has a problem already
  bool has_problem(const std::string& path) const { return broken.contains(path); }

  bool has(const std::string& path) const { return present.contains(path); }
  /// Place of `path`, or of the nearest section around it.
  Mark mark_of(const std::string& path) const;
  /// Adds "path: text".
  void problem(const std::string& path, std::string_view text);
  void warn(const std::string& path, std::string_view text);
  void note(const std::string& path, std::string_view text);
};

/// Binds `root` (interpolated) to `config`. `definitions`: top-level keys that some `${…}` names;
/// they need not be in the schema. The whole tree's mark goes to findings.present[""].
void bind_tree(const Node& root, const std::set<std::string>& definitions, RunConfig& config,
               Findings& findings);

/// Returns Errc::config with a line "file:line:column: what" for each problem, in the order given;
/// of more than ten the first ten, which is what fits a screen.
Error error_of(const std::vector<Problem>& problems);

}  // namespace cohort::config
