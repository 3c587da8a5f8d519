#include "runtime/config/bind/visitor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "runtime/base/suggest.hpp"
#include "runtime/config/tree/device_mapping.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace cohort::config {
namespace {

/// "; write 10, or 8 …" for digits behind a 0, which YAML 1.1 takes for octal.
std::string octal_advice(const Node& node) {
  if (node.kind != NodeKind::scalar || node.is_quoted || !is_octal(node.scalar)) return "";
  std::string digits = node.scalar;
  std::erase(digits, '_');
  const size_t first = std::min(digits.find_first_not_of("+-0"), digits.size() - 1);
  std::string decimal = (digits.front() == '-' ? "-" : "") + digits.substr(first);
  return fmt::format("; a 0 in front makes it octal in YAML 1.1: write {}{}", decimal,
                     digits.find_first_of("89") == std::string::npos
                         ? fmt::format(", or 0x{:x} for octal {}",
                                       std::strtoull(digits.c_str() + first, nullptr, 8), decimal)
                         : "");
}

Error expected(std::string_view what, const Node& node) {
  return {Errc::config,
          fmt::format("expected {}, got {}{}", what, describe_value(node), octal_advice(node))};
}

Node plain(std::string text) { return Node::make_scalar(std::move(text), false); }
Node string_node(std::string_view text) {
  return Node::make_scalar(escape_interpolation(text), true);
}

Node escaped(const Node& node) {
  Node copy = node;
  copy.scalar = escape_interpolation(node.scalar);
  for (Node& item : copy.items) item = escaped(item);
  for (Entry& entry : copy.entries) entry.node() = escaped(entry.node());
  return copy;
}

struct ByteUnit {
  std::string_view suffix;
  uint64_t bytes;
};
// the longest first: "MiB" ends in "B" too
constexpr std::array<ByteUnit, 8> k_byte_units = {{{"KiB", uint64_t{1} << 10},
                                                   {"MiB", uint64_t{1} << 20},
                                                   {"GiB", uint64_t{1} << 30},
                                                   {"TiB", uint64_t{1} << 40},
                                                   {"KB", 1000},
                                                   {"MB", 1'000'000},
                                                   {"GB", 1'000'000'000},
                                                   {"TB", 1'000'000'000'000}}};

std::optional<uint64_t> parse_bytes(const Node& node) {
  static constexpr double k_bytes_max = 1e18;
  Node number = node;
  uint64_t unit_bytes = 1;
  for (const ByteUnit& unit : k_byte_units) {
    if (!number.scalar.ends_with(unit.suffix)) continue;
    number.scalar.resize(number.scalar.size() - unit.suffix.size());
    number.scalar.resize(number.scalar.find_last_not_of(' ') + 1);
    number.is_quoted = false;
    unit_bytes = unit.bytes;
    break;
  }
  std::optional<double> value = as_double(number);
  if (!value || *value < 0 || *value * static_cast<double>(unit_bytes) > k_bytes_max)
    return std::nullopt;
  return static_cast<uint64_t>(std::llround(*value * static_cast<double>(unit_bytes)));
}

std::string bytes_text(uint64_t bytes) {
  for (const ByteUnit& unit : {k_byte_units[2], k_byte_units[1], k_byte_units[0]})
    if (bytes >= unit.bytes && bytes % unit.bytes == 0)
      return fmt::format("{}{}", bytes / unit.bytes, unit.suffix);
  return fmt::format("{}", bytes);
}

Expected<void> read_string(const Node& node, std::string& x) {
  if (node.kind != NodeKind::scalar) return expected("a text", node);
  x = node.scalar;
  return {};
}

/// A list with `to_node` of each item.
template <class Items, class ToNode>
Node list_of(const Items& items, const ToNode& to_node) {
  Node node;
  node.kind = NodeKind::sequence;
  for (const auto& item : items) node.items.push_back(to_node(item));
  return node;
}

template <class T>
std::string shown(T x) {
  return fmt::format("{}", x);
}

template <class T>
std::optional<T> parsed(const Node& node) {
  if constexpr (std::is_same_v<T, bool>)
    return as_bool(node);
  else if constexpr (std::is_same_v<T, int64_t>)
    return as_int(node);
  else
    return as_double(node);
}

/// Hands `store` the number of a node, or nothing for ~ where `takes_null`.
template <class T, class Store>
auto number_reader(const Key& key, std::string wanted, bool takes_null, Store store) {
  return [=, &key](const Node& node) -> Expected<void> {
    const std::optional<T> number = parsed<T>(node);
    const bool fits = number && key.range.contains(static_cast<double>(*number));
    if (!fits && !(takes_null && node.kind == NodeKind::null)) return expected(wanted, node);
    store(number);
    return {};
  };
}

template <class T>
auto list_reader(const Key& key, std::string wanted, std::vector<T>& x) {
  return [=, &key, &x](const Node& node) -> Expected<void> {
    if (node.kind != NodeKind::sequence) return expected(wanted, node);
    x.clear();
    for (const Node& item : node.items) {
      const std::optional<T> number = parsed<T>(item);
      if (!number || !key.range.contains(static_cast<double>(*number)))
        return expected(wanted, item);
      x.push_back(*number);
    }
    return {};
  };
}

}  // namespace

bool Range::contains(double x) const {
  return (is_min_open ? x > min : x >= min) && (is_max_open ? x < max : x <= max);
}

std::string Range::text() const {
  bool has_min = std::isfinite(min);
  bool has_max = std::isfinite(max);
  std::string low =
      has_min ? (is_min_open ? " above " : " of at least ") + fmt::format("{}", min) : "";
  std::string high =
      has_max ? (is_max_open ? " below " : " of at most ") + fmt::format("{}", max) : "";
  if (has_min && has_max && !is_min_open && !is_max_open)
    return fmt::format(" in {}..{}", min, max);
  return has_min && has_max ? low + " and" + high : low + high;
}

void Visitor::key(const Key& key, bool& x) {
  value(key, "bool",
        number_reader<bool>(key, "true or false", false, [&x](auto flag) { x = *flag; }),
        [&x] { return plain(shown(x)); });
}

void Visitor::key(const Key& key, std::optional<bool>& x) {
  value(key, "bool or ~",
        number_reader<bool>(key, "true, false or ~", true, [&x](auto flag) { x = flag; }),
        [&x] { return x ? plain(shown(*x)) : Node{}; });
}

void Visitor::negated(const Key& key, bool& x) {
  auto store = [&x](auto flag) { x = !flag.value_or(false); };
  value(key, "bool", number_reader<bool>(key, "true or false", true, store),
        [&x] { return plain(shown(!x)); });
}

void Visitor::key(const Key& key, int64_t& x) {
  const std::string type = "integer" + key.range.text();
  value(key, type,
        number_reader<int64_t>(key, "an " + type, false, [&x](auto number) { x = *number; }),
        [&x] { return plain(shown(x)); });
}

void Visitor::nullable_integer(const Key& key, int64_t& x) {
  const std::string type = "integer" + key.range.text();
  auto store = [&x](auto number) { x = number.value_or(0); };
  value(key, type, number_reader<int64_t>(key, "an " + type, key.range.contains(0), store),
        [&x] { return plain(shown(x)); });
}

void Visitor::key(const Key& key, std::optional<int64_t>& x) {
  const std::string type = "integer" + key.range.text() + " or ~";
  value(key, type,
        number_reader<int64_t>(key, "an " + type, true, [&x](auto number) { x = number; }),
        [&x] { return x ? plain(shown(*x)) : Node{}; });
}

void Visitor::key(const Key& key, double& x) {
  const std::string type = "number" + key.range.text();
  value(key, type,
        number_reader<double>(key, "a " + type, false, [&x](auto number) { x = *number; }),
        [&x] { return plain(shown(x)); });
}

void Visitor::key(const Key& key, std::optional<double>& x) {
  const std::string type = "number" + key.range.text() + " or ~";
  value(key, type, number_reader<double>(key, "a " + type, true, [&x](auto number) { x = number; }),
        [&x] { return x ? plain(shown(*x)) : Node{}; });
}

void Visitor::bytes(const Key& key, uint64_t& x) {
  std::string type = "bytes" + key.range.text();
  auto read = [&x, &key](const Node& node) -> Expected<void> {
    auto value = parse_bytes(node);
    if (!value || !key.range.contains(static_cast<double>(*value)))
      return expected(
          fmt::format("a number of bytes{} (as 268435456, 256MiB or 1GiB)", key.range.text()),
          node);
    x = *value;
    return {};
  };
  value(key, type, read, [&x] { return plain(bytes_text(x)); });
}

void Visitor::key(const Key& key, std::string& x) {
  auto read = [&x](const Node& node) { return read_string(node, x); };
  value(key, "text", read, [&x] { return string_node(x); });
}

void Visitor::nullable_text(const Key& key, std::string& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    x.clear();
    return node.kind == NodeKind::null ? Expected<void>{} : read_string(node, x);
  };
  value(key, "text or ~", read, [&x] { return x.empty() ? Node{} : string_node(x); });
}

