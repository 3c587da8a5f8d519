// quarantine.jsonl: what a run adds, a resumed one reads.
#include "actors/run/quarantine.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/child_process.hpp"

namespace cohort::actors {
namespace {

QuarantineEntry entry_of(const std::string& prompt, uint64_t step) {
  return {prompt, "math", 7, "train", step, 3, {"process 1 was killed", "\xff twice"}, 12};
}

TEST(Quarantine, WhatIsAddedIsFoundByTheNextRun) {
  test::TempFolder folder;
  auto first = Quarantine::open(folder.path());
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_TRUE(first->entries().empty());
  ASSERT_TRUE(first->add(entry_of("a.jsonl:4", 2)));
  ASSERT_TRUE(first->add(entry_of("Lake/77", 5)));
  EXPECT_EQ(first->entries().at("a.jsonl:4").step, 2U);
  auto second = Quarantine::open(folder.path());
  ASSERT_TRUE(second) << second.error().detail;
  EXPECT_EQ(second->entries().size(), 2U);
  ASSERT_TRUE(second->entries().contains("Lake/77"));
  QuarantineEntry expected = entry_of("Lake/77", 5);
  expected.deaths[1] = "\xEF\xBF\xBD twice";  // no text: it is said so
  EXPECT_EQ(second->entries().at("Lake/77"), expected);
}

TEST(Quarantine, ALineThatACrashCutShortIsLeftOut) {
  test::TempFolder folder;
  ASSERT_TRUE(Quarantine::open(folder.path())->add(entry_of("a.jsonl:4", 2)));
  std::ofstream(folder.path() / "quarantine.jsonl", std::ios::app) << R"({"prompt": "b.js)";
  auto again = Quarantine::open(folder.path());
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_EQ(again->entries().size(), 1U);
  ASSERT_TRUE(again->add(entry_of("c.jsonl:1", 3)));
  EXPECT_EQ(Quarantine::open(folder.path())->entries().size(), 2U);
}

TEST(Quarantine, ALineThatIsNoEntryIsNamed) {
  test::TempFolder folder;
  ASSERT_TRUE(Quarantine::open(folder.path())->add(entry_of("a.jsonl:4", 2)));
  std::ofstream(folder.path() / "quarantine.jsonl", std::ios::app) << "{\"prompt\": 4}\n";
  auto again = Quarantine::open(folder.path());
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().detail.find("quarantine.jsonl:2"), std::string::npos)
      << again.error().detail;
}

}  // namespace
}  // namespace cohort::actors
