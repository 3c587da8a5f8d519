// The waits of this process, in memory and in the file that other processes read.
#include "runtime/base/waits.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_name.hpp"

namespace cohort {
namespace {

class WaitsTest : public ::testing::Test {
 protected:
  WaitsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort_waits_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~WaitsTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path own_file() const {
    return folder_ / ("waits_" + host_name() + "_" + std::to_string(::getpid()));
  }
  ProcessWaits published() {
    EXPECT_TRUE(publish_waits(folder_, "tester"));
    auto read = read_waits(own_file());
    EXPECT_TRUE(read) << read.error().detail;
    return *read;
  }
  std::filesystem::path folder_;
};

TEST_F(WaitsTest, OneIsShownFromItsBeginToItsEnd) {
  const double before = now_seconds();
  Wait wait({WaitLevel::outside, "the checkpoint", "/disk/model", "the disk", 42});
  wait.set_where("in fsync");
  const ProcessWaits shown = published();
  EXPECT_EQ(shown.pid, ::getpid());
  EXPECT_EQ(shown.name, "tester");
  EXPECT_EQ(shown.started, process_started(::getpid()));
  ASSERT_EQ(shown.waits.size(), 1U);
  const WaitEntry& entry = shown.waits.front();
  EXPECT_EQ(entry.level, WaitLevel::outside);
  EXPECT_EQ(entry.who, "the checkpoint");
  EXPECT_EQ(entry.what, "/disk/model");
  EXPECT_EQ(entry.ends_by, "the disk");
  EXPECT_EQ(entry.where, "in fsync");
  EXPECT_EQ(entry.pid, 42);
  EXPECT_GE(entry.since, before);

  Wait moved = std::move(wait);
  moved.moved();
  EXPECT_GE(read_waits(own_file())->waits.at(0).since, entry.since);
  moved.end();
  EXPECT_TRUE(read_waits(own_file())->waits.empty());
}

TEST_F(WaitsTest, LongTextsAreCutAndTheTableHasABound) {
  const std::string longer(1000, 'x');
  std::vector<Wait> waits;
  for (size_t i = 0; i < k_waits_max + 3; ++i)
    waits.push_back(Wait({WaitLevel::role, longer, longer, longer}));
  const ProcessWaits shown = published();
  EXPECT_EQ(shown.waits.size(), k_waits_max);
  EXPECT_EQ(shown.left_out, 3U);
  EXPECT_EQ(longer.find(shown.waits.front().what), 0U);
}

// The other process reads what is there at any moment; no text is half of one and half of another.
TEST_F(WaitsTest, AReaderNeverSeesHalfAWait) {
  ASSERT_TRUE(publish_waits(folder_, "tester"));
  std::jthread writer([](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      const std::string text(60, static_cast<char>('a' + i % 26));
      Wait wait({WaitLevel::link, text, text, text});
    }
  });
  size_t seen = 0;
  for (int i = 0; i < 100000 && seen < 200; ++i) {
    const auto shown = read_waits(own_file());
    ASSERT_TRUE(shown);
    for (const WaitEntry& entry : shown->waits) {
      ++seen;
      ASSERT_EQ(entry.who, entry.what);
      ASSERT_EQ(entry.who, std::string(60, entry.who.front()));
    }
  }
  EXPECT_GT(seen, 0U);
}

TEST_F(WaitsTest, TheFileOfAProcessThatIsGoneGoes) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_written = publish_waits(folder_, "child").has_value();
    ::_exit(is_written ? 0 : 1);  // as a kill would: nothing is cleaned up
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(waits_files(folder_).size(), 1U);
  EXPECT_EQ(read_waits(waits_files(folder_).front())->name, "child");
  ASSERT_TRUE(publish_waits(folder_, "tester"));
  EXPECT_EQ(waits_files(folder_), std::vector{own_file()});
}

TEST_F(WaitsTest, WhatIsNoneIsRefused) {
  std::ofstream(folder_ / "waits_1") << "something else";
  const auto read = read_waits(folder_ / "waits_1");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::corrupt);
  EXPECT_EQ(read_waits(folder_ / "waits_2").error().code, Errc::io);
  EXPECT_FALSE(publish_waits("/proc/nowhere", "tester"));
}

}  // namespace
}  // namespace cohort
