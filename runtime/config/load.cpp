#include "runtime/config/load.hpp"

#include <algorithm>
#include <tuple>

#include "runtime/config/bind/binder.hpp"
#include "runtime/config/roll/roll_check.hpp"
#include "runtime/config/roll/roll_schema.hpp"
#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "runtime/config/verl/verl_load.hpp"

namespace cohort::config {
namespace {

Error report(std::vector<Problem> problems, const Mark& root) {
  auto place = [&](const Problem& x) {
    bool is_elsewhere = x.mark.source != root.source;
    return std::make_tuple(is_elsewhere, x.mark.line, x.mark.column);
  };
  std::stable_sort(problems.begin(), problems.end(),
                   [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  return error_of(problems);
}

Expected<RunConfig> load_tree(Node root, const std::filesystem::path& folder,
                              const std::vector<std::string>& overrides,
                              const LoadOptions& options) {
  const Mark start = root.mark;
  if (root.kind == NodeKind::null) return fault(start, "the file is empty");
  if (root.kind != NodeKind::map)
    return fault(start, "expected a map of keys, got " + describe_value(root));
  COHORT_ASSIGN(Node tree, compose(std::move(root), folder));
  for (const std::string& text : overrides) COHORT_TRY(apply_override(tree, text));
  Interpolated interpolated = interpolate(tree, process_sources());
  RunConfig config;
  Findings findings;
  findings.problems = std::move(interpolated.problems);
  bind_tree(interpolated.root, interpolated.used, config, findings);
  complete_and_check(config, findings, options);
  if (!findings.problems.empty()) return report(std::move(findings.problems), start);
  config.notes = std::move(findings.notes);
  config.warnings = std::move(findings.warnings);
  config.resolved_yaml = resolved_text(to_node(config), config.notes);
  return config;
}

}  // namespace

Expected<RunConfig> load(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides, const LoadOptions& options) {
  COHORT_ASSIGN(Node root, read_yaml(path));
  return load_tree(std::move(root), path.parent_path(), overrides, options);
}

Expected<RunConfig> load_node(Node root, const LoadOptions& options) {
  return load_tree(std::move(root), "", {}, options);
}

Expected<RunConfig> load_text(std::string_view text, const std::string& name,
                              const std::vector<std::string>& overrides,
                              const LoadOptions& options) {
  COHORT_ASSIGN(Node root, parse_yaml(text, name));
  const Node* dialect = root.at_path("dialect");
  if (dialect != nullptr && dialect->scalar == "verl") return load_verl_tree(root, overrides);
  return load_tree(std::move(root), std::filesystem::path(name).parent_path(), overrides, options);
}

}  // namespace cohort::config
