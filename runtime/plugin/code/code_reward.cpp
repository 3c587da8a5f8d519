#include "runtime/plugin/code/code_reward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/plugin/code/code_run.hpp"

namespace cohort::plugin {
namespace {

using Json = nlohmann::json;
using tasks::RewardResult;
using tasks::RewardRow;

struct CodeConfig {
  CodeLanguage language = CodeLanguage::automatic;
  bool is_share = false;
  CodeRunOptions run;
  CodePoolOptions pool;
};

class ConfigReader {
 public:
  ConfigReader(const Json& json, CodeConfig& config) : json_(json), config_(config) {}

  Expected<void> read() {
    for (const auto& [key, value] : json_.items()) COHORT_TRY(read_key(key, value));
    if (config_.run.case_timeout_s > config_.run.timeout_s)
      config_.run.case_timeout_s = config_.run.timeout_s;
    return {};
  }

 private:
  static Error bad(const std::string& key, const char* expected, const Json& got) {
    return {Errc::config,
            fmt::format("code_sandbox: {}: expected {}, got {}", key, expected, got.dump())};
  }

  Expected<void> read_key(const std::string& key, const Json& value) {
    if (key == "language") return read_language(value);
    if (key == "score") return read_score(value);
    if (key == "case_timeout_s") return read_seconds(key, value, config_.run.case_timeout_s);
    if (key == "compile_timeout_s") return read_seconds(key, value, config_.run.compile_timeout_s);
    if (key == "max_output_bytes") return read_count(key, value, config_.run.max_output_bytes);
    if (key == "processes") return read_count(key, value, config_.pool.processes);
    if (key == "python") return read_path(key, value, config_.pool.python);
    if (key == "compiler") return read_path(key, value, config_.run.compiler[0]);
    if (key == "compiler_options") return read_words(key, value);
    return Error{Errc::config,
                 fmt::format("code_sandbox: unknown key {}; known are language, score, "
                             "case_timeout_s, compile_timeout_s, max_output_bytes, processes, "
                             "python, compiler, compiler_options",
                             key)};
  }

  Expected<void> read_language(const Json& value) {
    if (value == "auto")
      config_.language = CodeLanguage::automatic;
    else if (value == "python")
      config_.language = CodeLanguage::python;
    else if (value == "cpp")
      config_.language = CodeLanguage::cpp;
    else
      return bad("language", "auto, python or cpp", value);
    return {};
  }

  Expected<void> read_score(const Json& value) {
    if (value != "all" && value != "share") return bad("score", "all or share", value);
    config_.is_share = value == "share";
    return {};
  }

  static Expected<void> read_seconds(const std::string& key, const Json& value, double& to) {
    if (!value.is_number() || value.get<double>() <= 0) return bad(key, "seconds above 0", value);
    to = value.get<double>();
    return {};
  }

  template <class T>
  static Expected<void> read_count(const std::string& key, const Json& value, T& to) {
    constexpr uint64_t k_most = uint64_t{1} << 30;
    if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 || value.get<uint64_t>() > k_most)
      return bad(key, "a count above 0", value);
    to = static_cast<T>(value.get<uint64_t>());
    return {};
  }

  static Expected<void> read_path(const std::string& key, const Json& value, std::string& to) {
    if (!value.is_string() || !value.get_ref<const std::string&>().starts_with('/'))
      return bad(key, "an absolute path", value);
    to = value.get<std::string>();
    return {};
  }

  Expected<void> read_words(const std::string& key, const Json& value) {
    config_.run.compiler.resize(1);
    if (!value.is_array()) return bad(key, "a list of words", value);
    for (const Json& word : value) {
      if (!word.is_string()) return bad(key, "a list of words", value);
      config_.run.compiler.push_back(word.get<std::string>());
    }
    return {};
  }

  const Json& json_;
  CodeConfig& config_;
};

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
    RewardResult result;
    Expected<CodeTask> task = code_task(row, config_.language);
    if (!task) {
      result.error = task.error().detail;
      return result;
    }
    auto count = static_cast<double>(task->cases.size());
    CodeVerdict verdict = judge(*task);
    if (!verdict.error.empty()) {
      result.error = fmt::format("{}: {}", row.id, verdict.error);
      return result;
    }
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
    CodeVerdict verdict = run_code(task, *pool_, config_.run);
    pool_->leave();
    return verdict;
  }

  const CodeConfig config_;
  const std::unique_ptr<CodePool> pool_;
};

}  // namespace

Expected<std::shared_ptr<tasks::Reward>> make_code_reward(std::string_view config_json,
                                                          const CodeRewardOptions& options) {
  Json json = Json::parse(config_json.empty() ? "{}" : config_json, nullptr, false);
  if (!json.is_object())
    return Error{Errc::config, "code_sandbox: its config is not a JSON object"};
  CodeConfig config;
  config.pool.python = "/usr/bin/python3";
  config.run.compiler = {"/usr/bin/g++", "-O1", "-std=c++20", "-w", "-fmax-errors=1"};
  config.run.timeout_s = options.timeout_s;
  config.run.memory_bytes = options.memory_bytes;
  COHORT_TRY(ConfigReader(json, config).read());
  config.run.stops_at_failure = !config.is_share;
  config.pool.mode = options.mode;
  config.pool.workers = std::max(options.workers, 1U);
  config.pool.memory_bytes = options.memory_bytes;
  config.pool.readable = options.readable;
  config.pool.file_bytes = std::max<uint64_t>(config.pool.file_bytes, config.run.max_output_bytes);
  config.pool.max_frame_bytes =
      std::max<size_t>(config.pool.max_frame_bytes, config.run.max_output_bytes + 8192);
  COHORT_ASSIGN(std::unique_ptr<CodePool> pool, CodePool::open(config.pool));
  return std::shared_ptr<tasks::Reward>(
      std::make_shared<CodeReward>(std::move(config), std::move(pool)));
}

}  // namespace cohort::plugin
