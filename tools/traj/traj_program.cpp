#include "tools/traj/traj_program.hpp"

#include <cstdio>

#include "runtime/base/main_frame.hpp"

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

CLI::Validator whole_number() {
  return {[](const std::string& text) {
            const bool is_whole = !text.empty() && text.size() <= 19 &&
                                  text.find_first_not_of("0123456789") == std::string::npos;
            return is_whole ? std::string() : "'" + text + "' is no whole number from 0 on";
          },
          "N"};
}

int run_program(CLI::App& app, int argc, char** argv,
                const std::function<Expected<void>(const CLI::App&)>& command) {
  return run_main("traj: ", [&] { return run(app, argc, argv, command); });
}

}  // namespace cohort::traj
