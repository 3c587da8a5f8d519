#include "runtime/config/bind/schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/suggest.hpp"

namespace cohort::config {
namespace {

class Lister final : public Visitor {
 public:
  std::vector<KeyInfo> run(const Schema& schema) {
    schema(*this);
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
    add(key, "section", "", true, true);
    prefix_.push_back(std::string(key.name));
    return true;
  }

  void leave() override { prefix_.pop_back(); }

  void each(const Key& key, const std::vector<std::string>&,
            const std::function<void(const std::string&)>& on_entry) override {
    enter(key, true);
    prefix_.push_back("<name>");
    on_entry("<name>");
    prefix_.pop_back();
    leave();
  }

  bool is_listing() const override { return true; }

 private:
  void add(const Key& key, std::string type, std::string text, bool has_effect, bool is_section) {
    std::string path;
    for (const std::string& piece : prefix_) path += piece + ".";
    path += key.name;
    if (!paths_.insert(path).second) return;  // engines share names in strategy_config
    keys_.push_back({std::move(path), std::move(type), std::move(text), std::string(key.doc),
                     std::string(key.reader), has_effect, is_section, key.rows});
  }

  std::vector<std::string> prefix_;
  std::set<std::string> paths_;
  std::vector<KeyInfo> keys_;
};

class Writer final : public Visitor {
 public:
  Node run(const Schema& schema) {
    stack_.push_back(Node::make_map({}));
    schema(*this);
    return std::move(stack_.back());
  }

  void value(const Key& key, std::string_view, const ReadValue&, const WriteValue& write) override {
    stack_.back().set(key.name, {}, write());
  }

  void inert(const Key&) override {}

  void others(std::string& json) override {
    auto map = parse_yaml(json, "others");  // JSON is YAML
    if (!map) return;
    for (const Entry& entry : map->entries) stack_.back().set(entry.key, {}, entry.node());
  }

  bool is_writing() const override { return true; }

  bool enter(const Key& key, bool is_configured) override {
    if (is_configured) open(std::string(key.name));
    return is_configured;
  }

  void leave() override {
    Node done = std::move(stack_.back());
    stack_.pop_back();
    stack_.back().set(names_.back(), {}, std::move(done));
    names_.pop_back();
  }

  void each(const Key& key, const std::vector<std::string>& present,
            const std::function<void(const std::string&)>& on_entry) override {
    open(std::string(key.name));
    for (const std::string& name : present) {
      open(name);
      on_entry(name);
      leave();
    }
    leave();
  }

 private:
  void open(std::string name) {
    names_.push_back(std::move(name));
    stack_.push_back(Node::make_map({}));
  }

  std::vector<Node> stack_;
  std::vector<std::string> names_;
};

constexpr size_t k_named_max = 8;  // keys that a message lists

/// True if the pieces of `wanted` are the last ones of `key`; a <name> of the schema takes any.
bool ends_with(const std::vector<std::string>& key, const std::vector<std::string>& wanted) {
  if (wanted.empty() || wanted.size() > key.size()) return false;
  return std::equal(wanted.rbegin(), wanted.rend(), key.rbegin(),
                    [](const std::string& want, const std::string& have) {
                      return have == "<name>" || want == have;
                    });
}

/// The keys that end in `wanted`; only those of the same length when there is one.
std::vector<const KeyInfo*> candidates(const std::vector<KeyInfo>& keys,
                                       const std::vector<std::string>& wanted) {
  std::vector<const KeyInfo*> found;
  for (const KeyInfo& key : keys) {
    std::vector<std::string> pieces = split_path(key.path);
    if (!ends_with(pieces, wanted)) continue;
    if (pieces.size() == wanted.size()) return {&key};
    // a free name alone says nothing: "x" is not custom_envs.<name>
    if (pieces[pieces.size() - wanted.size()] != "<name>") found.push_back(&key);
  }
  return found;
}

std::string list(const std::vector<const KeyInfo*>& keys) {
  std::vector<std::string> paths;
  for (const KeyInfo* key : keys)
    if (paths.size() < k_named_max) paths.push_back(key->path);
  std::string rest =
      keys.size() > k_named_max ? fmt::format(" and {} more", keys.size() - k_named_max) : "";
  return fmt::format("{}{}", fmt::join(paths, ", "), rest);
}

Error unknown(const std::vector<KeyInfo>& keys, std::string_view path) {
  std::vector<std::string> names;
  for (const KeyInfo& key : keys) {
    names.push_back(key.path);
    names.push_back(split_path(key.path).back());
  }
  return {Errc::not_found, fmt::format("there is no key '{}'{}", path, did_you_mean(path, names))};
}

}  // namespace

std::vector<KeyInfo> list_keys(const Schema& schema) { return Lister().run(schema); }

Node write_tree(const Schema& schema) { return Writer().run(schema); }

std::string resolved_text(const Node& tree, const std::vector<Note>& notes) {
  std::string text = to_yaml(tree);
  for (const Note& note : notes)
    text += fmt::format("# no effect: {} ({}): {}\n", note.key, note.where, note.text);
  return text;
}

Expected<const KeyInfo*> find_key(const std::vector<KeyInfo>& keys, std::string_view path) {
  std::vector<std::string> wanted = split_path(path);
  std::vector<const KeyInfo*> found = candidates(keys, wanted);
  if (found.empty() && wanted.size() > 1) {  // a name inside a map of values: system_envs.X
    wanted.pop_back();
    found = candidates(keys, wanted);
    std::erase_if(found, [](const KeyInfo* key) { return !key->type.starts_with("map of"); });
  }
  if (found.empty()) return unknown(keys, path);
  if (found.size() > 1)
    return Error{Errc::config,
                 fmt::format("'{}' is the end of several keys; say which: {}", path, list(found))};
  return found.front();
}

}  // namespace cohort::config
