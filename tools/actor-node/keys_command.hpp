#pragma once
/// `actor-node keys new DIR`, `actor-node keys show DIR`: the credentials of a cluster
/// (runtime/control/credentials.hpp).
#include <CLI/CLI.hpp>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort {

struct KeysCommand {
  std::string verb;  // the subcommand's name, set when parsed
  std::string folder;
  int valid_days = 730;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_keys_command(CLI::App& app, KeysCommand& command);

/// Does what keys_command() does and returns the lines that it prints; none of them is secret.
/// Errors: those of make_credentials and load_credentials.
Expected<std::string> keys_text(const KeysCommand& command);

/// Returns the exit code: 0 done, 1 the folder cannot be made or does not hold.
int keys_command(const KeysCommand& command);

}  // namespace cohort
