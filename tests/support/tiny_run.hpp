#pragma once
/// A run of a second or two: the command, and what it left behind.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/child_process.hpp"

namespace cohort::test {

inline std::string config_path() {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/frozen_lake.yaml";
}

/// A policy as small as it can be, and cards for it.
inline std::vector<std::string> small_model() {
  return {"model.hidden_size=16",     "model.num_attention_heads=2", "model.num_key_value_heads=1",
          "model.head_dim=8",         "model.intermediate_size=32",  "model.num_hidden_layers=1",
          "cards.memory_bytes=64MiB", "cards.reserve_bytes=1MiB"};
}

/// `actor-node run CONFIG` with a policy and a run as small as they can be.
inline std::vector<std::string> small_run(const std::string& config, const TempFolder& folder,
                                          const std::vector<std::string>& more) {
  std::vector<std::string> command = {test::binary("actor-node"),
                                      "run",
                                      "--plain",
                                      config,
                                      "output_dir=" + folder.path().string(),
                                      "max_steps=4",
                                      "eval_steps=2",
                                      "save_steps=1",
                                      "actor_train.training_args.per_device_train_batch_size=4",
                                      "actor_train.training_args.gradient_accumulation_steps=4",
                                      "warm_start.steps=6",
                                      "warm_start.batch_size=8",
                                      "warm_start.rounds=3",
                                      "recording.segment_bytes=2MiB",
                                      "warm_start.warmup_steps=2"};
  const std::vector<std::string> model = small_model();
  command.insert(command.end(), model.begin(), model.end());
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

inline std::vector<std::string> tiny_run(const TempFolder& folder,
                                         const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"rollout_batch_size=32",
                                        "train_env_manager.num_env_groups=8",
                                        "train_env_manager.num_groups_partition=[8]",
                                        "train_env_manager.group_size=4",
                                        "val_batch_size=16",
                                        "val_env_manager.num_env_groups=16",
                                        "val_env_manager.num_groups_partition=[16]",
                                        "max_running_requests=32",
                                        "placement.offload=step"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return small_run(config_path(), folder, overrides);
}

/// A shipped config of rows of files, such as sft_arithmetic: six steps of eight rows by a policy
/// as small as it can be.
inline std::vector<std::string> rows_run(const std::string& config, const TempFolder& folder,
                                         const std::vector<std::string>& more = {}) {
  const std::string role = config.starts_with("sft")       ? "sft_train"
                           : config.starts_with("distill") ? "student"
                                                           : "actor_train";
  const std::string args = role + ".training_args.";
  std::vector<std::string> command = {
      test::binary("actor-node"),
      "run",
      "--plain",
      std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/" + config + ".yaml",
      "output_dir=" + folder.path().string(),
      args + "per_device_train_batch_size=4",
      args + "gradient_accumulation_steps=2",
      "++max_steps=6",
      "eval_steps=3",
      "save_steps=2"};
  const std::vector<std::string> model = small_model();
  command.insert(command.end(), model.begin(), model.end());
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

/// The same of pairs, at a rate that a few steps show.
inline std::vector<std::string> pairs_run(const std::string& config, const TempFolder& folder,
                                          const std::vector<std::string>& more) {
  std::vector<std::string> overrides = {"actor_train.training_args.learning_rate=1.0e-2"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return rows_run(config, folder, overrides);
}

/// A step of two-digit addition by a policy that `pretrain` names, without a warm start.
inline std::vector<std::string> addition_run(const std::filesystem::path& out,
                                             const std::string& pretrain,
                                             const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {
      test::binary("actor-node"),
      "run",
      "--plain",
      std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/arithmetic_rlvr.yaml",
      "output_dir=" + out.string(),
      "pretrain=" + pretrain,
      "max_steps=1",
      "eval_steps=-1",
      "rollout_batch_size=4",
      "num_return_sequences_in_group=4",
      "prompt_length=104",
      "warm_start.steps=0",
      "cards.memory_bytes=64MiB",
      "cards.reserve_bytes=1MiB",
      "recording.segment_bytes=2MiB",
      "actor_train.training_args.per_device_train_batch_size=4",
      "actor_train.training_args.gradient_accumulation_steps=4"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

/// What `actor-node logprobs` prints of a fixed row by a folder; `more` may name an adapter.
inline std::string logprobs_of(const std::filesystem::path& folder, const TempFolder& temp,
                               const std::vector<std::string>& more = {}) {
  const std::filesystem::path rows = temp.path() / "rows.jsonl";
  std::ofstream(rows) << "{\"ids\": [3, 1, 4, 1, 5, 9, 2, 6]}\n";
  std::vector<std::string> words = {
      test::binary("actor-node"), "logprobs", folder.string(), rows.string(), "--greedy", "4"};
  words.insert(words.end(), more.begin(), more.end());
  Process process(words, temp);
  EXPECT_EQ(process.wait(), 0) << process.err();
  return process.out();
}

inline std::string run_folder(const Process& process) {
  std::string out = process.out();
  size_t at = out.rfind("run: ");
  if (at == std::string::npos) return "";
  return out.substr(at + 5, out.find('\n', at) - at - 5);
}

/// The rows of metrics.jsonl that are whole.
inline std::vector<nlohmann::json> metric_rows(const std::string& folder) {
  std::vector<nlohmann::json> rows;
  std::ifstream in(folder + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);)
    if (auto row = nlohmann::json::parse(line, nullptr, false); !row.is_discarded())
      rows.push_back(std::move(row));
  return rows;
}

inline std::map<uint64_t, std::string> hashes(const std::string& folder) {
  std::map<uint64_t, std::string> result;
  for (const auto& row : metric_rows(folder))
    result[row.at("step").get<uint64_t>()] = row.at("param_hash").get<std::string>();
  return result;
}

/// A run in `folder` that has a row of metrics, or nothing.
inline std::string any_run(const TempFolder& folder) {
  std::error_code error;
  for (const auto& run : std::filesystem::directory_iterator(folder.path() / "frozen_lake", error))
    if (!hashes(run.path().string()).empty()) return run.path().string();
  return "";
}

inline bool has_first_row(const TempFolder& folder) { return !any_run(folder).empty(); }

}  // namespace cohort::test
