#pragma once
/// The schema is code: describe() walks a RunConfig and tells a Visitor each key with its type,
/// range, reader and meaning. The visitors are the binder (YAML -> struct), the writer (struct ->
/// YAML) and the table of docs/config.md, so the three cannot disagree. To add a key: one member in
/// run_config.hpp, one line here. Not thread-safe per object.
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/roll/names.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool is_min_open = false;  // min itself is outside
  bool is_max_open = false;

  bool contains(double x) const;
  std::string text() const;  // " above 0", " in 0..1", or ""
};

constexpr Range at_least(double min) { return {.min = min}; }
constexpr Range above(double min) { return {.min = min, .is_min_open = true}; }
constexpr Range between(double min, double max) { return {.min = min, .max = max}; }

struct Key {
  std::string_view name;
  std::string_view reader;  // who uses it
  std::string_view doc;     // one sentence; for a key without effect the reason
  Range range = {};
};

using ReadValue = std::function<Expected<void>(const Node& node)>;
using WriteValue = std::function<Node()>;

class Visitor {
 public:
  Visitor() = default;
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;
  virtual ~Visitor() = default;

  // -- what a visitor does --------------------------------------------------
  /// A key with a value. `type` is for messages and the table; `write` gives the present value.
  virtual void value(const Key& key, std::string_view type, const ReadValue& read,
                     const WriteValue& write) = 0;
  /// A key that ROLL knows and that does nothing here; key.doc says why.
  virtual void inert(const Key& key) = 0;
  /// Keys that tune ROLL's engine and do nothing here: those of a section that are there become one
  /// note.
  virtual void tuning(std::span<const std::string_view> names, std::string_view reason);
  /// The section passes on what it does not know: its other keys become one note, unless a name is
  /// so near a known one that it is meant, or is one of `foreign`: another engine's. The last call
  /// in a section.
  virtual void rest(std::string_view reason, std::span<const std::string_view> foreign);
  /// A section. Returns whether to go into it; leave() follows only then.
  virtual bool enter(const Key& key, bool is_configured) = 0;
  virtual void leave() = 0;
  /// A map with names of the user's choice: calls `on_entry` inside each section.
  virtual void each(const Key& key, const std::vector<std::string>& present,
                    const std::function<void(const std::string& name)>& on_entry) = 0;
  /// True for struct -> YAML: what does nothing in this config may be left out.
  virtual bool is_writing() const { return false; }
  /// True for the table of all keys: sections that depend on a value are shown too.
  virtual bool is_listing() const { return false; }

  // -- typed keys, in terms of value() ---------------------------------------
  void boolean(const Key& key, bool& x);
  void negated(const Key& key, bool& x);  // the key says the contrary of the member
  void integer(const Key& key, int64_t& x);
  void nullable_integer(const Key& key, int64_t& x);  // ~ is 0
  void optional_integer(const Key& key, std::optional<int64_t>& x);
  void number(const Key& key, double& x);
  void optional_number(const Key& key, std::optional<double>& x);
  void bytes(const Key& key, uint64_t& x);  // 1073741824, 256MiB, 1GiB
  void text(const Key& key, std::string& x);
  void nullable_text(const Key& key, std::string& x);  // ~ is ""
  void optional_text(const Key& key, std::optional<std::string>& x);
  void texts(const Key& key, std::vector<std::string>& x);
  void text_or_texts(const Key& key, std::vector<std::string>& x);  // one text is a list of one
  void text_map(const Key& key, std::map<std::string, std::string>& x);  // name -> scalar
  void number_map(const Key& key, std::vector<std::pair<std::string, double>>& x);
  /// A map whose keys are another's: kept as a JSON object.
  void json_map(const Key& key, std::string& x);
  void integers(const Key& key, std::vector<int64_t>& x);
  void cards(const Key& key, std::vector<uint32_t>& x);
  void resume(const Key& key, ResumeSection& x);
  void strategy(const Key& key, StrategySettings& x);  // its name; ~ keeps x.strategy
  void env_type(const Key& key, EnvType& x, std::string& name);
  void tokenizer(const Key& key, std::string& name, std::vector<std::string>& vocabulary);
  void one_of(const Key& key, std::span<const std::string_view> names, std::string& x);
  /// A key that may be there with one value only.
  void only(const Key& key, std::string_view allowed);
  void inert(std::initializer_list<std::string_view> names, std::string_view reason);
  void tuning(std::initializer_list<std::string_view> names, std::string_view reason);

  template <class E>
  void choice(const Key& key, E& x) {
    std::optional<size_t> index = static_cast<size_t>(x);
    choice_index(key, names_of(E{}), index, false);
    x = static_cast<E>(*index);
  }
  template <class E>
  void optional_choice(const Key& key, std::optional<E>& x) {
    std::optional<size_t> index;
    if (x) index = static_cast<size_t>(*x);
    choice_index(key, names_of(E{}), index, true);
    x.reset();
    if (index) x = static_cast<E>(*index);
  }

 private:
  void choice_index(const Key& key, std::span<const std::string_view> names,
                    std::optional<size_t>& index, bool is_nullable);
};

/// Walks every key of `config`. The schema.
void describe(Visitor& visitor, RunConfig& config);

// Parts of it, by section.
void describe_algorithm(Visitor& visitor, RunConfig& config);
void describe_rlvr(Visitor& visitor, RunConfig& config);
void describe_roles(Visitor& visitor, RunConfig& config);
void describe_rewards(Visitor& visitor, RunConfig& config);
void describe_strategy(Visitor& visitor, StrategySettings& settings);
void describe_data_args(Visitor& visitor, DataArgs& data);
/// Keys of whatever can be loaded; `reader` is who uses them.
void describe_plugin(Visitor& visitor, PluginSection& plugin, std::string_view reader);
void describe_generating_args(Visitor& visitor, GeneratingArgs& sampling);
/// A role. What it does decides which of its keys have an effect.
struct RoleUse {
  bool is_train = false;
  bool is_infer = false;   // generates
  bool is_reward = false;  // a rule unless it has cards
};
void describe_worker(Visitor& visitor, WorkerConfig& worker, const Key& key, RoleUse use);
/// The keys of a role that are not sections: cards, batch sizes, environment variables.
void describe_worker_keys(Visitor& visitor, WorkerConfig& worker, RoleUse use);
void describe_model_args(Visitor& visitor, ModelArgs& model);
void describe_environments(Visitor& visitor, RunConfig& config);
void describe_runtime(Visitor& visitor, RunConfig& config);

}  // namespace cohort::config
