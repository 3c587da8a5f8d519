#include "tools/actor-node/top_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/clock.hpp"
#include "runtime/observe/console.hpp"
#include "runtime/observe/dashboard_page.hpp"
#include "runtime/observe/flow_page.hpp"
#include "tools/actor-node/full_screen.hpp"
#include "tools/actor-node/top_source.hpp"

namespace cohort {
namespace {

using observe::TopData;
using observe::TopSize;

constexpr size_t k_columns_of_a_file = 120;

int fail(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.detail.c_str());
  return error.code == Errc::closed || error.code == Errc::corrupt ? 1 : 2;
}

std::string json_of(const TopData& top, double now) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(observe::status_json(top.data, now));
  if (top.flow != nullptr) json["flow"] = Json::parse(observe::flow_json(*top.flow));
  return json.dump() + "\n";
}

/// One picture, as long as it is.
void print(const TopCommand& command, const TopData& top, const observe::ConsoleOptions& terminal) {
  const double now = now_seconds();
  std::string text;
  if (command.is_json) {
    text = json_of(top, now);
  } else {
    TopSize size{k_columns_of_a_file, 0, terminal.color};
    if (::isatty(STDOUT_FILENO) != 0) size.columns = observe::terminal_size(STDOUT_FILENO).columns;
    for (const std::string& line : observe::top_picture(top, now, size)) text += line + "\n";
  }
  std::fwrite(text.data(), 1, text.size(), stdout);  // run_main looks whether it was written
}

Expected<void> draw_on_and_on(const TopCommand& command, TopSource& source, TopData top,
                              bool has_color) {
  COHORT_ASSIGN(FullScreen screen, FullScreen::open(STDIN_FILENO, STDOUT_FILENO));
  for (double next = now_seconds() + command.interval_s;;) {
    const observe::TerminalSize size = screen.size();
    screen.draw(observe::top_picture(top, now_seconds(), {size.columns, size.rows, has_color}));
    const double left_s = std::max(0.0, next - now_seconds());
    const auto heard =
        screen.wait(std::chrono::milliseconds(static_cast<int64_t>(std::ceil(1e3 * left_s))));
    if (heard == FullScreen::Heard::end) return {};
    if (heard == FullScreen::Heard::resize) continue;
    if (heard == FullScreen::Heard::nothing && now_seconds() < next) continue;
    COHORT_ASSIGN(top, source.look());
    next = now_seconds() + command.interval_s;
  }
}

}  // namespace

CLI::App* add_top_command(CLI::App& app, TopCommand& command) {
  CLI::App* top = app.add_subcommand(
      "top", "a run in this terminal: progress, cards, links, and who waits for whom");
  top->add_option("RUN", command.where,
                  "the run's folder, or the address of a dashboard (http://HOST:PORT/)")
      ->required();
  top->add_option("--interval", command.interval_s, "[s] between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top->add_flag("--once", command.is_once, "one picture as plain text (as without a terminal)");
  top->add_flag("--json", command.is_json, "one JSON object: /status.json, with /flow.json in it");
  add_access_options(*top, command.access);
  top->footer(
      "Keys: q or Ctrl-C ends it, any other key looks at once. Colours: not with NO_COLOR.\n"
      "Exit codes: 0, 1 the dashboard does not answer, 2 no such run.");
  return top;
}

int top_command(const TopCommand& command) {
  std::signal(SIGPIPE, SIG_IGN);  // pages that hang up, a pipe that is not read to its end
  auto source = TopSource::open(command.where, command.access);
  if (!source) return fail(source.error());
  auto top = (*source)->look();
  if (!top) return fail(top.error());
  const observe::ConsoleOptions terminal = observe::choose_console(false);
  const bool is_live = terminal.mode == observe::ConsoleMode::live;
  if (command.is_once || command.is_json || !is_live) {
    print(command, *top, terminal);
    return 0;
  }
  auto drawn = draw_on_and_on(command, **source, std::move(*top), terminal.color);
  return drawn ? 0 : fail(drawn.error());
}

}  // namespace cohort