void Visitor::key(const Key& key, std::optional<std::string>& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    x.reset();
    if (node.kind == NodeKind::null) return {};
    return read_string(node, x.emplace());
  };
  value(key, "text or ~", read, [&x] { return x ? string_node(*x) : Node{}; });
}

void Visitor::key(const Key& key, std::vector<std::string>& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    if (node.kind != NodeKind::sequence) return expected("a list of texts", node);
    x.clear();
    for (const Node& item : node.items) COHORT_TRY(read_string(item, x.emplace_back()));
    return {};
  };
  value(key, "list of texts", read, [&x] { return list_of(x, string_node); });
}

void Visitor::text_or_texts(const Key& key, std::vector<std::string>& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    x.clear();
    if (node.kind == NodeKind::null) return {};
    if (node.kind == NodeKind::scalar) return read_string(node, x.emplace_back());
    if (node.kind != NodeKind::sequence) return expected("a text or a list of texts", node);
    for (const Node& item : node.items) COHORT_TRY(read_string(item, x.emplace_back()));
    return {};
  };
  value(key, "text or list of texts", read,
        [&x] { return x.empty() ? Node{} : list_of(x, string_node); });
}

void Visitor::key(const Key& key, std::map<std::string, std::string>& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    x.clear();
    if (node.kind == NodeKind::null) return {};
    if (node.kind != NodeKind::map) return expected("a map of names to texts", node);
    for (const Entry& entry : node.entries) {
      if (entry.node().kind != NodeKind::scalar)
        return Error{Errc::config, fmt::format("expected a text for {}, got {}", entry.key,
                                               describe_value(entry.node()))};
      x[entry.key] = entry.node().scalar;
    }
    return {};
  };
  value(key, "map of texts", read, [&x] {
    Node node = Node::make_map({});
    for (const auto& [name, text] : x) node.set(name, {}, string_node(text));
    return node;
  });
}

