/// Python rewards in their children: every signature, every result, every way to fail.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/plugin/child/child_reward.hpp"
#include "tests/support/plugin_rig.hpp"

namespace cohort::test {
namespace {

using tasks::RewardResult;

double part(const RewardResult& result, std::string_view name) {
  for (const auto& [found, value] : result.parts)
    if (found == name) return value;
  return std::nan("");
}

// ---- signatures ------------------------------------------------------------------------------

TEST(PythonReward, TakesVerlsSignature) {
  auto reward = open(example("last_number.py"));
  ASSERT_TRUE(reward);
  auto results = reward->score(rows_of({"6 x 7 = 42", "it is 41", "no number"}));
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].score, 1);
  EXPECT_EQ(part(results[0], "numbers"), 3);
  EXPECT_EQ(results[0].detail, "found=42");
  EXPECT_EQ(results[1].score, 0);
  EXPECT_EQ(results[2].detail, "found=");
  for (const RewardResult& result : results) EXPECT_EQ(result.error, "");
}

TEST(PythonReward, TakesTrlsSignature) {
  auto reward = open(example("short_and_right.py"));
  ASSERT_TRUE(reward);
  auto rows = rows_of({"it is 42", "it is 41"});
  // A prompt that is a list of messages: its completion is one too.
  rows.push_back(row_of("so 42"));
  rows[2].messages = R"([{"role": "user", "content": "What is 6 x 7?"}])";
  auto results = reward->score(rows);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].score, 1);
  EXPECT_EQ(results[1].score, 0);
  EXPECT_EQ(results[2].score, 1) << results[2].error;
}

TEST(PythonReward, TakesOpenRlhfsSignature) {
  auto reward = open(example("openrlhf_labels.py"));
  ASSERT_TRUE(reward);
  auto results = reward->score(rows_of({"it is 42", "it is 41"}));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].score, 1);
  EXPECT_EQ(part(results[1], "chars"), 8);
  EXPECT_EQ(results[1].score, 0);
}

TEST(PythonReward, TakesRowsAsDictsAndFieldsByName) {
  auto one = open(example("plain.py:by_row")), all = open(example("plain.py:by_rows"));
  auto spec = spec_of(example("plain.py:by_fields"));
  spec.config = R"({"weight": 0.5})";
  auto fields = open(spec);
  ASSERT_TRUE(one && all && fields);
  const auto rows = rows_of({"42", "1234"});
  EXPECT_EQ(one->score(rows)[0].score, 1);
  EXPECT_EQ(one->score(rows)[1].score, 0);
  EXPECT_EQ(all->score(rows)[0].score, 0.5);  // of the longest of the call
  EXPECT_EQ(fields->score(rows)[0].score, 0.5);
  EXPECT_EQ(fields->score(rows)[0].detail, "looked for 42");
}

