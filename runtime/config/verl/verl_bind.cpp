#include "runtime/config/verl/verl_bind.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/roll/visitor.hpp"
#include "runtime/config/tree/suggest.hpp"
#include "runtime/config/verl/verl_load.hpp"

namespace cohort::config {
namespace {

/// Sections as a stack of paths; what the three visitors have in common.
class Walker : public Visitor {
 public:
  void each(const Key& key, const std::vector<std::string>&,
            const std::function<void(const std::string&)>&) override {
    inert(key);  // verl has no map of named sections
  }

 protected:
  std::string path_of(std::string_view key) const {
    return join_path(paths_.empty() ? "" : paths_.back(), key);
  }

  std::vector<std::string> paths_;
};

class Lister final : public Walker {
 public:
  std::vector<KeyInfo> run() {
    VerlConfig defaults;
    describe_verl(*this, defaults);
    return std::move(keys_);
  }

  void value(const Key& key, std::string_view type, const ReadValue&,
             const WriteValue& write) override {
    std::string text = to_yaml(write());
    text.pop_back();  // the newline
    add(key, std::string(type), text, true, false);
  }
  void inert(const Key& key) override { add(key, "any", "", false, false); }
  bool enter(const Key& key, bool) override {
    std::string path = path_of(key.name);
    bool is_new =
        std::none_of(keys_.begin(), keys_.end(), [&](const KeyInfo& x) { return x.path == path; });
    if (is_new) add(key, "section", "", true, true);
    paths_.push_back(std::move(path));
    return true;
  }
  void leave() override { paths_.pop_back(); }
  bool is_listing() const override { return true; }

 private:
  void add(const Key& key, std::string type, std::string text, bool has_effect, bool is_section) {
    KeyInfo info;
    info.path = path_of(key.name);
    info.type = std::move(type);
    info.default_text = std::move(text);
    info.doc = key.doc;
    info.reader = key.reader;
    info.has_effect = has_effect;
    info.is_section = is_section;
    info.rows = key.rows;
    keys_.push_back(std::move(info));
  }

  std::vector<KeyInfo> keys_;
};

class Writer final : public Walker {
 public:
  Node run(const VerlConfig& config) {
    stack_.push_back(Node::make_map({}));
    VerlConfig copy = config;  // the visitors share one interface, with mutable members
    describe_verl(*this, copy);
    return std::move(stack_.back());
  }

  void value(const Key& key, std::string_view, const ReadValue&, const WriteValue& write) override {
    stack_.back().set(key.name, {}, write());
  }
  void inert(const Key&) override {}
  bool enter(const Key& key, bool is_configured) override {
    if (!is_configured) return false;
    stack_.push_back(Node::make_map({}));
    names_.emplace_back(key.name);
    return true;
  }
  void leave() override {
    Node done = std::move(stack_.back());
    stack_.pop_back();
    stack_.back().set(names_.back(), {}, std::move(done));
    names_.pop_back();
  }

 private:
  std::vector<Node> stack_;
  std::vector<std::string> names_;
};

class Binder final : public Walker {
 public:
  Binder(const std::set<std::string>& definitions, Findings& findings)
      : definitions_(definitions), findings_(findings) {}

  void run(const Node& root, VerlConfig& config) {
    nodes_.push_back(&root);
    known_.emplace_back();
    paths_.emplace_back();
    findings_.present[""] = root.mark;
    describe_verl(*this, config);
    leave();
  }

  void value(const Key& key, std::string_view, const ReadValue& read, const WriteValue&) override {
    const Entry* entry = take(key);
    if (entry == nullptr || entry->node().is_broken) return;
    if (auto bound = read(entry->node()); !bound) refuse(*entry, bound.error().detail);
  }

  void inert(const Key& key) override {
    const Entry* entry = take(key);
    if (entry == nullptr || is_definition(entry->key)) return;
    note_leaves(path_of(key.name), *entry, key.doc);
  }

