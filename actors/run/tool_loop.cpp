#include "actors/run/tool_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "actors/roles/plugin_spec.hpp"
#include "runtime/base/log.hpp"
#include "runtime/plugin/tool/open_tool.hpp"

namespace cohort::actors {
namespace {

constexpr double k_slack_s = 6;  // of a call: the start of a sandbox on a busy machine

Expected<std::shared_ptr<tasks::Tool>> open_tool(const config::ToolConfig& from) {
  plugin::PluginSpec spec;
  fill_plugin_spec(from.plugin, spec);
  spec.plugin =
      from.type == config::ToolType::python ? std::string(plugin::k_python_tool) : from.plugin.path;
  spec.output_bytes_max = from.max_output_bytes;
  if (from.schema != "{}") spec.schema = from.schema;
  return plugin::open_tool(spec);
}

/// The longest that a game may wait for the tools of a turn: all games ask for the slowest one.
double turn_limit_s(const config::RunConfig& config) {
  double slowest = 0;
  for (const auto& [name, tool] : config.tools)
    slowest = std::max(
        slowest, (tool.plugin.timeout_s + k_slack_s) / static_cast<double>(tool.plugin.workers));
  const int64_t games =
      config.max_running_requests * static_cast<int64_t>(config.actor_infer.device_mapping.size());
  return slowest * static_cast<double>(games * config.multi_turn.max_parallel_calls);
}

}  // namespace

Expected<std::shared_ptr<tasks::ToolLoop>> open_tool_loop(const config::RunConfig& config) {
  const bool has_answers =
      config.pipeline == config::Pipeline::agentic || config.pipeline == config::Pipeline::rlvr;
  if (config.tools.empty() || !has_answers) return std::shared_ptr<tasks::ToolLoop>();
  auto loop = std::make_shared<tasks::ToolLoop>();
  for (const auto& [name, from] : config.tools) {
    auto tool = open_tool(from);
    if (!tool) return tool.error().with_context("tools." + name);
    loop->tools[name] = std::move(*tool);
  }
  const config::MultiTurnSection& turns = config.multi_turn;
  loop->format = static_cast<tasks::ToolFormat>(turns.format);
  loop->assistant_turns_max = static_cast<int>(turns.max_assistant_turns);
  loop->user_turns_max = static_cast<int>(turns.max_user_turns);
  loop->calls_max = static_cast<int>(turns.max_parallel_calls);
  return loop;
}

std::string shown_tools(const config::RunConfig& config, const tasks::ToolLoop* loop) {
  return loop == nullptr || !config.multi_turn.shows_tools ? "" : tasks::tool_schemas(*loop);
}

Expected<void> complete_tool_loop(const config::RunConfig& config,
                                  std::shared_ptr<const tasks::Tokenizer> tokenizer,
                                  std::shared_ptr<const tasks::ChatFormat> chat,
                                  tasks::ToolLoop& loop) {
  const config::MultiTurnSection& turns = config.multi_turn;
  const tasks::ToolTextLimits limits{
      .characters_max = static_cast<size_t>(turns.max_tool_response_length),
      .tokens_max = static_cast<size_t>(turns.max_tool_response_tokens),
      .side = static_cast<tasks::CutSide>(turns.tool_response_truncate_side)};
  const tasks::ChatMessage said = {"tool", "1"};
  if (auto ids = chat->following(said, ""); !ids)
    return Error{Errc::config,
                 "tools: the chat template cannot write a tool's message: " + ids.error().detail};
  loop.chat = std::move(chat);
  loop.text = std::make_shared<const tasks::ToolText>(std::move(tokenizer), limits);
  return {};
}

void add_tools(const config::RunConfig& config, std::shared_ptr<const tasks::ToolLoop> loop,
               EnvironmentOptions& options) {
  if (!loop) return;
  options.chat = loop->chat;
  options.is_blocking = true;
  if (config.pipeline == config::Pipeline::rlvr)
    options.max_response_total = static_cast<int>(config.response_length);
  options.wait_limit_s += turn_limit_s(config);
  options.make =
      [loop, make = std::move(options.make)]() -> Expected<std::unique_ptr<tasks::Environment>> {
    COHORT_ASSIGN(std::unique_ptr<tasks::Environment> world, make());
    return tasks::with_tools(std::move(world), loop);
  };
  options.reload = [loop, reload = std::move(options.reload)]() -> Expected<bool> {
    bool has_changed = false;
    if (reload) {
      COHORT_ASSIGN(has_changed, reload());
    }
    for (const auto& [name, tool] : loop->tools) {
      auto changed = tool->reload();
      if (!changed) return changed.error().with_context("tools." + name);
      has_changed = has_changed || *changed;
    }
    return has_changed;
  };
}

}  // namespace cohort::actors
