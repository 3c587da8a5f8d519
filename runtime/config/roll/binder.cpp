#include "runtime/config/roll/binder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/config/roll/schema.hpp"
#include "runtime/config/tree/suggest.hpp"

namespace cohort::config {
namespace {

constexpr size_t k_typing_error_max = 2;  // letters, where other names are let through

class Binder final : public Visitor {
 public:
  Binder(const std::set<std::string>& definitions, Findings& findings)
      : definitions_(definitions), findings_(findings) {}

  void run(const Node& root, RunConfig& config) {
    frames_.push_back({&root, "", {}});
    findings_.present[""] = root.mark;
    describe(*this, config);
    leave();
  }

  void value(const Key& key, std::string_view, const ReadValue& read, const WriteValue&) override {
    const Entry* entry = take(key);
    if (entry == nullptr || entry->node().is_broken) return;
    if (auto bound = read(entry->node()); !bound) refuse(*entry, bound.error().detail);
  }

  void inert(const Key& key) override {
    const Entry* entry = take(key);
    bool is_definition = frames_.size() == 1 && definitions_.contains(std::string(key.name));
    if (entry != nullptr && !is_definition) findings_.note(path_of(key.name), key.doc);
  }

  void tuning(std::span<const std::string_view> names, std::string_view reason) override {
    std::vector<std::string> present;
    for (std::string_view name : names) {
      bool is_definition = frames_.size() == 1 && definitions_.contains(std::string(name));
      if (take(Key{name, "", ""}) != nullptr && !is_definition) present.emplace_back(name);
    }
    note_together(present, reason);
  }

  void rest(std::string_view reason, std::span<const std::string_view> foreign) override {
    std::vector<std::string> present;
    for (const Entry& entry : frames_.back().node->entries) {
      const std::vector<std::string>& known = frames_.back().known;
      bool is_known = std::find(known.begin(), known.end(), entry.key) != known.end();
      std::string near = is_known ? "" : nearest_name(entry.key, known);
      bool is_meant = !near.empty() && edit_distance(entry.key, near) <= k_typing_error_max;
      bool is_foreign = std::find(foreign.begin(), foreign.end(), entry.key) != foreign.end();
      if (!is_known && !is_meant && !is_foreign) present.push_back(entry.key);
    }
    for (const std::string& name : present) take(Key{name, "", ""});
    note_together(present, reason);
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

  std::string path_of(std::string_view key) const { return join_path(frames_.back().path, key); }

  void refuse(const Entry& entry, std::string_view text) {
    std::string path = path_of(entry.key);
    findings_.broken.insert(path);
    const Mark& mark =
        entry.node().mark.line > 0 || entry.mark.line == 0 ? entry.node().mark : entry.mark;
    findings_.problems.push_back({mark, fmt::format("{}: {}", path, text)});
  }

  void note_together(const std::vector<std::string>& names, std::string_view reason) {
    if (names.empty()) return;
    std::string where = findings_.present.at(path_of(names.front())).file_line();
    std::string keys =
        names.size() == 1 ? names.front() : fmt::format("{{{}}}", fmt::join(names, ", "));
    findings_.notes.push_back({path_of(keys), where, std::string(reason)});
  }

  /// Marks the key as known; returns its entry if it is there.
  const Entry* take(const Key& key) {
    Frame& frame = frames_.back();
    frame.known.emplace_back(key.name);
    const Entry* entry = frame.node->find(key.name);
    if (entry == nullptr) return nullptr;
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
      if (is_known || (frames_.size() == 1 && definitions_.contains(entry.key))) continue;
      std::string path = path_of(entry.key);
      findings_.broken.insert(path);
      findings_.problems.push_back(
          {entry.mark, fmt::format("unknown key '{}'{}", path, advice(entry.key))});
    }
  }

  std::string advice(const std::string& key) const {
    if (std::string near = did_you_mean(key, frames_.back().known); !near.empty()) return near;
    for (const KeyInfo& info : all_keys()) {  // the right name in the wrong section
      if (!info.is_section && info.has_effect && info.path.ends_with("." + key))
        return fmt::format("; did you mean '{}'?", info.path);
    }
    return "";
  }

  const std::set<std::string>& definitions_;
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

void bind_tree(const Node& root, const std::set<std::string>& definitions, RunConfig& config,
               Findings& findings) {
  Binder(definitions, findings).run(root, config);
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
