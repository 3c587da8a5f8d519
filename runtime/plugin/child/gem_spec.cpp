#include "runtime/plugin/child/gem_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
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

bool has_tool(const nlohmann::ordered_json& wrapper, std::string_view name) {
  const auto tools = wrapper.find("tool_configs");
  return tools != wrapper.end() && tools->is_array() &&
         std::ranges::any_of(*tools, [name](const auto& tool) {
           return tool.is_object() && tool.value("tool_id", "") == name;
         });
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

/// Returns the folders as absolute paths, which the children may read.
Expected<std::vector<std::string>> readable_folders(const std::vector<std::string>& folders,
                                                    PluginSpec& spec) {
  std::vector<std::string> found;
  for (const std::string& folder : folders) {
    std::error_code error;
    const auto path = std::filesystem::canonical(folder, error);
    if (error || !std::filesystem::is_directory(path, error))
      return Error{Errc::config, fmt::format("pythonpath: no folder '{}'", folder)};
    found.push_back(path.string());
    spec.readable.push_back(path.string());
  }
  return found;
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
  // Programs of the policy would have the network of a search, too: there the user says so.
  if (has_tool(wrapper, "search") && !has_tool(wrapper, "python_code")) spec.has_network = true;
  spec.timeout_s += tool_seconds(wrapper);
  nlohmann::ordered_json own{{"env_id", world.env_id}};
  if (!world.agent_runner.empty()) {
    COHORT_ASSIGN(own["entry"], object_of(world.entry, "custom_envs entry"));
    own["agent_runner"] = world.agent_runner;
    spec.plugin = k_agent_runner;
  } else if (!world.modules.empty()) {
    own["modules"] = world.modules;
    spec.plugin = k_package;
  } else {
    spec.plugin = k_gem;
  }
  COHORT_ASSIGN(own["pythonpath"], readable_folders(world.pythonpath, spec));
  own["env_config"] = std::move(config);
  own["tool_wrapper"] = std::move(wrapper);
  spec.kind = PluginKind::environment;
  spec.config = own.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {};
}

}  // namespace cohort::plugin
