// Runs of a small cluster by seed: replicas die, hang, leave and come back at any time, with 0, 1
// and 4 steps ahead, and with rollouts that play on over a publish. FLOW-1, FLOW-3, FLOWING-1,
// PLACE-4, PLACE-5 and LEASE-1 are checked on the way
// (tests/support/run_world.cpp).
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/run_world.hpp"

namespace cohort::tests {
namespace {

using plan::run::End;

uint64_t first_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

std::string tail(const RunWorld& world) {
  std::string text;
  const auto& trace = world.trace();
  for (size_t i = trace.size() > 60 ? trace.size() - 60 : 0; i < trace.size(); ++i)
    text += trace[i] + "\n";
  return text;
}

/// Steps after which the run is evaluated, to its end.
std::vector<uint64_t> evaluated(const plan::run::RunOptions& run) {
  std::vector<uint64_t> steps;
  for (uint64_t step = 0; run.eval_steps > 0 && step <= run.steps; ++step)
    if (step % run.eval_steps == 0 || step == run.steps) steps.push_back(step);
  return steps;
}

TEST(RunMachine, EndsWithEveryStepTrainedOnceWhateverDies) {
  const uint64_t first = first_seed();
  const uint64_t seeds = std::getenv("COHORT_SEED") == nullptr ? 3000 : 1;
  uint64_t faults = 0, twice = 0, stopped = 0, quarantined = 0, convicted = 0, measured = 0;
  uint64_t in_place = 0, short_steps = 0, played_over = 0, evaluated_beside = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const WorldOptions options = world_of(seed);
    RunWorld world(options);
    world.play();
    ASSERT_EQ(world.violation(), "") << "seed " << seed << "\n" << tail(world);
    if (world.end()->how == End::How::failed) {  // kills at random that look like a prompt's
      ASSERT_NE(world.end()->error.find("no matter of single prompts"), std::string::npos)
          << "seed " << seed << ": " << world.end()->error;
      ++convicted;
      continue;
    }
    if (world.end()->how == End::How::finished) {
      ASSERT_EQ(world.trained().size(), options.run.steps) << "seed " << seed;
      // Replicas may die; the loss is measured once after each of them.
      if (options.run.measures_loss) {
        ASSERT_EQ(world.measured(), evaluated(options.run)) << "seed " << seed;
      }
      measured += world.measured().size();
    }
    ASSERT_EQ(world.end()->steps, world.trained().size()) << "seed " << seed;
    faults += world.faults();
    twice += world.played_twice();
    in_place += world.in_place();
    played_over += world.played_over();
    evaluated_beside += world.evaluated_beside();
    stopped += world.end()->how == End::How::stopped ? 1 : 0;
    for (const std::string& line : world.trace()) {
      quarantined += line.find("quarantine Lake") != std::string::npos ? 1 : 0;
      short_steps += line.find("note refill") != std::string::npos ? 1 : 0;
    }
  }
  if (seeds == 1) return;
  // The worlds reach what they are for.
  EXPECT_GT(faults, seeds);
  EXPECT_GT(twice, seeds / 20);
  EXPECT_GT(measured, seeds / 20);
  EXPECT_GT(in_place, seeds / 2);
  EXPECT_GT(played_over, seeds / 10);
  EXPECT_GT(evaluated_beside, seeds / 20);
  EXPECT_GT(short_steps, seeds / 10);
  EXPECT_GT(stopped, 0U);
  EXPECT_GT(quarantined, 0U);
  EXPECT_LT(convicted, seeds / 500);
}

// The policy of step 0 plays all of it, whatever dies.
TEST(RunMachine, ARecordOnlyRunEndsWithEveryStepAndNoPolicyOfItsOwn) {
  uint64_t faults = 0;
  for (uint64_t seed = first_seed(); seed < first_seed() + 1000; ++seed) {
    WorldOptions options = world_of(seed);
    options.run.is_record_only = true;
    options.run.measures_loss = options.run.plays_in_reference = options.may_stop = false;
    options.killers.clear();
    RunWorld world(options);
    world.play();
    ASSERT_EQ(world.violation(), "") << "seed " << seed << "\n" << tail(world);
    if (world.end()->how == End::How::failed) continue;  // kills that look like a prompt's
    ASSERT_EQ(world.trained().size(), options.run.steps) << "seed " << seed;
    faults += world.faults();
  }
  EXPECT_GT(faults, 500U);
}

TEST(RunMachine, TheSameSeedGivesTheSameCommands) {
  for (uint64_t seed = first_seed(); seed < first_seed() + 50; ++seed) {
    RunWorld one(world_of(seed)), other(world_of(seed));
    one.play();
    other.play();
    ASSERT_EQ(one.trace(), other.trace()) << "seed " << seed;
  }
}

TEST(RunMachine, GenerationRunsAheadOfTheOptimizerAsFarAsItMay) {  // FLOW-3
  for (uint32_t ahead : {0U, 1U, 4U}) {
    WorldOptions options = world_of(3);
    options.run.steps = 12;
    options.run.steps_ahead = ahead;
    options.run.has_reference_phase = false;
    options.fault_every_s = 0;
    options.may_stop = false;
    RunWorld world(options);
    world.play();
    ASSERT_EQ(world.violation(), "") << tail(world);
    EXPECT_GT(world.trained().size(), 11U);
    EXPECT_LE(world.ahead_max(), ahead);
    EXPECT_EQ(world.ahead_max() > 0, ahead > 0);
  }
}

TEST(RunMachine, AFractionOfAStepIsPlayedAhead) {  // FLOWING-1
  WorldOptions options = world_of(3);
  options.run.steps = 12;
  options.run.steps_ahead = 1;
  options.run.is_flowing = true;
  options.run.depth = 0.5;
  options.run.gen_batches_max = 0;
  options.run.has_reference_phase = options.run.measures_loss = options.may_stop = false;
  options.fault_every_s = 0;
  options.groups = 4;
  RunWorld world(options);
  world.play();
  ASSERT_EQ(world.violation(), "") << tail(world);
  EXPECT_EQ(world.trained().size(), 12U);
  EXPECT_EQ(world.ahead_max(), 1U);
}

TEST(RunMachine, ABoundThatIsOffByOneIsFound) {  // FLOW-3
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    WorldOptions options = world_of(seed);
    options.run.plant = plan::Plant::staleness_off_by_one;
    RunWorld world(options);
    if (options.run.has_reference_phase) continue;
    world.play();
    found += world.violation().find("FLOW-3") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(found, 5U);
}

}  // namespace
}  // namespace cohort::tests
