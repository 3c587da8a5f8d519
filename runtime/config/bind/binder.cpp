#include "runtime/config/bind/binder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/suggest.hpp"

namespace cohort::config {
namespace {

constexpr size_t k_typing_error_max = 2;  // letters, where other names are let through

/// Whether a value asks for nothing: ~, false, 0, an empty text, list or map.
bool is_idle(const Node& node) {
  if (node.kind == NodeKind::map) return node.entries.empty();
  if (node.kind == NodeKind::sequence) return node.items.empty();
  return node.kind == NodeKind::null || node.scalar.empty() || as_bool(node) == false ||
         as_double(node) == 0;
}

class Binder final : public Visitor {
 public:
  Binder(const BindOptions& options, Findings& findings) : options_(options), findings_(findings) {}

  void run(const Schema& schema, const Node& root) {
    frames_.push_back({&root, "", {}});
    findings_.present[""] = root.mark;
    schema(*this);
    leave();
  }

  void value(const Key& key, std::string_view, const ReadValue& read, const WriteValue&) override {
    const Entry* entry = take(key);
    if (entry == nullptr || entry->node().is_broken) return;
    if (auto bound = read(entry->node()); !bound) refuse(*entry, bound.error().detail);
  }

  void inert(const Key& key) override {
    const Entry* entry = take(key);
    if (entry == nullptr || is_definition(key.name)) return;
    if (options_.is_layered)
      note_leaves(path_of(key.name), *entry, key.doc);
    else
      findings_.note(path_of(key.name), key.doc);
  }

  void refused(const Key& key) override {
    const Entry* entry = take(key);
    if (entry == nullptr || entry->node().is_broken) return;
    auto& list = is_idle(entry->node()) ? findings_.notes : findings_.refused;
    list.push_back({path_of(key.name), entry->mark.file_line(), std::string(key.doc)});
  }

  void tuning(std::string_view names, std::string_view reason) override {
    std::vector<std::string> present;
    for (std::string_view name : catalog::words(names))
      if (take(Key{name, "", ""}) != nullptr && !is_definition(name)) present.emplace_back(name);
    note_together(present, reason);
  }

  void rest(std::string_view reason, std::string_view foreign_names) override {
    const std::vector<std::string_view> foreign = catalog::words(foreign_names);
    std::vector<std::string> present;
    for (const std::string& name : unknown_names())
      if (std::find(foreign.begin(), foreign.end(), name) == foreign.end()) present.push_back(name);
    for (const std::string& name : present) take(Key{name, "", ""});
    note_together(present, reason);
  }

  void others(std::string& json) override {
    Node map = Node::make_map({});
    for (const std::string& name : unknown_names())
      if (const Entry* entry = take(Key{name, "", ""})) map.set(name, {}, entry->node());
    json = to_json(map);
  }

  bool enter(const Key& key, bool) override {
    const Entry* entry = take(key);
    return entry != nullptr && push(*entry);
  }

  void leave() override {
    report_unknown();
    frames_.pop_back();
  }

  void each(const Key& key, const std::vector<std::string>&,
            const std::function<void(const std::string&)>& on_entry) override {
    if (!enter(key, true)) return;
    const Node& map = *frames_.back().node;
    for (const Entry& entry : map.entries) {
      take(Key{entry.key, "", ""});
      if (!push(entry)) continue;
      on_entry(entry.key);
      leave();
    }
    leave();
  }

 private:
  struct Frame {
    const Node* node;
    std::string path;
    std::vector<std::string> known;  // keys of the schema in this section
  };

  /// Keys of this section that no name was given for yet, and that no typing error explains.
  std::vector<std::string> unknown_names() const {
    const Frame& frame = frames_.back();
    std::vector<std::string> names;
    for (const Entry& entry : frame.node->entries) {
      bool is_known =
          std::find(frame.known.begin(), frame.known.end(), entry.key) != frame.known.end();
      std::string near = is_known ? "" : nearest_name(entry.key, frame.known);
      bool is_meant = !near.empty() && edit_distance(entry.key, near) <= k_typing_error_max;
      if (!is_known && !is_meant) names.push_back(entry.key);
    }
    return names;
  }

  std::string path_of(std::string_view key) const { return join_path(frames_.back().path, key); }

  bool is_definition(std::string_view key) const {
    return frames_.size() == 1 && options_.definitions->contains(std::string(key));
  }

  void refuse(const Entry& entry, std::string_view text) {
    std::string path = path_of(entry.key);
    findings_.broken.insert(path);
    const Mark &own = entry.node().mark, &key = entry.mark;
    const bool is_placed =
        options_.is_layered ? own.source != nullptr : own.line > 0 || key.line == 0;
    findings_.problems.push_back({is_placed ? own : key, fmt::format("{}: {}", path, text)});
  }

