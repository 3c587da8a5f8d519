#pragma once
/// Tree -> struct, strictly: a key that the schema does not visit is a problem with the nearest
/// name.
#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/config/bind/schema.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

/// What binding and the checks after it know about a file.
struct Findings {
  std::vector<Problem> problems;
  std::vector<Note> notes;
  std::vector<Note> warnings;
  std::vector<Note> refused;            // keys of Visitor::refused() that ask for something
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
  // The same with fmt's arguments.
  template <class First, class... Rest>
  void problem(const std::string& path, fmt::format_string<First, Rest...> text, First&& first,
               Rest&&... rest) {
    problem(path, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  void warn(const std::string& path, fmt::format_string<First, Rest...> text, First&& first,
            Rest&&... rest) {
    warn(path, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  void note(const std::string& path, fmt::format_string<First, Rest...> text, First&& first,
            Rest&&... rest) {
    note(path, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
};

/// True if none of the keys has a problem already.
bool usable(const Findings& findings, std::initializer_list<std::string> paths);

struct BindOptions {
  const std::set<std::string>* definitions = nullptr;  // top-level keys that some `${…}` names
  /// A key without a source in its mark is a default laid under the user's keys: it is not bound.
  /// A section without effect is then named by each of the user's keys in it.
  bool is_layered = false;
  /// Returns why a key at the top that no schema knows has no effect; "": it is a problem.
  std::function<std::string(const Node& root, const Entry&, const std::vector<std::string>& known)>
      definition;
  /// A key that may be in any section, and the reason why it has no effect; or "".
  std::string_view class_key, class_reason;
  /// Returns "; did you mean …?" for a key that `section`, whose keys are `known`, has not, or "".
  std::function<std::string(const std::string& section, const std::vector<std::string>& known,
                            const std::string& key)>
      advice;
};

/// Binds `root` (interpolated) to the config that `schema` walks. The whole tree's mark goes to
/// findings.present[""].
void bind_keys(const Schema& schema, const Node& root, const BindOptions& options,
               Findings& findings);

/// Returns "; did you mean 'a.b.key'?" for a name that another section has, or "".
std::string full_name_of(const std::vector<KeyInfo>& keys, const std::string& key);

/// Returns Errc::config with a line "file:line:column: what" for each problem, in the order given;
/// of more than ten the first ten, which is what fits a screen.
Error error_of(const std::vector<Problem>& problems);

}  // namespace cohort::config
