#pragma once
/// A schema is code: a describe function walks a config and tells a Visitor each key with its type,
/// range, reader and meaning. The visitors are the binder (YAML -> struct, binder.hpp), the writer
/// (struct -> YAML) and the list of keys (schema.hpp), so the three cannot disagree. Both dialects
/// use them. Not thread-safe per object.
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/enums.hpp"
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
  std::span<const catalog::Entry> rows = {};  // of the catalogue, where its names come from there
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
  /// A key that would change what is trained, and that no part here reads: with ~, false, 0, an
  /// empty text, list or map it is without effect; else a run refuses it (not_built.hpp). key.doc
  /// says what is not built in, and what to do.
  virtual void refused(const Key& key) { inert(key); }
  /// Keys that tune ROLL's engine and do nothing here: those of a section that are there become one
  /// note.
  virtual void tuning(std::string_view names, std::string_view reason);
  /// The section passes on what it does not know: its other keys become one note, unless a name is
  /// so near a known one that it is meant, or is one of `foreign`: another engine's. The last call
  /// in a section.
  virtual void rest(std::string_view reason, std::string_view foreign);
  /// The section's other keys are another program's: kept as a JSON object, unless a name is so
  /// near a known one that it is meant. The last call in a section.
  virtual void others(std::string& json);
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
  void key(const Key& key, bool& x);
  void key(const Key& key, std::optional<bool>& x);
  void key(const Key& key, int64_t& x);
  void key(const Key& key, std::optional<int64_t>& x);
  void key(const Key& key, double& x);
  void key(const Key& key, std::optional<double>& x);
  void key(const Key& key, std::string& x);
  void key(const Key& key, std::optional<std::string>& x);
  void key(const Key& key, std::vector<std::string>& x);
  void key(const Key& key, std::vector<int64_t>& x);
  void key(const Key& key, std::vector<double>& x);
  void key(const Key& key, std::map<std::string, std::string>& x);  // name -> scalar
  void negated(const Key& key, bool& x);               // the key says the contrary of the member
  void nullable_integer(const Key& key, int64_t& x);   // ~ is 0
  void nullable_text(const Key& key, std::string& x);  // ~ is ""
  void loose_text(const Key& key, std::string& x);  // a number is taken as it is written; ~ is ""
  void text_or_texts(const Key& key, std::vector<std::string>& x);  // one text is a list of one
  void bytes(const Key& key, uint64_t& x);                          // 1073741824, 256MiB, 1GiB
  void number_map(const Key& key, std::vector<std::pair<std::string, double>>& x);
  /// A map whose keys are another's: kept as a JSON object, or as it is.
  void json_map(const Key& key, std::string& x);
  void free_map(const Key& key, Node& x);
  void cards(const Key& key, std::vector<uint32_t>& x);
  void resume(const Key& key, ResumeSection& x);
  void strategy(const Key& key, StrategySettings& x);  // its name; ~ keeps x.strategy
  void env_type(const Key& key, EnvType& x, std::string& name);
  void tokenizer(const Key& key, std::string& name, std::vector<std::string>& vocabulary);
  void one_of(const Key& key, std::span<const std::string_view> names, std::string& x);
  /// A key that may be there with one value only.
  void only(const Key& key, std::string_view allowed);
  /// Keys that do nothing here, separated by blanks.
  void inert(std::string_view names, std::string_view reason);

  /// A row of the catalogue, by any name that `dialect` accepts. `written`: as the file spells it.
  template <catalog::Kind E>
  void choice(const Key& key, E& x, Dialect dialect, std::string& written) {
    std::optional<size_t> row = static_cast<size_t>(x);
    catalog_row(key, {catalog::entries(x), dialect, false}, row, written);
    x = static_cast<E>(*row);
  }
  template <catalog::Kind E>
  void key(const Key& key, E& x, Dialect dialect = Dialect::roll) {
    std::string written;
    choice(key, x, dialect, written);
  }
  template <catalog::Kind E>
  void key(const Key& key, std::optional<E>& x) {
    std::optional<size_t> row;
    if (x) row = static_cast<size_t>(*x);
    std::string written;
    catalog_row(key, {catalog::entries(E{}), Dialect::roll, true}, row, written);
    x.reset();
    if (row) x = static_cast<E>(*row);
  }
  template <class E>
  requires(std::is_enum_v<E> && !catalog::Kind<E>) void key(const Key& key, E& x) {
    std::optional<size_t> index = static_cast<size_t>(x);
    choice_index(key, catalog::words(names_of(E{})), index, false);
    x = static_cast<E>(*index);
  }
  template <class E>
  requires(std::is_enum_v<E> && !catalog::Kind<E>) void key(const Key& key, std::optional<E>& x) {
    std::optional<size_t> index;
    if (x) index = static_cast<size_t>(*x);
    choice_index(key, catalog::words(names_of(E{})), index, true);
    x.reset();
    if (index) x = static_cast<E>(*index);
  }

 private:
  struct Choice {
    std::span<const catalog::Entry> rows;
    Dialect dialect;
    bool is_nullable;
  };
  void catalog_row(Key key, const Choice& choice, std::optional<size_t>& row, std::string& written);
  void choice_index(const Key& key, std::span<const std::string_view> names,
                    std::optional<size_t>& index, bool is_nullable);
};

}  // namespace cohort::config
