#include "runtime/plugin/child/gem_spec.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace cohort::plugin {
namespace {

constexpr double k_tool_timeout_s = 5;  // GEM's default
constexpr double k_runs_of_a_program = 2;

Expected<nlohmann::ordered_json> object_of(const std::string& text, const char* key) {
  auto json = nlohmann::ordered_json::parse(text.empty() ? "{}" : text, nullptr, false);
  if (!json.is_object())
    return Error{Errc::config, fmt::format("{}: a map is wanted, not '{:.80}'", key, text)};
  return json;
}

/// Returns how long the tools of one step may take.
double tool_seconds(const nlohmann::ordered_json& wrapper) {
  double seconds = 0;
  const auto tools = wrapper.find("tool_configs");
  if (tools == wrapper.end() || !tools->is_array()) return 0;
  for (const auto& tool : *tools) {
    const auto args = tool.is_object() ? tool.find("tool_args") : tool.end();
    const bool has_args = args != tool.end() && args->is_object();
    const auto timeout = has_args ? args->find("timeout") : tool.end();
    const bool is_told = has_args && timeout != args->end() && timeout->is_number();
    seconds += k_runs_of_a_program * (is_told ? timeout->get<double>() : k_tool_timeout_s);
  }
  return seconds;
}

}  // namespace

Expected<void> fill_gem_spec(const GemWorld& world, PluginSpec& spec) {
  COHORT_ASSIGN(auto config, object_of(world.env_config, "env_config"));
  COHORT_ASSIGN(auto wrapper, object_of(world.tool_wrapper, "tool_wrapper"));
  if (const auto name = config.find("dataset_name"); name != config.end() && name->is_string()) {
    std::error_code error;
    const auto path = std::filesystem::canonical(name->get<std::string>(), error);
    if (!error) {
      *name = path.string();
      spec.readable.push_back(path.string());
    }
  }
  spec.timeout_s += tool_seconds(wrapper);
  spec.plugin = k_gem;
  spec.kind = PluginKind::environment;
  spec.config = nlohmann::ordered_json{{"env_id", world.env_id},
                                       {"env_config", std::move(config)},
                                       {"tool_wrapper", std::move(wrapper)}}
                    .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {};
}

}  // namespace cohort::plugin
