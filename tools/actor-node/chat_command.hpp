#pragma once
/// `actor-node chat FOLDER`: a dialogue with a Hugging Face folder's model on a terminal, or with
/// lines of a file on standard input. The quickest proof that a folder is read right.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace cohort {

struct ChatCommand {
  std::string folder, system, kwargs;
  std::string dtype = "f32";
  double temperature = 0.7, top_p = 1;  // temperature 0: the most likely token
  int64_t top_k = 0;                    // 0: all
  int64_t max_new_tokens = 512;
  int64_t context = 8192;  // [tokens] of a dialogue, at most the model's
  uint64_t seed = 0;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_chat_command(CLI::App& app, ChatCommand& command);

/// Answers go to stdout as they are sampled, everything else to stderr. Returns the exit code: 0,
/// 1 if a line could not be answered, 2 if folder or options cannot be used.
int chat_command(const ChatCommand& command);

}  // namespace cohort