TEST(PythonReward, AsyncRowsWaitAtTheSameTimeEachWithItsDeadline) {
  PluginFolder folder;
  auto spec = spec_of(folder.write("waiting.py", R"(import asyncio

async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    await asyncio.sleep(float(solution_str))
    return extra_info["index"]
)"));
  spec.timeout_s = 1;
  auto reward = open(spec);
  ASSERT_TRUE(reward);
  std::vector<std::string> waits(12, "0.2");
  waits[3] = "3600";
  const double begin = now_seconds();
  auto results = reward->score(rows_of(waits));
  // One after the other they would take 11 x 0.2 s, and then the late one its two deadlines.
  EXPECT_LT(now_seconds() - begin, 4.2);
  for (size_t i = 0; i < results.size(); ++i) {
    if (i == 3)
      EXPECT_EQ(results[i].error, "timeout after 1 s");
    else
      EXPECT_EQ(results[i].score, 7) << results[i].error;
  }
}

TEST(PythonReward, TakesVerlsBatchSignatureAndNumbersLikeNumpys) {
  PluginFolder folder;
  auto reward = open(folder.write("batch.py", R"(class Number:
    def __init__(self, value):
        self.value = value
    def __float__(self):
        return self.value

class Array:
    def __init__(self, values):
        self.values = values
    def tolist(self):
        return self.values

def compute_score(data_sources, solution_strs, ground_truths, extra_infos, **kwargs):
    return Array([Number(0.25), True, {"score": Number(2.0), "acc": False}])
)"));
  ASSERT_TRUE(reward);
  auto results = reward->score(rows_of({"a", "b", "c"}));
  EXPECT_EQ(results[0].score, 0.25) << results[0].error;
  EXPECT_EQ(results[1].score, 1);
  EXPECT_EQ(results[2].score, 2);
  EXPECT_EQ(part(results[2], "acc"), 0);
}

// ---- failures --------------------------------------------------------------------------------

struct Case {
  const char* response;
  const char* error;  // a piece of it; "": the row has a score
};
const std::vector<Case> k_cases = {{"good", ""},
                                   {"exit", "exited with 3"},
                                   {"sys_exit", "called sys.exit(4) (failures.py:"},
                                   {"raise", "raised ValueError: not this one (failures.py:"},
                                   {"memory", "ran out of memory (failures.py:"},
                                   {"fork", ""},  // the copy that comes back is sent away
                                   {"fork_and_exit", "exited with 5"},
                                   {"print", ""},  // what it prints is not what it answers
                                   {"garbage", "answered garbage"},
                                   {"close", "exited with 1"},
                                   {"none", "returned None"},
                                   {"nan", "returned nan"},
                                   {"text", "returned the text '1.0', not a number"},
                                   {"no_score", "returned a dict without 'score' (keys: accuracy)"},
                                   {"good too", ""}};

void expect_cases(tasks::Reward& reward, const std::vector<Case>& cases) {
  std::vector<std::string> responses;
  for (const Case& x : cases) responses.push_back(x.response);
  auto results = reward.score(rows_of(responses));
  ASSERT_EQ(results.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string what = cases[i].response;
    if (cases[i].error[0] == '\0') {
      EXPECT_EQ(results[i].error, "") << what;
      EXPECT_EQ(results[i].score, static_cast<double>(what.size())) << what;
    } else {
      EXPECT_NE(results[i].error.find(cases[i].error), std::string::npos)
          << what << ": " << results[i].error;
      EXPECT_EQ(results[i].score, 0) << what;
    }
  }
}

TEST(PythonReward, AFailureCostsItsRowAlone) {  // PLUGIN-5
  auto reward = open(failures("fail"));
  ASSERT_TRUE(reward);
  expect_cases(*reward, k_cases);
}

TEST(PythonReward, AFailureOfABatchFunctionCostsItsRowAlone) {
  auto reward = open(failures("fail_together"));
  ASSERT_TRUE(reward);
  expect_cases(*reward, k_cases);
  auto results = reward->score(rows_of({"good", "short", "good"}));
  EXPECT_EQ(results[0].score, 4) << results[0].error;
  EXPECT_EQ(results[1].error, "returned 0 results for 1 rows");
  EXPECT_EQ(results[2].score, 4) << results[2].error;
}

TEST(PythonReward, ARowThatHangsEndsByItsDeadlineWithItsWholeTree) {  // PLUGIN-1
  auto spec = spec_of(failures("fail"));
  spec.timeout_s = 0.4;
  auto reward = open(spec);
  ASSERT_TRUE(reward);
  expect_cases(*reward, {{"good", ""},
                         {"hang", "timeout after 0.4 s"},
                         {"spin", "timeout after 0.4 s"},
                         {"children", "timeout after 0.4 s"},
                         {"good too", ""}});
}

TEST(PythonReward, ASignalOfItsOwnIsNamed) {
  if (sandbox_mode() != plugin::SandboxMode::bubblewrap) GTEST_SKIP() << "kill() needs a namespace";
  auto reward = open(failures("fail"));
  ASSERT_TRUE(reward);
  auto results = reward->score(rows_of({"segfault", "good"}));
  EXPECT_EQ(results[0].error, "killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(results[1].score, 4);
}

TEST(PythonReward, ARowThatFailsOnceIsAskedForOnceMore) {
  PluginFolder folder;
  // The worker is the same after an exception, so what it remembers is there the second time.
  auto reward = open(folder.write("once.py", R"(seen = set()

def score(row):
    if row["response"] not in seen:
        seen.add(row["response"])
        raise RuntimeError("first time")
    return 1
)"));
  ASSERT_TRUE(reward);
  for (const RewardResult& result : reward->score(rows_of({"a", "b"}))) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.score, 1);
  }
}

TEST(PythonReward, ASlotIsBackWhileTheRowThatHungWaitsForItsRetry) {  // PLUGIN-3
  auto spec = spec_of(failures("fail"));
  spec.timeout_s = 2;
  auto reward = open(spec);
  ASSERT_TRUE(reward);
  const double begin = now_seconds();
  double hung_at = 0;
  std::thread hanging([&] {
    EXPECT_EQ(reward->score(rows_of({"hang"}))[0].error, "timeout after 2 s");
    hung_at = now_seconds();
  });
  while (dynamic_cast<plugin::ChildReward&>(*reward).pool().idle() > 1) std::this_thread::yield();
  EXPECT_EQ(reward->score(rows_of({"good"}))[0].score, 4);
  const double back_at = now_seconds();
  hanging.join();
  EXPECT_GE(back_at - begin, 2);      // there was one slot, and it was taken
  EXPECT_GE(hung_at - back_at, 1.5);  // the retry stood behind
}

TEST(PythonReward, StopEndsACallUnderWay) {
  auto spec = spec_of(failures("fail"));
  spec.timeout_s = 100;
  auto reward = open(spec);
  ASSERT_TRUE(reward);
  std::vector<RewardResult> results;
  std::thread hanging([&] { results = reward->score(rows_of({"hang", "good"})); });
  while (dynamic_cast<plugin::ChildReward&>(*reward).pool().idle() > 1) std::this_thread::yield();
  reward->stop();
  hanging.join();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].error, "stopped");
  EXPECT_EQ(results[1].error, "stopped");
  EXPECT_EQ(reward->score(rows_of({"good"}))[0].error, "stopped");
}

