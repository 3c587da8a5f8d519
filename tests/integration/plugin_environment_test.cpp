/// Python environments in their children: play, many at once, failures, reload.
#include "runtime/plugin/child/plugin_environment.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/plugin_rig.hpp"

namespace cohort::test {
namespace {

using plugin::EnvironmentSource;
using plugin::PluginSpec;

std::shared_ptr<EnvironmentSource> source_of(const PluginSpec& spec) {
  auto source = plugin::open_environment(spec);
  EXPECT_TRUE(source.has_value()) << (source ? "" : source.error().to_string());
  return source ? *source : nullptr;
}

PluginSpec spec_of_world(std::string plugin) {
  PluginSpec spec;
  spec.plugin = std::move(plugin);
  spec.mode = sandbox_mode();
  return spec;
}

std::string guess(int number) { return "<answer>" + std::to_string(number) + "</answer>"; }

/// Plays by halving; returns what was seen.
std::string play(tasks::Environment& world, uint64_t seed) {
  std::string seen = world.reset(seed);
  int low = 1, high = 20;
  for (;;) {
    int middle = (low + high) / 2;
    auto step = world.step(guess(middle));
    seen += "|" + std::to_string(middle) + " " + step.observation + step.stop_reason;
    if (step.is_done) return seen;
    (step.event == "higher" ? low : high) = step.event == "higher" ? middle + 1 : middle - 1;
  }
}

TEST(PythonEnvironment, IsPlayed) {  // TASK-1
  auto source = source_of(spec_of_world(example("guess_number.py")));
  ASSERT_TRUE(source);
  auto world = source->make();
  EXPECT_EQ(world->reset(3), "Your first guess?");
  EXPECT_EQ(world->instructions(),
            "I think of a number from 1 to 20. Answer with <answer>NUMBER</answer>.");
  EXPECT_EQ(world->actions_left(), 6);
  auto step = world->step("I do not know");
  EXPECT_FALSE(step.is_valid);
  EXPECT_FALSE(step.is_effective);
  EXPECT_FLOAT_EQ(step.reward, -0.1F);
  EXPECT_EQ(world->actions_left(), 5);
  EXPECT_EQ(world->metrics(), (tasks::EpisodeMetrics{{"guesses", 1}}));
  const std::string seen = play(*world, 11);
  EXPECT_TRUE(seen.ends_with("Right!goal")) << seen;
  EXPECT_EQ(play(*source->make(), 11), seen);
}

TEST(PythonEnvironment, ManyArePlayedByManyThreads) {
  auto source = source_of(spec_of_world(example("guess_number.py")));
  ASSERT_TRUE(source);
  std::vector<std::string> alone;
  for (uint64_t seed = 0; seed < 40; ++seed) alone.push_back(play(*source->make(), seed));
  std::vector<std::string> together(alone.size());
  std::vector<std::thread> threads;
  for (size_t part = 0; part < 4; ++part)
    threads.emplace_back([&, part] {
      std::vector<std::unique_ptr<tasks::Environment>> worlds;
      for (size_t seed = part; seed < together.size(); seed += 4) {
        worlds.push_back(source->make());
        together[seed] = play(*worlds.back(), seed);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

constexpr const char* k_failing = R"(import os, time

class World:
    def reset(self, seed):
        if seed == 13:
            raise RuntimeError("no such map")
        return "seed %d" % seed

    def step(self, answer):
        if answer == "hang":
            time.sleep(3600)
        if answer == "exit":
            os._exit(3)
        if answer == "raise":
            raise KeyError(answer)
        if answer == "odd":
            return "only an observation"
        return answer, 0.5, False
)";

TEST(PythonEnvironment, AFailureEndsTheEpisodesOfItsWorkerAndNoOther) {  // PLUGIN-2
  PluginFolder folder;
  auto spec = spec_of_world(folder.write("failing.py", k_failing));
  spec.timeout_s = 0.5;
  auto source = source_of(spec);
  ASSERT_TRUE(source);
  for (const auto& [answer, why] : {std::pair("hang", "timeout after 0.5 s"),
                                    {"exit", "exited with 3"},
                                    {"raise", "raised KeyError: 'raise' (failing.py:15)"},
                                    {"odd", "step gave 'only an observation', not (observation"}}) {
    auto bad = source->make(), other = source->make();  // two workers, one each
    bad->reset(1);
    other->reset(2);
    auto step = bad->step(answer);
    EXPECT_TRUE(step.is_done);
    EXPECT_TRUE(step.stop_reason.starts_with(std::string("plugin_error: ") + why))
        << step.stop_reason;
    EXPECT_EQ(other->step("fine").observation, "fine");
    EXPECT_EQ(bad->reset(3), "seed 3");  // the next episode, on a new worker
    EXPECT_EQ(bad->step("fine").reward, 0.5F);
  }
  auto world = source->make();
  EXPECT_EQ(world->reset(13), "");
  EXPECT_EQ(world->step("fine").stop_reason,
            "plugin_error: raised RuntimeError: no such map (failing.py:6)");
}

TEST(PythonEnvironment, AnEpisodeHasAnEndEvenIfThePluginKnowsNone) {
  PluginFolder folder;
  auto spec = spec_of_world(folder.write("endless.py", k_failing));
  spec.max_steps = 3;
  auto world = source_of(spec)->make();
  world->reset(1);
  EXPECT_EQ(world->actions_left(), 3);
  EXPECT_FALSE(world->step("a").is_done);
  EXPECT_FALSE(world->step("b").is_done);
  auto last = world->step("c");
  EXPECT_TRUE(last.is_done);
  EXPECT_EQ(last.stop_reason, "max_turns");
}

TEST(PythonEnvironment, ReloadLeavesRunningEpisodesAlone) {
  PluginFolder folder;
  auto source = source_of(spec_of_world(folder.write("world.py", R"(class World:
    def reset(self, seed):
        return "old"
    def step(self, answer):
        return "old", 0, False
)")));
  ASSERT_TRUE(source);
  auto running = source->make();
  EXPECT_EQ(running->reset(1), "old");
  folder.write("world.py", R"(class World:
    def reset(self, seed):
        return "new"
    def step(self, answer):
        return "new", 0, False
)");
  auto reloaded = source->reload();
  ASSERT_TRUE(reloaded.has_value()) << reloaded.error().to_string();
  EXPECT_TRUE(*reloaded);
  EXPECT_EQ(running->step("a").observation, "old");
  auto fresh = source->make();
  EXPECT_EQ(fresh->reset(1), "new");
  EXPECT_EQ(running->step("b").observation, "old");
  EXPECT_EQ(running->reset(2), "new");
}

TEST(PythonEnvironment, WhatIsNoEnvironmentIsRefused) {
  auto source = plugin::open_environment(spec_of_world(example("last_number.py")));
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().code, Errc::config);
  EXPECT_NE(source.error().detail.find("name the class, PATH.py:NAME (it has: none)"),
            std::string::npos)
      << source.error().detail;
}

}  // namespace
}  // namespace cohort::test
