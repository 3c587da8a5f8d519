#pragma once
/// `actor-node export RUN|CHECKPOINT|ADAPTER DIR`: a checkpoint as a Hugging Face folder
/// (docs/models.md).
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace cohort {

struct ExportCommand {
  std::string from, folder;
  std::string dtype = "source";
  std::string tokenizer;  // --tokenizer; empty: the source's
  bool has_no_text = false;
  bool merges = false;  // --merge: `from` is a LoRA adapter
  std::string base;     // --base; empty: what adapter_config.json names
  uint64_t shard_bytes_max = 5'000'000'000;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_export_command(CLI::App& app, ExportCommand& command);

/// Returns the exit code: 0, 1 if the folder cannot be written, 2 if checkpoint, folder or options
/// cannot be used.
int export_command(const ExportCommand& command);

}  // namespace cohort