void Visitor::json_map(const Key& key, std::string& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    if (node.kind != NodeKind::null && node.kind != NodeKind::map)
      return expected("a map of options", node);
    x = node.kind == NodeKind::null ? "{}" : to_json(node);
    return {};
  };
  // JSON is YAML.
  value(key, "map of options", read, [&x] {
    auto node = parse_yaml(x, "args");
    return node ? *node : Node::make_map({});
  });
}

void Visitor::number_map(const Key& key, std::vector<std::pair<std::string, double>>& x) {
  std::string type = fmt::format("map of numbers{}", key.range.text());
  auto read = [&x, &key, &type](const Node& node) -> Expected<void> {
    x.clear();
    if (node.kind == NodeKind::null) return {};
    if (node.kind != NodeKind::map) return expected("a " + type, node);
    for (const Entry& entry : node.entries) {
      auto number = as_double(entry.node());
      if (!number || !key.range.contains(*number))
        return Error{Errc::config,
                     fmt::format("expected a number{} for {}, got {}", key.range.text(), entry.key,
                                 describe_value(entry.node()))};
      x.emplace_back(entry.key, *number);
    }
    return {};
  };
  value(key, type, read, [&x] {
    Node node = Node::make_map({});
    for (const auto& [name, number] : x) node.set(name, {}, plain(shown(number)));
    return node;
  });
}

void Visitor::key(const Key& key, std::vector<int64_t>& x) {
  const std::string type = "list of integers" + key.range.text();
  value(key, type, list_reader(key, "a " + type, x),
        [&x] { return list_of(x, [](int64_t item) { return plain(shown(item)); }); });
}