  /// One note per key that the user wrote: a section without effect is named by its keys.
  void note_leaves(const std::string& path, const Entry& entry, std::string_view reason) {
    findings_.present[path] = entry.mark;
    const Node& node = entry.node();
    if (node.kind != NodeKind::map || node.entries.empty()) return findings_.note(path, reason);
    for (const Entry& inner : node.entries) note_leaves(join_path(path, inner.key), inner, reason);
  }

  void note_together(const std::vector<std::string>& names, std::string_view reason) {
    if (names.empty()) return;
    std::string where = findings_.present.at(path_of(names.front())).file_line();
    std::string keys =
        names.size() == 1 ? names.front() : fmt::format("{{{}}}", fmt::join(names, ", "));
    findings_.notes.push_back({path_of(keys), where, std::string(reason)});
  }

  /// Marks the key as known; returns its entry if it is there, and the user's.
  const Entry* take(const Key& key) {
    Frame& frame = frames_.back();
    frame.known.emplace_back(key.name);
    const Entry* entry = frame.node->find(key.name);
    if (entry == nullptr || (options_.is_layered && !entry->mark.source)) return nullptr;
    std::string path = path_of(key.name);
    findings_.present[path] = entry->mark;
    if (entry->node().is_broken) findings_.broken.insert(path);
    return entry;
  }

  /// Goes into a section; an empty one is as good as a missing one.
  bool push(const Entry& entry) {
    const Node& node = entry.node();
    if (node.is_broken || node.kind == NodeKind::null) return false;
    if (node.kind != NodeKind::map) {
      refuse(entry, fmt::format("expected a section of keys, got {}", describe_value(node)));
      return false;
    }
    frames_.push_back({&node, path_of(entry.key), {}});
    return true;
  }

  void report_unknown() {
    const Frame& frame = frames_.back();
    for (const Entry& entry : frame.node->entries) {
      bool is_known =
          std::find(frame.known.begin(), frame.known.end(), entry.key) != frame.known.end();
      if (is_known || is_definition(entry.key)) continue;
      std::string path = path_of(entry.key);
      if (options_.is_layered) findings_.present[path] = entry.mark;
      if (entry.key == options_.class_key) {
        findings_.note(path, options_.class_reason);
        continue;
      }
      if (frames_.size() == 1 && options_.definition) {
        const std::string reason = options_.definition(*frame.node, entry, frame.known);
        if (!reason.empty()) {
          findings_.present[path] = entry.mark;
          findings_.note(path, reason);
          continue;
        }
      }
      findings_.broken.insert(path);
      findings_.problems.push_back(
          {entry.mark, fmt::format("unknown key '{}'{}", path,
                                   options_.advice(frame.path, frame.known, entry.key))});
    }
  }

  const BindOptions& options_;
  Findings& findings_;
  std::vector<Frame> frames_;
};

}  // namespace

Mark Findings::mark_of(const std::string& path) const {
  std::string at = path;
  while (true) {
    if (auto it = present.find(at); it != present.end()) return it->second;
    size_t dot = at.rfind('.');
    at = dot == std::string::npos ? "" : at.substr(0, dot);
    if (at.empty()) {
      auto root = present.find("");
      return root == present.end() ? Mark{} : root->second;
    }
  }
}

void Findings::problem(const std::string& path, std::string_view text) {
  problems.push_back({mark_of(path), fmt::format("{}: {}", path, text)});
}

void Findings::warn(const std::string& path, std::string_view text) {
  warnings.push_back({path, has(path) ? mark_of(path).file_line() : "", std::string(text)});
}

void Findings::note(const std::string& path, std::string_view text) {
  notes.push_back({path, has(path) ? mark_of(path).file_line() : "", std::string(text)});
}

bool usable(const Findings& findings, std::initializer_list<std::string> paths) {
  return std::none_of(paths.begin(), paths.end(),
                      [&](const std::string& path) { return findings.broken.contains(path); });
}

void bind_keys(const Schema& schema, const Node& root, const BindOptions& options,
               Findings& findings) {
  Binder(options, findings).run(schema, root);
}

std::string full_name_of(const std::vector<KeyInfo>& keys, const std::string& key) {
  for (const KeyInfo& info : keys)
    if (!info.is_section && info.has_effect && info.path.ends_with("." + key))
      return fmt::format("; did you mean '{}'?", info.path);
  return "";
}

Error error_of(const std::vector<Problem>& problems) {
  constexpr size_t k_reported_problems_max = 10;
  std::string text;
  for (size_t i = 0; i < std::min(problems.size(), k_reported_problems_max); ++i)
    text += fmt::format("{}{}: {}", i > 0 ? "\n" : "", problems[i].mark.file_line_column(),
                        problems[i].text);
  if (problems.size() > k_reported_problems_max)
    text += fmt::format("\n… and {} more", problems.size() - k_reported_problems_max);
  return {Errc::config, text};
}

}  // namespace cohort::config
