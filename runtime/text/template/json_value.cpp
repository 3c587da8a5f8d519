#include "runtime/text/template/json_value.hpp"

#include <fmt/format.h>

namespace cohort::text::jinja {
namespace {

Value value_at(Budget& budget, const nlohmann::ordered_json& json, int depth) {
  if (depth > k_max_value_depth)
    fail("LimitError", fmt::format("a value nests more than {} deep", k_max_value_depth));
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>());
    case Type::number_integer:
      return Value::integer(json.get<int64_t>());
    case Type::number_unsigned:
      return Value::integer(json.get<uint64_t>());
    case Type::number_float:
      return Value::real(json.get<double>());
    case Type::string:
      return make_text(budget, json.get_ref<const std::string&>());
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(value_at(budget, item, depth + 1));
      return make_list(budget, std::move(items));
    }
    case Type::object: {
      Dict::Entries entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items())
        entries.emplace_back(make_text(budget, key), value_at(budget, item, depth + 1));
      return make_dict(budget, std::move(entries));
    }
    default:
      return Value::none();
  }
}

}  // namespace

Value value_of(Budget& budget, const nlohmann::ordered_json& json) {
  return value_at(budget, json, 1);
}

}  // namespace cohort::text::jinja