void Visitor::key(const Key& key, std::vector<double>& x) {
  const std::string type = "list of numbers" + key.range.text();
  value(key, type, list_reader(key, "a " + type, x),
        [&x] { return list_of(x, [](double item) { return plain(shown(item)); }); });
}

void Visitor::loose_text(const Key& key, std::string& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    if (node.kind == NodeKind::sequence || node.kind == NodeKind::map)
      return expected("a text or a number", node);
    x = node.scalar;
    return {};
  };
  value(key, "text, number or ~", read, [&x] { return x.empty() ? Node{} : string_node(x); });
}

void Visitor::free_map(const Key& key, Node& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    if (node.kind != NodeKind::null && node.kind != NodeKind::map)
      return expected("a section of keys", node);
    x = node;
    return {};
  };
  value(key, "section of any keys", read,
        [&x] { return x.entries.empty() ? Node::make_map({}) : escaped(x); });
}

void Visitor::cards(const Key& key, std::vector<uint32_t>& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    if (node.kind == NodeKind::null) {
      x.clear();
      return {};
    }
    if (node.kind == NodeKind::scalar) {
      if (as_int(node))
        return Error{Errc::config, fmt::format("expected a list of cards, got {}; write [{}]",
                                               describe_value(node), node.scalar)};
      COHORT_ASSIGN(x, parse_device_mapping(node.scalar));
      return {};
    }
    std::vector<int64_t> ids;
    for (const Node& item : node.items) {
      auto id = as_int(item);
      if (!id) return expected("a card id", item);
      ids.push_back(*id);
    }
    if (node.kind != NodeKind::sequence)
      return expected("a list of cards as [0, 1] or list(range(0,2))", node);
    COHORT_ASSIGN(x, check_device_ids(ids));
    return {};
  };
  auto one = [](uint32_t id) { return plain(shown(id)); };
  value(key, "cards", read, [&] { return x.empty() ? Node{} : list_of(x, one); });
}

void Visitor::resume(const Key& key, ResumeSection& x) {
  auto read = [&x](const Node& node) -> Expected<void> {
    x = {};
    if (node.kind == NodeKind::null) return {};
    if (auto flag = as_bool(node)) {
      x.is_enabled = *flag;
      return {};
    }
    if (node.kind != NodeKind::scalar || node.scalar.empty())
      return expected("true, false or the path of a checkpoint", node);
    x = {true, node.scalar};
    return {};
  };
  value(key, "bool or path", read,
        [&x] { return x.path.empty() ? plain(shown(x.is_enabled)) : string_node(x.path); });
}

void Visitor::strategy(const Key& key, StrategySettings& x) {
  std::vector<std::string_view> names = catalog::words(names_of(Strategy{}));
  names.erase(names.begin());  // "none" is no name
  std::optional<size_t> index;
  if (!x.strategy_name.empty()) index = static_cast<size_t>(x.strategy) - 1;
  choice_index(key, names, index, true);
  if (!index) return;
  x.strategy_name = names[*index];
  x.strategy = static_cast<Strategy>(*index + 1);
}

void Visitor::env_type(const Key& key, EnvType& x, std::string& name) {
  std::vector<std::string_view> names;
  for (const catalog::Name& one : catalog::names(catalog::entries(EnvType{}), Dialect::roll))
    names.push_back(one.text);
  auto read = [&x, &name, names](const Node& node) -> Expected<void> {
    COHORT_TRY(read_string(node, name));
    const auto family = std::ranges::find_if(names, [&name](std::string_view known) {
      return known.ends_with(':') && name.starts_with(known);
    });
    const std::string_view row = family == names.end() ? std::string_view(name) : *family;
    auto found = std::find(names.begin(), names.end(), row);
    std::string near = found == names.end() ? did_you_mean(name, {names.begin(), names.end()}) : "";
    if (!near.empty())
      return Error{Errc::config, fmt::format("there is no environment '{}'{}", name, near)};
    x = catalog::find<EnvType>(row).value_or(EnvType::package);
    return {};
  };
  Key listed = key;
  listed.rows = catalog::entries(EnvType{});
  value(listed, fmt::format("{} | the id of another one", fmt::join(names, " | ")), read,
        [&name] { return string_node(name); });
}

