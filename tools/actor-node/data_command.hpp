#pragma once
/// `actor-node data gsm8k DIR`: makes files that a run can read out of what a data set is published
/// as; `actor-node data tokenizer`: a tokenizer out of texts. A file appears under its name when it
/// is whole, or not at all.
#include <CLI/CLI.hpp>
#include <string>

#include "runtime/base/error.hpp"
#include "tools/actor-node/data_tokenizer.hpp"

namespace cohort {

struct DataCommand {
  std::string kind;  // the subcommand's name, set when parsed
  std::string folder;
  std::string out;              // empty: folder
  std::string prompt_template;  // empty: verl's
  DataTokenizer tokenizer;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_data_command(CLI::App& app, DataCommand& command);

/// Does what data_command() does and returns the lines that it prints: counts of the files, and of
/// GSM8K the first row. Errc::not_found, Errc::io, or Errc::config naming file:line; then nothing
/// was written under its name.
Expected<std::string> data_text(const DataCommand& command);

/// Returns the exit code: 0 done, 1 a file or a row is bad, 2 an option is wrong.
int data_command(const DataCommand& command);

}  // namespace cohort
