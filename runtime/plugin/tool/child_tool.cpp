#include "runtime/plugin/tool/child_tool.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/plugin/child/plugin_version.hpp"
#include "runtime/plugin/tool/open_tool.hpp"

namespace cohort::plugin {

using tasks::ToolEnding;
using tasks::ToolResult;

ChildTool::ChildTool(PluginSpec file, std::string fingerprint, std::unique_ptr<PluginPool> pool,
                     std::string schema)
    : file_(std::move(file)),
      fingerprint_(std::move(fingerprint)),
      pool_(std::move(pool)),
      schema_(std::move(schema)) {}

Expected<std::shared_ptr<ChildTool>> ChildTool::open(const PluginSpec& spec) {
  PluginSpec file = spec;
  file.kind = PluginKind::tool;
  COHORT_ASSIGN(PluginVersion version, read_version(file));
  COHORT_ASSIGN(auto pool, PluginPool::open(std::move(version.launch), spec.workers));
  // A C++ tool has a schema of its own, which the config may replace.
  std::string schema = spec.schema.empty() ? pool->loaded().schema : spec.schema;
  if (tool_name(schema).empty())
    return Error{Errc::config,
                 fmt::format("{}: its schema names no function: {:.200}", spec.plugin, schema)};
  return std::shared_ptr<ChildTool>(new ChildTool(std::move(file), std::move(version.fingerprint),
                                                  std::move(pool), std::move(schema)));
}

/// Returns what the tool said, or why it did not. A child that is of no use is dropped.
Expected<std::string> ChildTool::ask(PluginPool::Worker& worker, std::string_view arguments) {
  worker->begin(Op::call, arguments);
  auto frame = worker->next(file_.timeout_s);
  if (frame && frame->kind == static_cast<uint8_t>(Answer::output)) {
    pool_->give_back(std::move(worker));
    return std::move(frame->payload);
  }
  if (frame && frame->kind == static_cast<uint8_t>(Answer::failed)) {
    if (auto failure = read_failure(frame->payload)) {
      pool_->give_back(std::move(worker));
      return Error{failure->code, failure->reason};
    }
  }
  Error lost = frame ? Error{Errc::protocol, "answered garbage"} : frame.error();
  pool_->drop(std::move(worker));
  return lost;
}

ToolResult ChildTool::call(std::string_view arguments) {
  auto worker = pool_->take();
  if (!worker) return {ToolEnding::failed, "", worker.error().detail};
  const double begin = now_seconds();
  auto said = ask(*worker, arguments);
  const double seconds = now_seconds() - begin;
  if (said) return {ToolEnding::answered, std::move(*said), "", seconds};
  const bool is_late = said.error().code == Errc::timeout;
  return {is_late ? ToolEnding::timed_out : ToolEnding::failed, "", said.error().detail, seconds};
}

Expected<bool> ChildTool::reload() {
  COHORT_ASSIGN(PluginVersion version, read_version(file_));
  if (version.fingerprint == fingerprint_) return false;
  COHORT_TRY(pool_->renew(std::move(version.launch)));
  fingerprint_ = std::move(version.fingerprint);
  return true;
}

}  // namespace cohort::plugin
