#pragma once
/// What traj's two programs share: from words to a command, and from its result to an exit code.
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/trajectory_kind.hpp"

namespace cohort::traj {

/// The words of --kind.
inline const std::map<std::string, TrajectoryKind> k_kinds = {
    {"train", TrajectoryKind::train},
    {"val", TrajectoryKind::val},
    {"val_greedy", TrajectoryKind::val_greedy},
    {"warm_start", TrajectoryKind::warm_start}};

/// Refuses what is no whole number from 0 on: CLI11 takes -1 for the greatest one.
CLI::Validator whole_number();

/// Parses the words of `app`, which has subcommands, and calls `command` with the one that was
/// given. Returns the exit code: 0 fine, 1 damage, 2 wrong usage or nothing there, each of the last
/// two with one line on stderr. A stdout that cannot be written is 2 too.
int run_program(CLI::App& app, int argc, char** argv,
                const std::function<Expected<void>(const CLI::App&)>& command);

}  // namespace cohort::traj
