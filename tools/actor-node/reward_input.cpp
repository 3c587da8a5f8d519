#include "tools/actor-node/reward_input.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/read_file.hpp"

namespace cohort {
namespace {

using nlohmann::json;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Takes the first of the names that is there out of the row.
json take(json& row, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    auto found = row.find(name);
    if (found == row.end()) continue;
    json value = std::move(*found);
    row.erase(found);
    return value;
  }
  return nullptr;
}

std::string text_of(const json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : dump(value);
}

/// verl keeps the ground truth one level down.
json ground_truth_of(json& row) {
  json value = take(row, {"ground_truth", "gts"});
  auto model = row.find("reward_model");
  if (value.is_null() && model != row.end() && model->is_object())
    return model->value("ground_truth", json());
  return value;
}

}  // namespace

void add_reward_options(CLI::App& command, RewardWords& words, const std::string& name) {
  plugin::PluginSpec& spec = words.spec;
  command
      .add_option(name, spec.plugin, "path.py:function, path.so or the name of a built-in reward")
      ->required();
  command.add_option("--config", spec.config, "the reward's own options, a JSON object")
      ->capture_default_str();
  command.add_option("--timeout", spec.timeout_s, "seconds that one row may take")
      ->capture_default_str();
  command.add_option("--workers", spec.workers, "child processes, or requests at once")
      ->capture_default_str();
  command
      .add_option("--sandbox", words.sandbox, "bubblewrap, or rlimits: limits without isolation")
      ->check(CLI::IsMember({"bubblewrap", "rlimits"}))
      ->capture_default_str();
  command.add_option("--readable", spec.readable, "folder that the plugin may read; repeatable");
  command.add_flag("--network", spec.has_network, "the plugin may use the network");
  command.add_option("--memory-mib", words.memory_mib, "address space of a child")
      ->capture_default_str();
  command.add_option("--python", spec.python, "interpreter of Python plugins (/usr/bin/python3)");
  command.add_flag("--in-process", words.is_in_process,
                   "load a C++ plugin into this process, without sandbox");
}

Expected<plugin::PluginSpec> spec_of(const RewardWords& words) {
  plugin::PluginSpec spec = words.spec;
  spec.mode =
      words.sandbox == "rlimits" ? plugin::SandboxMode::rlimits : plugin::SandboxMode::bubblewrap;
  spec.memory_bytes = words.memory_mib << 20;
  spec.is_isolated = !words.is_in_process;
  if (!json::parse(spec.config, nullptr, false).is_object())
    return Error{Errc::config, fmt::format("--config is a JSON object, not '{}'", spec.config)};
  return spec;
}

Expected<InputRow> read_input_row(std::string_view text, const std::string& file, uint64_t line) {
  json row = json::parse(text, nullptr, false);
  if (!row.is_object())
    return Error{Errc::config, fmt::format("{}:{}: not a JSON object", file, line)};
  InputRow found{.line = line, .row = {}};
  json response = take(row, {"response", "output"});
  if (!response.is_string())
    return Error{Errc::config, fmt::format("{}:{}: no text 'response'; columns: {}", file, line,
                                           dump(row).substr(0, 120))};
  found.row.response = response.get<std::string>();
  json prompt = take(row, {"prompt", "input"});
  json messages = take(row, {"messages"});
  if (prompt.is_array() && messages.is_null()) messages = std::exchange(prompt, json());
  found.row.prompt = text_of(prompt);
  found.row.messages = text_of(messages);
  found.row.ground_truth = text_of(ground_truth_of(row));
  found.row.data_source = text_of(take(row, {"data_source", "tag"}));
  found.row.id = text_of(take(row, {"id"}));
  if (found.row.id.empty()) found.row.id = fmt::format("{}:{}", file, line);
  json tokens = take(row, {"response_tokens"}), is_finished = take(row, {"is_finished"});
  if (tokens.is_number_unsigned()) found.row.response_tokens = tokens.get<uint32_t>();
  if (is_finished.is_boolean()) found.row.is_finished = is_finished.get<bool>();
  found.row.columns = dump(row);
  return found;
}

Expected<std::vector<InputRow>> read_input_rows(const std::string& path) {
  std::vector<InputRow> rows;
  COHORT_TRY(for_each_line(path, [&](std::string_view text, uint64_t line) -> Expected<void> {
    COHORT_ASSIGN(InputRow row, read_input_row(text, path, line));
    rows.push_back(std::move(row));
    return {};
  }));
  if (rows.empty()) return Error{Errc::config, fmt::format("{}: has no rows", path)};
  return rows;
}

}  // namespace cohort
