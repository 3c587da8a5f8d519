// Points that a test arms from outside: who acts, when, and how often.
#include "runtime/base/failpoint.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "runtime/base/clock.hpp"
#include "tests/support/child_process.hpp"

namespace cohort {
namespace {

class Failpoint : public testing::Test {
 protected:
  ~Failpoint() override { EXPECT_TRUE(failpoint::arm("")); }
};

/// Runs `body` in a child and returns how that ended or stood still; a stopped one is killed.
int status_of(const std::function<void()>& body) {
  pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return status;
}

TEST_F(Failpoint, UnarmedNothingHappens) {
  EXPECT_FALSE(failpoint::hit("publish.begin"));
  EXPECT_TRUE(failpoint::check("publish.begin"));
}

TEST_F(Failpoint, FailsOnceAtItsCount) {
  ASSERT_TRUE(failpoint::arm("a.b:3:fail;c:1:fail"));
  EXPECT_FALSE(failpoint::hit("a.b"));
  EXPECT_FALSE(failpoint::hit("a.b"));
  EXPECT_FALSE(failpoint::hit("a"));
  auto failed = failpoint::check("a.b");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().detail, "failpoint a.b");
  EXPECT_FALSE(failpoint::hit("a.b"));
  EXPECT_TRUE(failpoint::hit("c"));
}

TEST_F(Failpoint, KillsAndStops) {
  int killed = status_of([] {
    (void)failpoint::arm("x:2:kill");
    (void)failpoint::hit("x");
    (void)failpoint::hit("x");
  });
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
  int stopped = status_of([] {
    (void)failpoint::arm("x:1:stop");
    (void)failpoint::hit("x");
  });
  EXPECT_TRUE(WIFSTOPPED(stopped));
}

// The thread stands still; the process lives until somebody ends it.
TEST_F(Failpoint, HangsTheThreadAlone) {
  int alarmed = status_of([] {
    (void)failpoint::arm("x:1:hang");
    ::alarm(1);
    (void)failpoint::hit("x");
  });
  EXPECT_TRUE(WIFSIGNALED(alarmed) && WTERMSIG(alarmed) == SIGALRM);
}

TEST_F(Failpoint, IsSlowFromItsCountOn) {
  ASSERT_TRUE(failpoint::arm("x:2:slow"));
  const auto took_ms = [] {
    const double start = now_seconds();
    EXPECT_FALSE(failpoint::hit("x"));
    return 1e3 * (now_seconds() - start);
  };
  EXPECT_LT(took_ms(), 90);
  EXPECT_GE(took_ms(), 99);
  EXPECT_GE(took_ms(), 99);
}

TEST_F(Failpoint, APointOfOneThingIsPassedByThatAlone) {
  ASSERT_TRUE(failpoint::arm("play@77:2:fail"));
  EXPECT_FALSE(failpoint::hit("play", 77));
  EXPECT_FALSE(failpoint::hit("play", 7));
  EXPECT_FALSE(failpoint::hit("play"));
  EXPECT_TRUE(failpoint::hit("play", 77));
}

TEST_F(Failpoint, OneProcessAloneActsOnAClaim) {
  test::TempFolder folder;
  const std::string file = (folder.path() / "claim").string();
  auto pass = [&] {
    (void)failpoint::arm("x:1:kill:" + file);
    (void)failpoint::hit("x");
  };
  EXPECT_TRUE(WIFSIGNALED(status_of(pass)));
  EXPECT_TRUE(WIFEXITED(status_of(pass)));
  EXPECT_TRUE(test::slurp(file).starts_with("x "));
}

TEST_F(Failpoint, WhatCannotBeReadIsNamed) {
  for (const char* text :
       {"x", "x:0:kill", "x:1:explode", ":1:kill", "x:one:kill", "a:1:fail;b:2"}) {
    auto armed = failpoint::arm(text);
    ASSERT_FALSE(armed) << text;
    EXPECT_EQ(armed.error().code, Errc::invalid_argument);
  }
}

}  // namespace
}  // namespace cohort
