#include "runtime/plugin/tool/python_tool.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/plugin/code/code_run.hpp"
#include "runtime/plugin/tool/open_tool.hpp"
#include "runtime/tasks/json_options.hpp"

namespace cohort::plugin {
namespace {

using tasks::ToolEnding;
using tasks::ToolResult;

constexpr const char* k_schema =
    R"({"type":"function","function":{"name":"code_interpreter","description":)"
    R"("Runs Python code in a new process and returns what it prints, and the value of a last )"
    R"(expression.","parameters":{"type":"object","properties":{"code":{"type":"string",)"
    R"("description":"The code to run."}},"required":["code"]}}})";

constexpr double k_start_s = 5;  // of a sandbox on a busy machine, beside the deadline of a call

/// Returns the argument with the code; "" if the schema requires none.
std::string code_key_of(const std::string& schema) {
  const auto json = nlohmann::json::parse(schema, nullptr, false);
  const auto required = nlohmann::json::json_pointer("/function/parameters/required");
  if (json.is_discarded() || !json.contains(required)) return "";
  const auto& names = json.at(required);
  return names.is_array() && !names.empty() && names[0].is_string() ? names[0].get<std::string>()
                                                                    : "";
}

class PythonTool final : public tasks::Tool {
 public:
  PythonTool(std::string schema, std::string code_key, CodeRunOptions run,
             std::unique_ptr<CodePool> pool)
      : schema_(std::move(schema)),
        code_key_(std::move(code_key)),
        run_(std::move(run)),
        pool_(std::move(pool)) {}

  ToolResult call(std::string_view arguments) override {
    const auto json = nlohmann::json::parse(arguments, nullptr, false);
    const auto code = json.is_object() ? json.find(code_key_) : json.end();
    if (code == json.end() || !code->is_string())
      return failed("the argument \"" + code_key_ + "\" is missing, or no text");
    CodeTask task;
    task.kind = CaseKind::session;
    task.code = code->get<std::string>();
    if (task.code.find("```") == task.code.find_first_not_of(" \t\r\n"))
      task.code = extract_code(task.code, CodeLanguage::python).code;
    task.cases.resize(1);
    if (!pool_->enter()) return failed("stopped");
    const double begin = now_seconds();
    CodeVerdict verdict = run_code(task, *pool_, run_);
    pool_->leave();
    ToolResult result;
    result.seconds = now_seconds() - begin;
    result.text = std::move(verdict.output);
    result.failure = verdict.error.empty() ? std::move(verdict.failure) : std::move(verdict.error);
    if (!result.failure.empty())
      result.ending = verdict.is_timeout ? ToolEnding::timed_out : ToolEnding::failed;
    return result;
  }
  std::string schema() const override { return schema_; }
  void stop() override { pool_->stop(); }

 private:
  static ToolResult failed(std::string why) { return {ToolEnding::failed, "", std::move(why)}; }

  const std::string schema_, code_key_;
  const CodeRunOptions run_;
  const std::unique_ptr<CodePool> pool_;
};

}  // namespace

Expected<std::shared_ptr<tasks::Tool>> open_python_tool(const PluginSpec& spec) {
  COHORT_ASSIGN(tasks::Options options, tasks::Options::parse("python", spec.config));
  COHORT_TRY(options.finish());
  std::string schema = spec.schema.empty() ? k_schema : spec.schema;
  std::string code_key = code_key_of(schema);
  if (tool_name(schema).empty() || code_key.empty())
    return Error{Errc::config,
                 "python: its schema needs a name and a required argument with the code"};
  if (spec.has_network)
    return Error{Errc::config,
                 "python: sandbox.network: its code runs without a network; use a "
                 "plugin of your own"};
  CodeRunOptions run;
  run.case_timeout_s = spec.timeout_s;
  run.timeout_s = spec.timeout_s + k_start_s;
  run.max_output_bytes = spec.output_bytes_max;
  run.memory_bytes = spec.memory_bytes;
  CodePoolOptions pool;
  pool.mode = spec.mode;
  pool.workers = spec.workers;
  pool.memory_bytes = spec.memory_bytes;
  pool.readable = spec.readable;
  pool.file_bytes = std::max<uint64_t>(pool.file_bytes, spec.output_bytes_max);
  pool.max_frame_bytes = std::max<size_t>(pool.max_frame_bytes, spec.output_bytes_max + 8192);
  pool.python = spec.python.empty() ? "/usr/bin/python3" : spec.python;
  COHORT_ASSIGN(std::unique_ptr<CodePool> opened, CodePool::open(std::move(pool)));
  return std::shared_ptr<tasks::Tool>(std::make_shared<PythonTool>(
      std::move(schema), std::move(code_key), std::move(run), std::move(opened)));
}

}  // namespace cohort::plugin
