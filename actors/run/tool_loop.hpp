#pragma once
/// The tools of a run, from its config: opened, with their children started, and shared by all of
/// its worlds. Called once per process, before the run.
#include <memory>
#include <string>

#include "actors/roles/environment_actor.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/tasks/tools/tool_world.hpp"

namespace cohort::actors {

/// Returns null if the config has no tools, or its pipeline samples no answers. What the loop shows
/// and how it cuts comes with complete_tool_loop(). Errors name the key, `tools.NAME`; otherwise as
/// plugin::open_tool().
Expected<std::shared_ptr<tasks::ToolLoop>> open_tool_loop(const config::RunConfig& config);

/// Returns the schemas for the prompt; "" if it shows none.
std::string shown_tools(const config::RunConfig& config, const tasks::ToolLoop* loop);

/// Gives the loop the policy's chat format and tokenizer. Returns Errc::config if these cannot
/// write a tool's message.
Expected<void> complete_tool_loop(const config::RunConfig& config,
                                  std::shared_ptr<const tasks::Tokenizer> tokenizer,
                                  std::shared_ptr<const tasks::ChatFormat> chat,
                                  tasks::ToolLoop& loop);

/// Lets the worlds of `options` call tools: they wait, and a turn may take as long as the calls of
/// all open games with the workers that there are. Does nothing without a loop.
void add_tools(const config::RunConfig& config, std::shared_ptr<const tasks::ToolLoop> loop,
               EnvironmentOptions& options);

}  // namespace cohort::actors
