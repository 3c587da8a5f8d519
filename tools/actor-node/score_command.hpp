#pragma once
/// `actor-node score REWARD rows.jsonl`: a reward tried on data, without a run. One JSON object per
/// row, in the order of the rows, and a summary on stderr.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/actor-node/reward_input.hpp"

namespace cohort {

struct ScoreCommand {
  RewardWords words;
  std::string rows;      // .jsonl
  std::string out;       // file; empty: stdout
  uint32_t portion = 8;  // rows of one call to the reward
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_score_command(CLI::App& app, ScoreCommand& command);

/// Scores the rows on as many threads as the reward has use for; results in the order of the rows.
std::vector<tasks::RewardResult> score_rows(tasks::Reward& reward,
                                            const std::vector<InputRow>& rows, uint32_t portion);

/// Returns the line that score writes for a row:
/// {"row", "id", "score" (null without one), "parts", "detail", "error"}.
std::string score_line(const InputRow& row, const tasks::RewardResult& result);

/// Returns the exit code: 0 each row has a score, 1 some have none, 2 nothing was scored (options,
/// rows or reward cannot be used).
int score_command(const ScoreCommand& command);

}  // namespace cohort