void Visitor::tokenizer(const Key& key, std::string& name, std::vector<std::string>& vocabulary) {
  static constexpr std::array<std::string_view, 4> k_built_in = {"frozen_lake", "arithmetic",
                                                                 "word_problems", "bytes"};
  auto read = [&](const Node& node) -> Expected<void> {
    if (node.kind == NodeKind::sequence) {
      name.clear();
      vocabulary.clear();
      for (const Node& item : node.items) COHORT_TRY(read_string(item, vocabulary.emplace_back()));
      return vocabulary.empty() ? Expected<void>(Error{Errc::config, "the list of words is empty"})
                                : Expected<void>{};
    }
    if (node.kind != NodeKind::scalar)
      return expected("the name of a built-in vocabulary, or a list of words", node);
    const bool is_path = node.scalar.find('/') != std::string::npos;
    if (!is_path &&
        std::find(k_built_in.begin(), k_built_in.end(), node.scalar) == k_built_in.end())
      return Error{Errc::config,
                   fmt::format("no built-in vocabulary '{}' (there is: {}; a folder with a "
                               "tokenizer.json has a / in its path)",
                               node.scalar, fmt::join(k_built_in, ", "))};
    name = node.scalar;
    vocabulary.clear();
    return {};
  };
  value(key, "name, folder or list of words", read,
        [&] { return vocabulary.empty() ? string_node(name) : list_of(vocabulary, string_node); });
}

void Visitor::only(const Key& key, std::string_view allowed) {
  Node wanted = is_null_text(allowed) ? Node{} : plain(std::string(allowed));
  auto read = [&](const Node& node) -> Expected<void> {
    bool is_same = node.kind == wanted.kind && node.scalar == wanted.scalar;
    if (auto number = as_double(wanted); number && as_double(node))
      is_same = *number == *as_double(node);
    if (auto flag = as_bool(wanted); flag && as_bool(node)) is_same = *flag == *as_bool(node);
    if (!is_same)
      return Error{Errc::config, fmt::format("{} is not built in: only {} is accepted ({})",
                                             describe_value(node), allowed, key.doc)};
    return {};
  };
  value(key, fmt::format("only {}", allowed), read, [&] { return wanted; });
}

void Visitor::inert(std::string_view names, std::string_view reason) {
  for (std::string_view name : catalog::words(names)) inert(Key{name, "nobody", reason});
}

void Visitor::tuning(std::string_view names, std::string_view reason) { inert(names, reason); }

void Visitor::rest(std::string_view, std::string_view) {}

void Visitor::others(std::string&) {}

void Visitor::catalog_row(Key key, const Choice& choice, std::optional<size_t>& row,
                          std::string& written) {
  const std::vector<catalog::Name> names = catalog::names(choice.rows, choice.dialect);
  std::vector<std::string_view> texts;
  std::optional<size_t> index;
  for (size_t i = 0; i < names.size(); ++i) {
    texts.push_back(names[i].text);
    const bool is_it = row == names[i].row && (written.empty() || written == names[i].text);
    if (is_it && !index) index = i;
  }
  key.rows = choice.rows;
  choice_index(key, texts, index, choice.is_nullable);
  row.reset();
  if (!index) return;
  row = names[*index].row;
  written = names[*index].text;
}

void Visitor::one_of(const Key& key, std::span<const std::string_view> names, std::string& x) {
  std::optional<size_t> index = std::find(names.begin(), names.end(), x) - names.begin();
  choice_index(key, names, index, false);
  x = names[*index];
}

void Visitor::choice_index(const Key& key, std::span<const std::string_view> names,
                           std::optional<size_t>& index, bool is_nullable) {
  std::string type = fmt::format("{}{}", fmt::join(names, " | "), is_nullable ? " | ~" : "");
  auto read = [&](const Node& node) -> Expected<void> {
    if (node.kind == NodeKind::null && is_nullable) {
      index.reset();
      return {};
    }
    auto found = std::find(names.begin(), names.end(), node.scalar);
    if (node.kind != NodeKind::scalar || found == names.end())
      return Error{
          Errc::config,
          fmt::format("expected one of {}, got {}{}", fmt::join(names, ", "), describe_value(node),
                      did_you_mean(node.scalar, {names.begin(), names.end()}))};
    index = static_cast<size_t>(found - names.begin());
    return {};
  };
  value(key, type, read, [&] { return index ? string_node(names[*index]) : Node{}; });
}

}  // namespace cohort::config
