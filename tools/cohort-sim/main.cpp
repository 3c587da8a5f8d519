// cohort_sim --seed N [--seeds COUNT] [--plant BUG]: a cluster in miniature on a virtual clock,
// with faults of the seed's choice (docs/simulation.md). Exit code 1 and the seed's trace on a
// violation.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>

#include "runtime/base/log.hpp"
#include "runtime/base/main_frame.hpp"
#include "tools/cohort-sim/cluster.hpp"
#include "tools/cohort-sim/pace.hpp"

namespace {

using namespace cohort;

void print_violation(const sim::Outcome& outcome) {
  fmt::print("seed {}: {} is violated at {} ms: {}\n", outcome.seed, outcome.violation.label,
             outcome.virtual_ms, outcome.violation.text);
  for (const std::string& line : outcome.trace) fmt::print("  {}\n", line);
}

int print_pace(uint64_t first_seed, uint64_t seeds) {
  bool is_sound = true;
  fmt::print("{:<18} {:>16} {:>10}\n", "mode", "trajectories/s", "over sync");
  for (const sim::Pace& pace : sim::measure_pace(first_seed, seeds)) {
    fmt::print("{:<18} {:>16.1f} {:>10.2f}{}{}\n", pace.mode, pace.trajectories_per_s,
               pace.over_sync, pace.violation.empty() ? "" : "  violates ", pace.violation);
    is_sound = is_sound && pace.violation.empty();
  }
  return is_sound ? 0 : 1;
}

int start(int argc, char** argv) {
  CLI::App app{"Cohort's cluster on a virtual clock, with seeded faults"};
  uint64_t seed = 1, seeds = 1;
  sim::SimOptions options;
  const std::map<std::string, sim::Plant> plants{
      {"dedupe-off", sim::Plant::dedupe_off},
      {"cancel-by-group", sim::Plant::cancel_by_group},
      {"reseat-takes-back", sim::Plant::reseat_takes_back},
      {"version-before-whole", sim::Plant::version_before_whole},
      {"staleness-off-by-one", sim::Plant::staleness_off_by_one},
      {"refill-by-arrival", sim::Plant::refill_by_arrival},
      {"ack-before-record", sim::Plant::ack_before_record},
      {"credit-kept", sim::Plant::credit_kept},
      {"rewind-off-by-one", sim::Plant::rewind_off_by_one},
      {"hop-never-flushes", sim::Plant::hop_never_flushes},
      {"wrong-door", sim::Plant::wrong_door},
      {"late-words-count", sim::Plant::late_words_count}};
  app.add_option("--seed", seed, "first seed")->capture_default_str();
  app.add_option("--seeds", seeds, "how many, one after the other")->capture_default_str();
  app.add_option("--plant", options.plant, "a bug to put in, which must be found")
      ->transform(CLI::CheckedTransformer(plants));
  app.add_option("--steps-ahead", options.steps_ahead,
                 "of the run (default: 0, 1 and 4, seed by seed)");
  app.add_flag("--fully-async", options.is_flowing,
               "with --steps-ahead: rollouts play on over a publish");
  app.add_flag("--scheduled", options.is_scheduled,
               "with --fully-async: publishes wait as they do with a recorded schedule");
  bool is_pace = false;
  app.add_flag("--pace", is_pace, "print the throughput of each mode over the synchronous one");
  app.add_flag("--trace", options.is_loud, "print what happens, all of it");
  CLI11_PARSE(app, argc, argv);

  if (is_pace) return print_pace(seed, seeds);
  auto begin = std::chrono::steady_clock::now();
  double virtual_s = 0;
  uint64_t events = 0, faults = 0, done = 0, digest = 0, spans = 0;
  bool is_violated = false;
  for (; done < seeds && !is_violated; ++done) {
    sim::Outcome outcome = sim::simulate(seed + done, options);
    virtual_s += static_cast<double>(outcome.virtual_ms) / 1000;
    events += outcome.events;
    faults += outcome.faults;
    spans += outcome.spans;
    digest = mix64(digest ^ outcome.digest);
    is_violated = !outcome.violation.label.empty();
    if (is_violated) print_violation(outcome);
  }
  double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print(
      "{} seeds, {} faults, {} events, {} trajectories of several policies, {:.0f} virtual seconds "
      "in {:.2f} s: {:.0f} seeds/s, {:.0f} times real time; digest {:016x}\n",
      done, faults, events, spans, virtual_s, wall_s, static_cast<double>(done) / wall_s,
      virtual_s / wall_s, digest);
  return is_violated ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("error: ", [&] { return start(argc, argv); });
}
