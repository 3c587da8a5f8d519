#include "runtime/config/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/visitor.hpp"

namespace cohort::config {
namespace {

class Lister final : public Visitor {
 public:
  std::vector<KeyInfo> run() {
    RunConfig defaults;
    describe(*this, defaults);
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
    keys_.push_back({path + std::string(key.name), std::move(type), std::move(text),
                     std::string(key.doc), std::string(key.reader), has_effect, is_section});
  }

  std::vector<std::string> prefix_;
  std::vector<KeyInfo> keys_;
};

class Writer final : public Visitor {
 public:
  Node run(const RunConfig& config) {
    stack_.push_back(Node::make_map({}));
    RunConfig copy = config;  // the visitors share one interface, with mutable members
    describe(*this, copy);
    return std::move(stack_.back());
  }

  void value(const Key& key, std::string_view, const ReadValue&, const WriteValue& write) override {
    stack_.back().set(key.name, {}, write());
  }

  void inert(const Key&) override {}

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

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

const std::vector<KeyInfo>& all_keys() {
  static const std::vector<KeyInfo> k_keys = Lister().run();
  return k_keys;
}

std::string schema_markdown() {
  std::string out =
      "### Keys with an effect\n\n| key | type | default | what it does | read by |\n"
      "|---|---|---|---|---|\n";
  for (const KeyInfo& key : all_keys()) {
    if (!key.has_effect) continue;
    std::string text = key.default_text.empty() ? "" : fmt::format("`{}`", cell(key.default_text));
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", key.path, cell(key.type), text,
                       cell(key.doc), key.reader);
  }
  out +=
      "\n### Keys that ROLL knows and that have no effect here\n\nEach one that is in a config is "
      "listed with "
      "its reason when the run starts.\n\n| keys | reason |\n|---|---|\n";
  std::vector<std::pair<std::string, std::string>> rows;  // reason and section -> keys
  for (const KeyInfo& key : all_keys()) {
    if (key.has_effect) continue;
    std::string name = fmt::format("`{}`", key.path);
    auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto& x) { return x.first == key.doc; });
    if (row == rows.end())
      rows.emplace_back(key.doc, name);
    else
      row->second += ", " + name;
  }
  for (const auto& [reason, names] : rows) out += fmt::format("| {} | {} |\n", names, cell(reason));
  return out;
}

Node to_node(const RunConfig& config) { return Writer().run(config); }

}  // namespace cohort::config
