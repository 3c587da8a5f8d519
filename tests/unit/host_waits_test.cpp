// What a node tells of its processes' waits: few enough for a message, and the same cause.
#include "actors/cluster/host_waits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cohort::actors {
namespace {

constexpr double k_now = 1000;

std::vector<ProcessWaits> many_waits(std::mt19937& random, size_t processes) {
  std::vector<ProcessWaits> all(processes);
  for (size_t i = 0; i < processes; ++i) {
    all[i].pid = static_cast<pid_t>(i + 1);
    all[i].name = "card process " + std::to_string(i);
    for (size_t left = random() % k_waits_max; left > 0; --left) {
      WaitEntry wait;
      wait.level = static_cast<WaitLevel>(random() % 6);
      wait.who = "role " + std::to_string(random() % 1000);
      wait.what = "something";
      wait.since = k_now - static_cast<double>(random() % 2000) / 100;
      all[i].waits.push_back(wait);
    }
  }
  return all;
}

size_t count_of(const std::vector<ProcessWaits>& processes) {
  size_t count = 0;
  for (const ProcessWaits& process : processes) count += process.waits.size();
  return count;
}

TEST(HostWaits, WhatIsKeptHasTheSameCause) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    plan::StallInput input;
    input.now = k_now;
    input.processes = many_waits(random, 1 + random() % 8);
    for (const ProcessWaits& process : input.processes)
      input.states[{"", process.pid}] = {'S', random() % 3 == 0 ? 0.5 : 0.0};
    const plan::Diagnosis whole = plan::diagnose(input);
    const size_t before = count_of(input.processes);
    keep_telling(input.processes, 160, k_now - input.after_s);
    EXPECT_LE(count_of(input.processes), 160U);
    uint64_t left_out = 0;
    for (const ProcessWaits& process : input.processes) left_out += process.left_out;
    EXPECT_EQ(count_of(input.processes) + left_out, before);
    const plan::Diagnosis told = plan::diagnose(input);
    EXPECT_EQ(told.cause, whole.cause) << whole.sentence << "\n" << told.sentence;
    EXPECT_EQ(told.waited_s, whole.waited_s) << whole.sentence << "\n" << told.sentence;
  }
}

TEST(HostWaits, AFewAreAllKept) {
  std::vector<ProcessWaits> processes(1);
  for (int i = 0; i < 8; ++i) {
    WaitEntry wait;
    wait.level = WaitLevel::outside;
    wait.since = i;
    processes[0].waits.push_back(wait);
  }
  keep_telling(processes, 160, 5);
  EXPECT_EQ(processes[0].waits.size(), 8U);
  EXPECT_EQ(processes[0].left_out, 0U);
}

}  // namespace
}  // namespace cohort::actors
