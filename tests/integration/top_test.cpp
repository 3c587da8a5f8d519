// actor-node top: beside a live run, by its folder and by the address of its pages, as plain text
// and in a terminal.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/pseudo_terminal.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::Process;
using test::PseudoTerminal;
using test::TempFolder;
using Words = std::vector<std::string>;

/// `actor-node run` that goes on until it is killed.
Words long_run(const TempFolder& folder, const Words& options = {}, const Words& more = {}) {
  Words overrides = {"max_steps=100000", "eval_steps=-1", "save_steps=50000"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  Words command = test::tiny_run(folder, overrides);
  command.insert(command.begin() + 2, options.begin(), options.end());
  return command;
}

/// The folder of the run, once it has finished a step after the warm start; "" if it does not.
std::string run_with_a_step(const TempFolder& folder, Process& run) {
  const auto has_step = [&] {
    const std::string path = test::any_run(folder);
    return !path.empty() && test::hashes(path).rbegin()->first > 0;
  };
  const bool has = test::wait_until([&] { return has_step() || !run.is_running(); }, 60000);
  return has ? test::any_run(folder) : "";
}

Words top_of(const std::string& where, const Words& more = {}) {
  Words command = {test::binary("actor-node"), "top", where};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

struct Seen {
  int code = 0;
  std::string out, err;
};

Seen seen(const TempFolder& folder, const std::string& where, const Words& more = {}) {
  Process top(top_of(where, more), folder);
  const int code = top.wait(20000);
  return {code, top.out(), top.err()};
}

void expect_words(const std::string& text, const Words& words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in\n" << text;
}

TEST(Top, WithoutATerminalItPrintsOnePictureOfTheFolder) {
  TempFolder folder;
  Process run(test::tiny_run(folder, {"max_steps=200", "save_steps=100"}), folder);
  const std::string path = run_with_a_step(folder, run);
  ASSERT_FALSE(path.empty()) << run.err();
  const Seen live = seen(folder, path);
  EXPECT_EQ(live.code, 0) << live.err;
  EXPECT_EQ(live.out.find('\x1b'), std::string::npos) << live.out;
  expect_words(live.out, {"frozen_lake", "step ", "/200", "reward", "loss", "generate", "update",
                          "actor_train", "actor_infer", "63 MiB", "nothing waits longer than",
                          "rewards->actor_train"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  const Seen over = seen(folder, path);
  EXPECT_EQ(over.code, 0) << over.err;
  expect_words(over.out, {"finished", "step 200/200"});
  EXPECT_EQ(over.out.find("waits"), std::string::npos) << over.out;
}

TEST(Top, OfARunWithPagesItShowsTheLinksToo) {
  TempFolder folder;
  Process run(long_run(folder, {"--dashboard", "0"}), folder);
  const std::string path = run_with_a_step(folder, run);
  ASSERT_FALSE(path.empty()) << run.err();
  const std::string out = run.out(), line = "dashboard: ";
  const size_t at = out.find(line) + line.size();
  const std::string url = out.substr(at, out.find('\n', at) - at);
  for (const std::string& where : {url, path}) {
    Seen shown;
    const bool has_links = test::wait_until(
        [&] {
          shown = seen(folder, where);
          return shown.code != 0 || shown.out.find("rewards->actor_train") != std::string::npos;
        },
        30000);
    EXPECT_TRUE(has_links && shown.code == 0) << where << "\n" << shown.out << shown.err;
    expect_words(shown.out, {"queued", "credit", "rate", "actor_infer", "now"});
  }
  const json status = json::parse(seen(folder, url, {"--json"}).out, nullptr, false);
  ASSERT_TRUE(status.is_object());
  EXPECT_EQ(status.at("run").at("folder"), path);
  EXPECT_GE(status.at("run").at("last").at("step"), 1);
}

TEST(Top, ARunThatIsStoppedIsNamedThoughItsPagesAreSilent) {
  TempFolder folder;
  Words command = long_run(folder, {"--dashboard", "0"});
  command.insert(command.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=trainer.update:8:stop:" +
                                                       (folder.path() / "claim").string()});
  Process run(command, folder);
  const std::string path = run_with_a_step(folder, run);
  ASSERT_FALSE(path.empty()) << run.err();
  Seen shown;
  test::wait_until(
      [&] {
        shown = seen(folder, path);
        return shown.out.find("is stopped; kill -CONT") != std::string::npos;
      },
      40000);
  expect_words(shown.out, {"(run) is stopped; kill -CONT", "run: no links are told"});
}

TEST(Top, TheLinksOfCardProcessesAreShownOfARunThatServesNoPages) {
  TempFolder folder;
  Process run(long_run(folder, {"--processes", "2"}), folder);
  const std::string path = run_with_a_step(folder, run);
  ASSERT_FALSE(path.empty()) << run.err();
  std::set<std::string> processes;
  const bool are_all = test::wait_until(
      [&] {
        const json shown = json::parse(seen(folder, path, {"--json"}).out, nullptr, false);
        processes.clear();
        if (!shown.is_object() || !shown.contains("flow")) return false;
        for (const json& link : shown.at("flow").at("links")) processes.insert(link.at("process"));
        return processes.size() >= 2;
      },
      30000);
  EXPECT_TRUE(are_all) << processes.size() << run.err();
  EXPECT_TRUE(processes.contains("card process 0")) << testing::PrintToString(processes);
}

TEST(Top, WhatIsNeitherARunNorAnAddressIsRefused) {
  TempFolder folder;
  const Seen no_run = seen(folder, folder.path().string());
  EXPECT_EQ(no_run.code, 2);
  expect_words(no_run.err, {"neither a run's folder (it has no config.yaml) nor the address"});
  const Seen nobody = seen(folder, "http://127.0.0.1:1/");
  EXPECT_EQ(nobody.code, 1);
  expect_words(nobody.err, {"http://127.0.0.1:1/ does not answer"});
  const Seen no_port = seen(folder, "http://localhost/");
  EXPECT_EQ(no_port.code, 2);
  expect_words(no_port.err, {"http://HOST:PORT/"});
}

// -- in a terminal: SCREEN-1

class TopInATerminal : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = std::make_unique<Process>(long_run(folder_), folder_);
    path_ = run_with_a_step(folder_, *run_);
    ASSERT_FALSE(path_.empty()) << run_->err();
  }
  Words command(const Words& environment = {}) const {
    Words words = {"/usr/bin/env", "-u", "NO_COLOR"};
    words.insert(words.end(), environment.begin(), environment.end());
    const Words top = top_of(path_, {"--interval", "0.1"});
    words.insert(words.end(), top.begin(), top.end());
    return words;
  }
  static void expect_given_back(PseudoTerminal& terminal) {
    const std::string& bytes = terminal.bytes();
    EXPECT_NE(bytes.find("\x1b[?1049h"), std::string::npos);
    const size_t end = bytes.rfind("\x1b[?7h\x1b[?25h\x1b[?1049l");
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(bytes.find("\x1b[?1049h", end), std::string::npos);
    EXPECT_NE(terminal.local_modes() & ECHO, 0U);
    EXPECT_NE(terminal.local_modes() & ICANON, 0U);
  }

  TempFolder folder_;
  std::unique_ptr<Process> run_;
  std::string path_;
};

TEST_F(TopInATerminal, ItFollowsTheRunAndItsSizeUntilQ) {
  PseudoTerminal terminal(command(), 100, 30);
  if (!terminal.is_there()) GTEST_SKIP() << "no pseudo-terminal here";
  expect_words(terminal.screen_with("bytes on it"), {"frozen_lake", "actor_infer", "reward"});
  EXPECT_EQ(terminal.local_modes() & ECHO, 0U);
  EXPECT_NE(terminal.bytes().find("\x1b[1m"), std::string::npos) << "in colours";
  const auto step = [&] {
    const std::string shown = terminal.screen();
    const size_t at = shown.find("step ", shown.find('\n'));
    return at == std::string::npos ? 0 : std::atoi(shown.c_str() + at + 5);
  };
  const int first = step();
  EXPECT_TRUE(test::wait_until([&] { return step() > first; }, 30000)) << terminal.screen();
  terminal.resize(40, 12);
  const std::string narrow = terminal.screen_with("\ncards");
  expect_words(narrow, {"\ncards", "nothing waits"});
  EXPECT_EQ(narrow.find("bytes on it"), std::string::npos);
  EXPECT_LE(std::count(narrow.begin(), narrow.end(), '\n'), 12);
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
  expect_given_back(terminal);
}

TEST_F(TopInATerminal, CtrlZGivesTheTerminalBackAndCtrlCEnds) {
  PseudoTerminal terminal(command({"NO_COLOR=1"}), 100, 30);
  if (!terminal.is_there()) GTEST_SKIP() << "no pseudo-terminal here";
  terminal.screen_with("bytes on it");
  terminal.type("\x1a");
  ASSERT_TRUE(terminal.becomes_stopped());
  expect_given_back(terminal);
  const size_t stopped_at = terminal.bytes().size();
  terminal.signal(SIGCONT);
  EXPECT_TRUE(test::wait_until(
      [&] { return terminal.bytes().find("frozen_lake", stopped_at) != std::string::npos; },
      20000));
  EXPECT_EQ(terminal.local_modes() & ECHO, 0U);
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0);
  expect_given_back(terminal);
  const std::string& bytes = terminal.bytes();
  for (size_t at = bytes.find("\x1b["); at != std::string::npos; at = bytes.find("\x1b[", at + 1))
    EXPECT_NE(bytes[bytes.find_first_not_of("0123456789;?", at + 2)], 'm') << "NO_COLOR";
}

TEST_F(TopInATerminal, ATerminalThatGoesEndsIt) {
  PseudoTerminal terminal(command(), 100, 30);
  if (!terminal.is_there()) GTEST_SKIP() << "no pseudo-terminal here";
  terminal.screen_with("bytes on it");
  terminal.signal(SIGHUP);
  EXPECT_EQ(terminal.wait(), 0);
}

}  // namespace
}  // namespace cohort
