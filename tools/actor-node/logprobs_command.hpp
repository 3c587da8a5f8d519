#pragma once
/// `actor-node logprobs FOLDER rows.jsonl`: what a Hugging Face folder's model computes for token
/// ids, one JSON object per row on stdout: a reference to hold an engine against.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace cohort {

struct LogprobsCommand {
  std::string folder, rows, adapter;
  std::string dtype = "f32";
  double temperature = 1;
  int64_t greedy = 0;  // tokens to add, each the most likely one
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_logprobs_command(CLI::App& app, LogprobsCommand& command);

/// A row {"ids": […]} (or "tokens") gives {"logprobs": [n - 1], "entropy": [n - 1], "greedy": [N]},
/// with a classification head {"score": …, "values": [n]} (numbers with one label, else lists of
/// them); a row that cannot be computed gives {"error": …}. Returns the exit code: 0, 1 if some
/// rows have an error, 2 if folder, rows or options cannot be used.
int logprobs_command(const LogprobsCommand& command);

}  // namespace cohort