TEST(PythonReward, BigRowsGoThroughBothPipes) {
  PluginFolder folder;
  auto reward = open(folder.write("big.py", R"(def score(row):
    print(row["response"][:100_000])
    return {"score": len(row["response"]), "detail": row["response"][:150_000]}
)"));
  ASSERT_TRUE(reward);
  std::vector<std::string> responses(20, std::string(300'000, 'x'));
  for (const RewardResult& result : reward->score(rows_of(responses))) {
    EXPECT_EQ(result.score, 300'000) << result.error;
    EXPECT_EQ(result.detail.size(), 150'000U);
  }
}

// ---- loading ---------------------------------------------------------------------------------

void expect_refused(const plugin::PluginSpec& spec, Errc code, const std::string& words) {
  auto reward = plugin::open_reward(spec);
  ASSERT_FALSE(reward.has_value()) << spec.plugin;
  EXPECT_EQ(reward.error().code, code) << reward.error().to_string();
  EXPECT_NE(reward.error().detail.find(words), std::string::npos) << reward.error().detail;
}

TEST(PythonReward, WhatCannotBeLoadedIsRefusedInASentence) {
  PluginFolder folder;
  auto refused = [&](const std::string& name, const std::string& text, const std::string& words) {
    folder.write(name.substr(0, name.find(':')), text);
    expect_refused(spec_of(folder.path(name)), Errc::config, words);
  };
  expect_refused(spec_of("/nowhere/mine.py"), Errc::not_found, "/nowhere/mine.py: no such plugin");
  refused("two.py", "def a(row): pass\ndef b(row): pass\n", "name the function");
  refused("named.py:c", "def a(row): pass\n", "has no function 'c' (it has: a)");
  refused("syntax.py", "def a(row:\n", "SyntaxError");
  refused("raises.py", "import json\njson.loads('')\n", "raised JSONDecodeError");
  refused("imports.py", "import torch_that_is_not_there\n", "raised ModuleNotFoundError");
  refused("odd.py", "def a(x, y): pass\n", "takes (x, y), which is no known signature");
  refused("exits.py", "import os\nos._exit(7)\n", "exited with 7");
  auto spec = spec_of(folder.write("args.py", "def a(row, weight=1): return weight\n"));
  spec.config = R"({"wieght": 2})";
  expect_refused(spec, Errc::config, "args.wieght: a has no such parameter (it has: row, weight)");
  spec.config = "[1]";
  expect_refused(spec, Errc::config, "JSON object");
}

TEST(PythonReward, ItsFolderIsReadAndOnlyThat) {
  if (sandbox_mode() != plugin::SandboxMode::bubblewrap)
    GTEST_SKIP() << "needs the mount namespace";
  PluginFolder folder, secret;
  folder.write("helper_of_mine.py", "VALUE = 3\n");
  secret.write("secret", "not yours");
  auto reward = open(folder.write("mine.py", R"(import helper_of_mine

def score(row):
    try:
        return len(open(row["response"]).read())
    except OSError:
        return helper_of_mine.VALUE
)"));
  ASSERT_TRUE(reward);
  EXPECT_EQ(reward->score(rows_of({secret.path("secret")}))[0].score, 3);
}

TEST(PythonReward, InASharedFolderItStandsAlone) {
  if (sandbox_mode() != plugin::SandboxMode::bubblewrap)
    GTEST_SKIP() << "needs the mount namespace";
  PluginFolder folder;
  // As /tmp is: everybody's. What lies beside the file is nobody's to read.
  std::filesystem::permissions(folder.path(""), std::filesystem::perms(01777));
  folder.write("secret", "not yours");
  auto reward = open(folder.write("mine.py", R"(import os, tempfile

def score(row):
    with tempfile.NamedTemporaryFile() as file:  # its own /tmp is there
        file.write(b"x")
    return os.path.exists(row["response"])
)"));
  ASSERT_TRUE(reward);
  auto results = reward->score(rows_of({folder.path("secret"), folder.path("mine.py")}));
  EXPECT_EQ(results[0].error, "");
  EXPECT_EQ(results[0].score, 0);
  EXPECT_EQ(results[1].score, 1);
}

TEST(PythonReward, RowsThatAreTooBigTogetherAreSentAlone) {
  auto reward = open(example("plain.py:by_fields"));
  ASSERT_TRUE(reward);
  auto rows = rows_of({"42", std::string(40 << 20, 'x'), std::string(65 << 20, 'x'), "42"});
  for (auto& row : rows) row.id = "big";
  auto results = reward->score(rows);
  EXPECT_EQ(results[0].score, 1) << results[0].error;
  EXPECT_EQ(results[1].error, "");
  EXPECT_NE(results[2].error.find("bytes are more than a call may have"), std::string::npos);
  EXPECT_EQ(results[3].score, 1);
}

TEST(PythonReward, ReloadTakesANewVersionAndKeepsTheOldOnAnError) {  // PLUGIN-4
  PluginFolder folder;
  auto reward = open(folder.write("mine.py", "def score(row): return 1\n"));
  ASSERT_TRUE(reward);
  auto first = reward->reload();
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(*first);
  folder.write("mine.py", "def score(row): return 2\n");
  EXPECT_EQ(reward->score(rows_of({"a"}))[0].score, 1);  // not before it is asked to
  auto second = reward->reload();
  ASSERT_TRUE(second.has_value()) << second.error().to_string();
  EXPECT_TRUE(*second);
  EXPECT_EQ(reward->score(rows_of({"a"}))[0].score, 2);
  folder.write("mine.py", "def score(row: return 3\n");
  auto third = reward->reload();
  ASSERT_FALSE(third.has_value());
  EXPECT_NE(third.error().detail.find("SyntaxError"), std::string::npos);
  EXPECT_EQ(reward->score(rows_of({"a"}))[0].score, 2);
}

TEST(PythonReward, AChildThatStartsLaterRunsTheVersionThatWasLoaded) {
  PluginFolder folder;
  auto reward = open(folder.write("mine.py", R"(import os

def score(row):
    if row["response"] == "exit":
        os._exit(3)
    return 1
)"));
  ASSERT_TRUE(reward);
  folder.write("mine.py", "def score(row): return 2\n");
  for (int i = 0; i < 3; ++i) {  // more children than there were at the start
    auto results = reward->score(rows_of({"exit", "a"}));
    EXPECT_EQ(results[0].error, "exited with 3");
    EXPECT_EQ(results[1].score, 1);
  }
}

}  // namespace
}  // namespace cohort::test
