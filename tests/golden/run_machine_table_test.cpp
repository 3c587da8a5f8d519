// docs/run_machine.md: what a run does in each state about each event. COHORT_UPDATE_GOLDEN=1
// rewrites it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "tests/support/run_script.hpp"

namespace cohort::tests {
namespace {

using namespace plan::run;

using Made = std::unique_ptr<RunScript>;

Made reach(const std::string& state, RunOptions options, bool is_stopped = false) {
  auto script = std::make_unique<RunScript>(std::move(options));
  if (state == "created") return script;
  script->tell(Started{});
  if (is_stopped) script->tell(StopAsked{});
  EXPECT_TRUE(script->answer_until_state(state)) << state << ", it is " << script->state();
  return script;
}

RunOptions options(uint64_t steps = 2) {
  RunOptions run = RunScript::options(steps);
  run.eval_steps = 1;
  return run;
}

RunOptions warm() {
  RunOptions run = options();
  run.warm_steps = run.warm_rounds = 2;
  run.warm_batch = 2;
  return run;
}

RunOptions frozen() {
  RunOptions run = options();
  run.start = RunOptions::Start::resumed_frozen;
  return run;
}

// All was played and is asked for; then a replica goes, and what it may have taken along is played
// again while the collector has it after all.
Made closing() {
  Made script = reach("stepping, generating", options());
  script->answer_until([&] { return script->run().front() == StepState::collecting; });
  const auto collect = script->take<Collect>();
  script->tell(CardsLost{{1}, "process 1 was killed"});
  script->tell(Recorded{script->take<AskRecorded>().question});
  script->tell(Collected{collect.round, 0});
  EXPECT_EQ(script->state(), "stepping, closing");
  return script;
}

struct State {
  std::string name;
  std::function<Made()> make;
};

std::vector<State> states() {
  std::vector<State> all;
  const auto add = [&](const std::string& name, const RunOptions& run, bool is_stopped = false) {
    all.push_back({name, [=] { return reach(name, run, is_stopped); }});
  };
  add("created", options());
  for (const char* name :
       {"starting", "restoring_frozen", "publishing_frozen", "restoring", "republishing"})
    add(name, frozen());
  for (const char* step : {"admitted", "ready", "opening", "generating", "collecting", "updating"})
    add(fmt::format("warming, {}", step), warm());
  for (const char* step : {"flushing", "saving"})
    add(fmt::format("warming, {}", step), warm(), true);
  for (const char* step : {"admitted", "ready", "opening", "generating"})
    add(fmt::format("stepping, {}", step), options());
  RunOptions turns = options();
  turns.has_reference_phase = true;
  add("stepping, referring", turns);
  add("stepping, collecting", options());
  all.push_back({"stepping, closing", closing});
  for (const char* step : {"collected", "updating", "publishing", "evaluating (admitted)",
                           "evaluating (ready)", "evaluating (opening)", "evaluating (generating)",
                           "evaluating (collecting)", "flushing", "saving"})
    add(fmt::format("stepping, {}", step), options());
  RunOptions none = options(0);
  add("ending", none);
  add("over", none);
  return all;
}

struct Told {
  std::string name;
  std::optional<Event> event;  // none: an answer that nobody was asked for
};

template <class Command>
Told answered(RunScript& script, const std::string& name) {
  if (!script.waits<Command>()) return {name, std::nullopt};
  return {name, RunScript::answer_to(script.take<Command>(), script.groups)};
}

std::vector<std::function<Told(RunScript&)>> events() {
  const auto plain = [](std::string name, Event event) {
    return [=](RunScript&) { return Told{name, event}; };
  };
  const auto lease_failed = [](std::string name, Errc code) {
    return [=](RunScript& script) {
      if (!script.waits<Lease>()) return Told{name, std::nullopt};
      return Told{name, LeaseFailed{script.take<Lease>().number, {code, "x"}}};
    };
  };
  return {
      plain("Started", Started{}),
      [](RunScript& s) { return answered<BeginPhase>(s, "PhaseDone"); },
      [](RunScript& s) { return answered<AskTasks>(s, "TasksReady"); },
      [](RunScript& s) { return answered<OpenRound>(s, "RoundOpened"); },
      [](RunScript& s) { return answered<Lease>(s, "LeaseEnded"); },
      lease_failed("LeaseFailed: timeout", Errc::timeout),
      lease_failed("LeaseFailed: compute", Errc::compute),
      [](RunScript& s) { return answered<Collect>(s, "Collected"); },
      plain("Sifted", Sifted{{TrajectoryKind::train, 1}, {0}}),
      [](RunScript& s) { return answered<AskRecorded>(s, "Recorded"); },
      [](RunScript& s) { return answered<Mask>(s, "Masked"); },
      [](RunScript& s) { return answered<Ping>(s, "Pong"); },
      [](RunScript& s) { return answered<Update>(s, "Updated"); },
      [](RunScript& s) { return answered<Flush>(s, "Flushed"); },
      [](RunScript& s) { return answered<Save>(s, "Saved"); },
      [](RunScript& s) { return answered<Load>(s, "Loaded"); },
      plain("CardsLost: one replica", CardsLost{{2}, "process 2 was killed"}),
      plain("CardsLost: all replicas", CardsLost{{1, 2}, "both were killed"}),
      plain("CardsLost: is_away", CardsLost{{2}, "process 2 is away", true}),
      plain("CardsBack", CardsBack{{2}, {3}}),
      plain("LeaveAsked", LeaveAsked{1, {2}, "rescale", 60}),
      plain("StopAsked", StopAsked{}),
      plain("TimePassed", TimePassed{}),
      plain("Noticed", Noticed{"rewards", "x"}),
      plain("FailureTold", FailureTold{{"rewards", "score", "x"}}),
      plain("FailureTold: consequence", FailureTold{{"rewards", "link", "x", true}}),
      plain("CommandFailed", CommandFailed{"actor_train", {Errc::compute, "x"}}),
      plain("CommandFailed: closed", CommandFailed{"actor_train", {Errc::closed, "x"}}),
  };
}

// Answers with names that nothing has: the machine passes over all of them, in every state.
std::vector<Event> strangers() {
  const RoundKey round{TrajectoryKind::val, 999};
  return {PhaseDone{plan::PhaseKind::checkpoint},
          TasksReady{round, {}},
          RoundOpened{round},
          Sifted{round, {0}},
          LeaseEnded{999, 1, 1},
          LeaseFailed{999, {Errc::compute, "x"}},
          Pong{999, 1},
          Collected{round, 0},
          Recorded{999},
          Masked{round, 0},
          Updated{round}};
}

std::string table() {
  std::string text;
  for (const State& state : states()) {
    std::string rows;
    Lines quiet, impossible;
    for (const auto& each : events()) {
      Made script = state.make();
      const std::string before = script->state();
      const Told told = each(*script);
      if (!told.event) {
        impossible.push_back(told.name);
        continue;
      }
      const Lines lines = script->tell(*told.event);
      const std::string after = script->state();
      if (lines.empty() && after == before) {
        quiet.push_back(told.name);
        continue;
      }
      rows += fmt::format("| {} | {}{}{} |\n", told.name, fmt::join(lines, "; "),
                          lines.empty() || after == before ? "" : " ",
                          after == before ? "" : "→ *" + after + "*");
    }
    text += fmt::format("\n### {}\n\n", state.name);
    if (!rows.empty()) text += "| event | what the run does |\n|---|---|\n" + rows + "\n";
    if (!quiet.empty()) text += fmt::format("Without a command: {}.\n", fmt::join(quiet, ", "));
    if (!impossible.empty())
      text += fmt::format("Impossible, since nobody is asked: {}.\n", fmt::join(impossible, ", "));
  }
  return text;
}

TEST(RunMachineTable, IsInTheDocs) {
  constexpr std::string_view k_begin = "<!-- table: begin (COHORT_UPDATE_GOLDEN=1 rewrites) -->\n";
  const char* folder = std::getenv("COHORT_SOURCE_DIR");
  ASSERT_NE(folder, nullptr);
  const std::string path = std::string(folder) + "/docs/run_machine.md";
  std::ostringstream stream;
  stream << std::ifstream(path).rdbuf();
  const std::string text = stream.str();
  size_t begin = text.find(k_begin);
  ASSERT_NE(begin, std::string::npos);
  begin += k_begin.size();
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text.substr(0, begin) << table();
    return;
  }
  EXPECT_TRUE(text.substr(begin) == table())
      << "docs/run_machine.md is not the machine's; run this test with COHORT_UPDATE_GOLDEN=1";
}

TEST(RunMachineTable, HasEveryState) {
  std::set<std::string> names;
  for (const State& state : states()) names.insert(state.name);
  for (int i = 0; i <= static_cast<int>(Stage::over); ++i) {
    const std::string stage(name_of(static_cast<Stage>(i)));
    EXPECT_TRUE(std::ranges::any_of(names, [&](auto& name) { return name.starts_with(stage); }))
        << stage;
  }
  for (int i = 0; i <= static_cast<int>(StepState::saving); ++i) {
    const std::string step(name_of(static_cast<StepState>(i)));
    EXPECT_TRUE(std::ranges::any_of(names, [&](auto& name) {
      return name.find(", " + step) != std::string::npos;
    })) << step;
  }
  EXPECT_EQ(std::variant_size_v<Event>, 23U) << "a new event needs its lines in events()";
}

TEST(RunMachineTable, AnAnswerThatNobodyAskedForChangesNothing) {
  for (const State& state : states())
    for (const Event& stranger : strangers()) {
      Made script = state.make();
      const std::string before = script->state();
      EXPECT_TRUE(are(script->tell(stranger), {})) << state.name << ", " << stranger.index();
      EXPECT_EQ(script->state(), before);
    }
}

// From every state, after every event, the run still comes to its end.
TEST(RunMachineTable, NoEventLeavesTheRunStuck) {
  for (const State& state : states())
    for (size_t i = 0; i < events().size(); ++i) {
      Made script = state.make();
      const Told told = events()[i](*script);
      if (!told.event || state.name == "over") continue;
      script->tell(*told.event);
      if (state.name == "created") script->tell(Started{});
      for (int rounds = 0; rounds < 1000 && script->end() == nullptr; ++rounds) {
        for (uint32_t replica : {0U, 1U})  // a lost one comes back
          if (script->run().players().standing(replica) == Players::Standing::lost)
            script->tell(CardsBack{{replica + 1}, {}});
        if (script->answer()) continue;
        script->pass(100);
        script->tell(TimePassed{});
      }
      EXPECT_NE(script->end(), nullptr)
          << state.name << ", " << told.name << ": stuck in " << script->state();
    }
}

}  // namespace
}  // namespace cohort::tests
