#pragma once
/// `actor-node tokenize FOLDER ROWS.jsonl`: each row of JSON becomes one line of JSON, so that a
/// user can compare a tokenizer and a chat template with those of another program. Rows:
/// {"text": …} -> {"ids": […]}; {"ids": […]} -> {"text": …, "pieces": […]}; {"messages": …} ->
/// {"text": …, "ids": […], "mask": […]}.
#include <CLI/CLI.hpp>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort {

struct TokenizeCommand {
  std::vector<std::string> paths;       // FOLDER ROWS, or ROWS alone with template_file
  bool is_plain = false;                // --no-special
  std::string template_file;            // --template; empty: the folder's
  std::optional<std::string> bos, eos;  // variables of the template; absent: the folder's
  std::string now;                      // --now: what strftime_now tells; empty: the clock
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_tokenize_command(CLI::App& app, TokenizeCommand& command);

/// Writes one line to `out` for each row; blank rows are skipped. A row that cannot be done becomes
/// {"error": …}. Returns the error of the folder, or of a row that is no row (with file:line);
/// Errc::invalid_argument if the options do not fit each other.
Expected<void> tokenize_rows(const TokenizeCommand& command, std::ostream& out);

/// Returns the exit code: 0 done, 1 a file or a row is bad, 2 an option is wrong.
int tokenize_command(const TokenizeCommand& command);

}  // namespace cohort
