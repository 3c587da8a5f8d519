#include "runtime/plugin/code/code_reward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "runtime/base/waits.hpp"
#include "runtime/plugin/code/code_run.hpp"
#include "runtime/tasks/json_options.hpp"

namespace cohort::plugin {
namespace {

using tasks::RewardResult;
using tasks::RewardRow;

struct CodeConfig {
  CodeLanguage language = CodeLanguage::automatic;
  bool is_share = false;
  CodeRunOptions run;
  CodePoolOptions pool;
};

/// timeout_s and memory_bytes are the answer's; a case has no more time than that.
CodeConfig read_config(tasks::Options& options, const PluginSpec& spec) {
  CodeConfig config;
  CodeRunOptions& run = config.run;
  CodePoolOptions& pool = config.pool;
  const std::string language = options.choice("language", {"auto", "python", "cpp"});
  config.language = language == "python" ? CodeLanguage::python
                    : language == "cpp"  ? CodeLanguage::cpp
                                         : CodeLanguage::automatic;
  config.is_share = options.choice("score", {"all", "share"}) == "share";
  for (auto [key, seconds] : {std::pair{"case_timeout_s", &run.case_timeout_s},
                              std::pair{"compile_timeout_s", &run.compile_timeout_s}}) {
    *seconds = options.number(key, *seconds);
    if (*seconds <= 0) options.reject(key, "must be above 0 seconds");
  }
  constexpr uint32_t k_most = 1U << 30;
  run.max_output_bytes = options.count("max_output_bytes", 1U << 20, 1);
  if (run.max_output_bytes > k_most) options.reject("max_output_bytes", "is above 1 GiB");
  pool.processes = options.count("processes", pool.processes, 1);
  run.compiler = {"/usr/bin/g++"};
  pool.python = "/usr/bin/python3";
  for (auto [key, path] :
       {std::pair{"python", &pool.python}, std::pair{"compiler", &run.compiler[0]}}) {
    *path = options.text(key, *path);
    if (!path->starts_with('/')) options.reject(key, "must be an absolute path");
  }
  for (std::string& word :
       options.texts("compiler_options", {"-O1", "-std=c++20", "-w", "-fmax-errors=1"}))
    run.compiler.push_back(std::move(word));
  run.timeout_s = spec.timeout_s;
  run.case_timeout_s = std::min(run.case_timeout_s, run.timeout_s);
  run.memory_bytes = pool.memory_bytes = spec.memory_bytes;
  run.stops_at_failure = !config.is_share;
  pool.mode = spec.mode;
  pool.workers = std::max(spec.workers, 1U);
  pool.readable = spec.readable;
  pool.file_bytes = std::max<uint64_t>(pool.file_bytes, run.max_output_bytes);
  pool.max_frame_bytes = std::max<size_t>(pool.max_frame_bytes, run.max_output_bytes + 8192);
  return config;
}

class CodeReward final : public tasks::Reward {
 public:
  CodeReward(CodeConfig config, std::unique_ptr<CodePool> pool)
      : config_(std::move(config)), pool_(std::move(pool)) {}

  /// Rows of one call run beside each other too, as far as there are places.
  std::vector<RewardResult> score(std::span<const RewardRow> rows) override {
    std::vector<RewardResult> results(rows.size());
    std::atomic<size_t> next{0};
    auto work = [&] {
      for (size_t i; (i = next.fetch_add(1)) < rows.size();) results[i] = score_row(rows[i]);
    };
    {
      std::vector<std::jthread> helpers;
      for (size_t i = 1; i < std::min<size_t>(rows.size(), config_.pool.workers); ++i)
        helpers.emplace_back(work);
      work();
    }
    return results;
  }

  uint32_t concurrency() const override { return config_.pool.workers; }
  void stop() override { pool_->stop(); }

 private:
  RewardResult score_row(const RewardRow& row) {
    Expected<CodeTask> task = code_task(row, config_.language);
    if (!task) return tasks::without_score(task.error().detail);
    auto count = static_cast<double>(task->cases.size());
    CodeVerdict verdict = judge(*task);
    if (!verdict.error.empty())
      return tasks::without_score(fmt::format("{}: {}", row.id, verdict.error));
    RewardResult result;
    double share = static_cast<double>(verdict.passed) / count;
    result.score = config_.is_share ? share : verdict.passed == task->cases.size() ? 1 : 0;
    result.parts = {{"passed", verdict.passed}, {"cases", count}};
    result.detail = std::move(verdict.failure);
    return result;
  }

  CodeVerdict judge(const CodeTask& task) {
    if (task.code.find_first_not_of(" \t\r\n") == std::string::npos)
      return {0, "no code in the answer", ""};
    if (task.language == CodeLanguage::cpp && task.kind != CaseKind::input &&
        task.kind != CaseKind::text)
      return {0, "a C++ answer has no functions that a test in Python could call", ""};
    if (!pool_->enter()) return {0, "", "code_sandbox: stopped"};
    Wait wait({WaitLevel::outside, "code_sandbox", "the code of an answer",
               "its end, or the time limit of its cases"});
    CodeVerdict verdict = run_code(task, *pool_, config_.run);
    wait.end();
    pool_->leave();
    return verdict;
  }

  const CodeConfig config_;
  const std::unique_ptr<CodePool> pool_;
};

}  // namespace

Expected<std::shared_ptr<tasks::Reward>> make_code_reward(std::string_view config_json,
                                                          const PluginSpec& spec) {
  COHORT_ASSIGN(tasks::Options options, tasks::Options::parse("code_sandbox", config_json));
  CodeConfig config = read_config(options, spec);
  COHORT_TRY(options.finish());
  COHORT_ASSIGN(std::unique_ptr<CodePool> pool, CodePool::open(config.pool));
  return std::shared_ptr<tasks::Reward>(
      std::make_shared<CodeReward>(std::move(config), std::move(pool)));
}

}  // namespace cohort::plugin