  bool enter(const Key& key, bool) override {
    const Entry* entry = take(key);
    if (entry == nullptr || entry->node().is_broken || entry->node().kind == NodeKind::null)
      return false;
    if (entry->node().kind != NodeKind::map) {
      refuse(*entry,
             fmt::format("expected a section of keys, got {}", describe_value(entry->node())));
      return false;
    }
    std::string path = path_of(key.name);
    nodes_.push_back(&entry->node());
    known_.emplace_back();
    paths_.push_back(std::move(path));
    return true;
  }

  void leave() override {
    report_unknown();
    nodes_.pop_back();
    known_.pop_back();
    paths_.pop_back();
  }

 private:
  bool is_definition(const std::string& key) const {
    return nodes_.size() == 1 && definitions_.contains(key);
  }

  /// Marks the key as known; returns its entry if the user set it.
  const Entry* take(const Key& key) {
    known_.back().emplace_back(key.name);
    const Entry* entry = nodes_.back()->find(key.name);
    if (entry == nullptr || !entry->mark.source) return nullptr;
    std::string path = path_of(key.name);
    findings_.present[path] = entry->mark;
    if (entry->node().is_broken) findings_.broken.insert(path);
    return entry;
  }

  void refuse(const Entry& entry, std::string_view text) {
    std::string path = path_of(entry.key);
    findings_.broken.insert(path);
    const Mark& mark = entry.node().mark.source ? entry.node().mark : entry.mark;
    findings_.problems.push_back({mark, fmt::format("{}: {}", path, text)});
  }

  /// One note per key that the user wrote: a section without effect is named by its keys.
  void note_leaves(const std::string& path, const Entry& entry, std::string_view reason) {
    findings_.present[path] = entry.mark;
    const Node& node = entry.node();
    if (node.kind != NodeKind::map || node.entries.empty()) return findings_.note(path, reason);
    for (const Entry& inner : node.entries) note_leaves(join_path(path, inner.key), inner, reason);
  }

  void report_unknown() {
    const std::vector<std::string>& known = known_.back();
    for (const Entry& entry : nodes_.back()->entries) {
      if (std::find(known.begin(), known.end(), entry.key) != known.end() ||
          is_definition(entry.key))
        continue;
      std::string path = path_of(entry.key);
      findings_.present[path] = entry.mark;
      if (entry.key == "_target_") {
        findings_.note(path, "names a Python class of verl");
        continue;
      }
      findings_.broken.insert(path);
      findings_.problems.push_back(
          {entry.mark,
           fmt::format("unknown key '{}'{}", path, verl_advice(paths_.back(), entry.key))});
    }
  }

  const std::set<std::string>& definitions_;
  Findings& findings_;
  std::vector<const Node*> nodes_;
  std::vector<std::vector<std::string>> known_;  // keys of the schema in each open section
};

}  // namespace

void bind_verl(const Node& root, const std::set<std::string>& definitions, VerlConfig& config,
               Findings& findings) {
  Binder(definitions, findings).run(root, config);
}

Node verl_to_node(const VerlConfig& config) { return Writer().run(config); }

const std::vector<KeyInfo>& verl_keys() {
  static const std::vector<KeyInfo> k_keys = Lister().run();
  return k_keys;
}

bool is_verl_key(const std::string& path) {
  return std::any_of(verl_keys().begin(), verl_keys().end(), [&](const KeyInfo& key) {
    bool is_open = !key.has_effect || key.type == "section of any keys";
    return key.path == path || (is_open && path.starts_with(key.path + "."));
  });
}

std::string verl_advice(const std::string& section, const std::string& key) {
  std::vector<std::string> siblings;
  for (const KeyInfo& info : verl_keys()) {
    size_t dot = info.path.rfind('.');
    std::string parent = dot == std::string::npos ? "" : info.path.substr(0, dot);
    if (parent == section)
      siblings.push_back(dot == std::string::npos ? info.path : info.path.substr(dot + 1));
  }
  if (std::string near = nearest_name(key, siblings); !near.empty())
    return fmt::format("; did you mean '{}'?", join_path(section, near));
  for (const KeyInfo& info : verl_keys()) {  // the right name in the wrong section
    if (info.has_effect && info.path.ends_with("." + key))
      return fmt::format("; did you mean '{}'?", info.path);
  }
  return "";
}

}  // namespace cohort::config
