#pragma once
/// A tool whose plugin runs in sandboxed children. Owner: its opener. Threads: call() from any;
/// those beyond the workers wait for one. A child that hangs, dies or answers garbage is ended with
/// its whole process tree, and costs the call that it had; the spare takes its slot (PLUGIN-3).
/// TOOL-1, TOOL-2. Bound: output_bytes_max of a call, in the child and here.
#include <atomic>
#include <memory>
#include <string>

#include "runtime/plugin/child/plugin_pool.hpp"
#include "runtime/plugin/hosted_spec.hpp"
#include "runtime/tasks/tools/text_tool.hpp"

namespace cohort::plugin {

class ChildTool final : public tasks::Tool {
 public:
  /// Starts the children; each has loaded the plugin when it returns. Errors as read_version() and
  /// PluginPool::open(); Errc::config if the tool has no schema with a name.
  static Expected<std::shared_ptr<ChildTool>> open(const PluginSpec& spec);

  tasks::ToolResult call(std::string_view arguments) override;
  std::string schema() const override { return schema_; }
  Expected<bool> reload() override;
  void stop() override { pool_->stop(); }

 private:
  ChildTool(PluginSpec file, std::string fingerprint, std::unique_ptr<PluginPool> pool,
            std::string schema);
  Expected<std::string> ask(PluginPool::Worker& worker, std::string_view arguments);

  PluginSpec file_;
  std::string fingerprint_;
  std::unique_ptr<PluginPool> pool_;
  const std::string schema_;  // of the version that was opened: prompts were written with it
};

}  // namespace cohort::plugin
