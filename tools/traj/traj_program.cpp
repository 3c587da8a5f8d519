#include "tools/traj/traj_program.hpp"

#include <cstdio>
#include <exception>

namespace cohort::traj {
namespace {

int run(CLI::App& app, int argc, char** argv,
        const std::function<Expected<void>(const CLI::App&)>& command) {
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    std::fprintf(stderr, "traj: %s (traj --help)\n", e.what());
    return 2;
  }
  const auto result = command(*app.get_subcommands().front());
  if (result) return 0;
  std::fprintf(stderr, "traj: %s\n", result.error().detail.c_str());
  return result.error().code == Errc::corrupt ? 1 : 2;
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv,
                const std::function<Expected<void>(const CLI::App&)>& command) {
  try {
    return run(app, argc, argv, command);
  } catch (const std::exception& e) {  // fmt::print on a closed pipe, or a formula that threw
    std::fprintf(stderr, "traj: %s\n", e.what());
    return 2;
  }
}

}  // namespace cohort::traj
