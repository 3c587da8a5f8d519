#include "runtime/config/load.hpp"

#include <algorithm>
#include <functional>
#include <optional>
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

/// Takes back that a variable of the environment is not set, where nothing reads the value: the
/// bound tree's notes are its keys without effect.
void forgive_unread(const Node& tree, Findings& findings) {
  std::vector<Mark> unread;
  const std::function<void(const Node&)> add = [&](const Node& node) {
    unread.push_back(node.mark);
    for (const Node& item : node.items) add(item);
    for (const Entry& entry : node.entries) add(entry.node());
  };
  for (const Note& note : findings.notes)
    if (const Node* node = tree.at_path(note.key)) add(*node);
  std::erase_if(findings.problems, [&](const Problem& problem) {
    return problem.text.starts_with("environment variable ") &&
           std::ranges::any_of(unread, [&](const Mark& mark) {
             return mark.file_line_column() == problem.mark.file_line_column();
           });
  });
}

/// Where a file says that it is of ROLL's diffusion pipelines, which share no keys with the others.
std::optional<Mark> diffusion_mark(const Node& node) {
  for (const Entry& entry : node.entries) {
    const Node& value = entry.node();
    const bool is_typed = (entry.key == "model_type" || entry.key == "strategy_name") &&
                          value.scalar.starts_with("diffusion");
    const bool is_class =
        entry.key == "worker_cls" && value.scalar.find(".diffusion.") != std::string::npos;
    if (is_typed || is_class || entry.key == "diffusion_model_variant") return entry.mark;
    if (auto inner = diffusion_mark(value)) return inner;
  }
  return std::nullopt;
}

/// A file that is none of this dialect's.
Expected<void> refuse_foreign(const Node& tree) {
  if (const Entry* dialect = tree.find("dialect");
      dialect != nullptr && dialect->node().scalar == "verl")
    return fault(
        dialect->node().mark.line > 0 ? dialect->node().mark : dialect->mark,
        "dialect: verl's keys are read with --dialect verl; a file of ROLL's keys says roll, "
        "or nothing");
  if (auto mark = diffusion_mark(tree))
    return fault(*mark,
                 "a diffusion pipeline of ROLL's: models that draw images or videos are not built "
                 "in; this version trains language models");
  return {};
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
  COHORT_TRY(refuse_foreign(tree));
  Interpolated interpolated = interpolate(tree, process_sources());
  RunConfig config;
  Findings findings;
  findings.problems = std::move(interpolated.problems);
  bind_tree(interpolated.root, interpolated.used, config, findings);
  forgive_unread(tree, findings);
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
