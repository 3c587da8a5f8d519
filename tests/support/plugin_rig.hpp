#pragma once
/// Plugins under test: where they are, rows for them, rewards opened in the strongest sandbox that
/// the machine has.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plugin/open_reward.hpp"
#include "tests/support/source_path.hpp"

namespace cohort::test {

inline std::string example(const std::string& name) {
  return source_path("examples/python/" + name);
}
inline std::string failures(const std::string& function) {
  return source_path("tests/data/plugins/failures.py:" + function);
}

/// bubblewrap, or on a machine without namespaces what there is.
inline plugin::SandboxMode sandbox_mode() {
  return plugin::SandboxedProcess::check(plugin::SandboxMode::bubblewrap)
             ? plugin::SandboxMode::bubblewrap
             : plugin::SandboxMode::rlimits;
}

inline tasks::RewardRow row_of(std::string response, std::string ground_truth = "42") {
  tasks::RewardRow row;
  row.id = response;
  row.prompt = "What is 6 x 7? ";
  row.response = std::move(response);
  row.ground_truth = std::move(ground_truth);
  row.data_source = "openai/gsm8k";
  row.columns = R"({"extra_info": {"index": 7}, "answer": "forty-two"})";
  return row;
}

inline std::vector<tasks::RewardRow> rows_of(const std::vector<std::string>& responses) {
  std::vector<tasks::RewardRow> rows;
  for (const std::string& response : responses) rows.push_back(row_of(response));
  return rows;
}

inline plugin::PluginSpec spec_of(std::string reward) {
  plugin::PluginSpec spec;
  spec.plugin = std::move(reward);
  spec.mode = sandbox_mode();
  spec.workers = 1;
  // Above what a loaded machine can hold a trivial call up, below what a test can afford to wait.
  spec.timeout_s = 5;
  return spec;
}

/// Opens it or fails the test.
inline std::shared_ptr<tasks::Reward> open(const plugin::PluginSpec& spec) {
  auto reward = plugin::open_reward(spec);
  EXPECT_TRUE(reward.has_value()) << (reward ? "" : reward.error().to_string());
  return reward ? *reward : nullptr;
}
inline std::shared_ptr<tasks::Reward> open(std::string reward) {
  return open(spec_of(std::move(reward)));
}

/// A folder that others may read and that goes with its owner.
class PluginFolder {
 public:
  PluginFolder() {
    path_ = (std::filesystem::temp_directory_path() / "cohort_plugin_XXXXXX").string();
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  ~PluginFolder() { std::filesystem::remove_all(path_); }
  PluginFolder(const PluginFolder&) = delete;
  PluginFolder& operator=(const PluginFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace cohort::test
