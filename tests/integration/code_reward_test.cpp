// code_sandbox from answer to verdict: right and wrong answers of every case type, answers that try
// to pass without solving anything, and what 300 of them leave behind.
#include "runtime/plugin/code/code_reward.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/child_process.hpp"
#include "tests/support/sandbox_run.hpp"

namespace cohort::plugin {
namespace {

using Json = nlohmann::json;
using tasks::RewardResult;
using tasks::RewardRow;

const Json k_add = {{"test_cases",
                     {{{"stdin", "1 2\n"}, {"expected_stdout", "3\n"}},
                      {{"stdin", "5 6\n"}, {"expected_stdout", "11\n"}}}}};
const Json k_assert = {{"case_type", "assert"},
                       {"test_cases", {"assert f(2) == 4", "assert f(3) == 9"}}};

Json tests_of(std::vector<std::string> codes, const char* type = "pytest") {
  return {{"case_type", type}, {"test_cases", codes}};
}

RewardRow row_of(const std::string& code, const Json& columns, const char* language = "python") {
  RewardRow row;
  row.id = "row";
  row.response = "Here.\n```" + std::string(language) + "\n" + code + "\n```\n";
  row.columns = columns.dump();
  return row;
}

/// Folders of this process's sandboxes of mode rlimits.
size_t private_folders() {
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp"))
    found +=
        entry.path().filename().string().starts_with("cohort-sandbox-" + std::to_string(::getpid()))
            ? 1
            : 0;
  return found;
}

class CodeReward : public testing::TestWithParam<SandboxMode> {
 protected:
  void SetUp() override {
    if (Expected<void> works = SandboxedProcess::check(GetParam()); !works)
      GTEST_SKIP() << works.error().to_string();
    reward_ = make(R"({"case_timeout_s": 4})");
  }

  std::shared_ptr<tasks::Reward> make(const std::string& config) {
    PluginSpec options;
    options.mode = GetParam();
    options.memory_bytes = uint64_t{400} << 20;
    options.timeout_s = 20;
    auto reward = make_code_reward(config, options);
    EXPECT_TRUE(reward) << reward.error().to_string();
    return reward ? *reward : nullptr;
  }

  RewardResult score(const RewardRow& row) { return reward_->score({&row, 1}).at(0); }

  void expect_pass(const RewardRow& row) {
    RewardResult result = score(row);
    EXPECT_EQ(result.score, 1) << row.response << result.detail;
    EXPECT_EQ(result.detail + result.error, "") << row.response;
  }

  void expect_fail(const RewardRow& row, const std::string& detail) {
    RewardResult result = score(row);
    EXPECT_EQ(result.error, "") << row.response;
    EXPECT_EQ(result.score, 0) << row.response;
    EXPECT_NE(result.detail.find(detail), std::string::npos) << row.response << result.detail;
  }

  std::shared_ptr<tasks::Reward> reward_;
};

TEST_P(CodeReward, RightProgramsPass) {
  expect_pass(row_of("a, b = map(int, input().split())\nprint(a + b)", k_add));
  expect_pass(
      row_of("import sys, threading\ndef main():\n    print(sum(map(int, sys.stdin.read()"
             ".split())))\nthreading.Thread(target=main).start()",
             k_add));
  expect_pass(row_of(
      "if __name__ == '__main__':\n    print(eval(input().replace(' ', '+')))\n    exit()", k_add));
  expect_pass(
      row_of("#include <iostream>\nint main() { int a, b; std::cin >> a >> b; "
             "std::cout << a + b; }",
             k_add, "cpp"));
}

TEST_P(CodeReward, WrongProgramsSayWhy) {
  expect_fail(row_of("print(3)", k_add), "wrong answer in case 2: line 1: expected '11', got '3'");
  expect_fail(row_of("print(1 / 0)", k_add), "exception in case 1: ZeroDivisionError");
  expect_fail(row_of("x =", k_add), "compile error: SyntaxError: invalid syntax, line 1");
  expect_fail(row_of("import sys; print(3); sys.exit(2)", k_add), "crash in case 1: exit code 2");
  expect_fail(row_of("import ctypes; ctypes.string_at(0)", k_add), "crash in case 1: signal 11");
  expect_fail(row_of("x = [0] * 10**9", k_add), "memory limit in case 1: MemoryError");
  expect_fail(row_of("while True: print('x' * 10000)", k_add), "output limit in case 1");
  expect_fail(row_of("int main() { return x; }", k_add, "cpp"), "compile error: ");
  expect_fail(row_of("int main() { int* p = nullptr; *p = 1; }", k_add, "cpp"),
              "crash in case 1: signal 11");
  RewardRow empty = row_of("", k_add);
  expect_fail(empty, "no code in the answer");
}

TEST_P(CodeReward, WhatDoesNotEndIsEnded) {
  reward_ = make(R"({"case_timeout_s": 0.5})");
  expect_fail(row_of("while True: pass", k_add), "timeout in case 1 after 0.5 s");
  expect_fail(row_of("import time; time.sleep(100)", k_add), "timeout in case 1 after 0.5 s");
  expect_fail(row_of("def f(x):\n    while True: pass", k_assert), "timeout in case 1");
  expect_fail(row_of("import time; time.sleep(100)", k_assert), "timeout in case 1");
  expect_fail(row_of("def f(x): return x * x", tests_of({"while True: f(1)"})),
              "timeout in case 1");
}

TEST_P(CodeReward, MemoryOfAllProcessesTogetherIsLimited) {
  reward_ = make(R"({"case_timeout_s": 15})");
  expect_fail(row_of("import os, time\nfor i in range(8):\n    if os.fork() == 0:\n        x = "
                     "bytearray(200 << 20)\n        for i in range(0, len(x), 4096): x[i] = 1\n"
                     "        time.sleep(20)\ntime.sleep(20)",
                     k_add),
              "memory limit");
}

TEST_P(CodeReward, TestsOfEveryTypePass) {
  const char* code = "def f(x): return x * x";
  expect_pass(row_of(code, k_assert));
  expect_pass(row_of(code, tests_of({"from solution import f\nimport pytest\n"
                                     "def test_a():\n    assert f(2) == 4\n"
                                     "@pytest.mark.parametrize('a,b', [(1, 1), (3, 9)])\n"
                                     "def test_b(a, b):\n    assert f(a) == b\n"
                                     "def test_c():\n    with pytest.raises(TypeError): f('x')\n"
                                     "class TestD:\n    def test_e(self): assert f(0.5) == "
                                     "pytest.approx(0.25)"})));
  expect_pass(
      row_of(code, {{"case_type", "check_based"},
                    {"entry_point", "f"},
                    {"import_prefix", "from typing import List\n"},
                    {"test_cases", {"def check(candidate):\n    assert candidate(3) == 9"}}}));
  expect_pass(
      row_of("class Solution:\n    def f(self, a: 'List[int]', k): return [x * k for x in a]",
             {{"fn_name", "f"},
              {"test_cases", {{{"stdin", "[1, 2]\n3"}, {"expected_stdout", "[3, 6]"}}}}}));
  RewardRow text =
      row_of("x", {{"case_type", "text"}, {"test_cases", {"assert '42' in '{response}'"}}});
  text.response = "it's \"42\"\n\\";
  expect_pass(text);
}

TEST_P(CodeReward, ObjectsFunctionsAndChangesCross) {
  expect_pass(row_of(
      "from collections import Counter, deque\nfrom fractions import Fraction\n"
      "class Stack:\n    def __init__(self): self.x = []\n    def push(self, v): self.x.append(v)\n"
      "    def __len__(self): return len(self.x)\n    def __contains__(self, v): return v in "
      "self.x\n"
      "class Bad(ValueError): pass\n"
      "def bad(): raise Bad('no')\ndef each(f, xs): return [f(x) for x in xs]\n"
      "def sort(xs): xs.sort()\ndef count(s): return Counter(s)\ndef half(x): return Fraction(x, "
      "2)\n"
      "def gen(n): yield from range(n)\ndef odd(): return {(1, 2): {3, 4}, None: [b'x', 1j, "
      "float('inf')]}\n",
      tests_of({"from solution import *\n"
                "s = Stack(); s.push([1]); s.push(2)\n"
                "assert len(s) == 2 and 2 in s and 3 not in s and s.x == [[1], 2]\n"
                "assert isinstance(s, Stack) and s == s and s != Stack()\n"
                "assert each(lambda x: x + 1, [1, 2]) == [2, 3]\n"
                "a = [3, 1, 2]; sort(a); assert a == [1, 2, 3]\n"
                "assert count('aab') == {'a': 2, 'b': 1} and half(3) * 2 == 3\n"
                "assert list(gen(3)) == [0, 1, 2]\n"
                "assert odd() == {(1, 2): {3, 4}, None: [b'x', 1j, float('inf')]}\n"
                "try:\n    bad(); assert False, 'nothing raised'\n"
                "except Bad as e:\n    assert str(e) == 'no'\n"})));
}

/// Each of these would pass with a checker that lives where the answer does.
TEST_P(CodeReward, NothingPassesUnsolved) {
  const char* answers[] = {
      "import sys\nsys.exit(0)\ndef f(x): pass",
      "import os\nos._exit(0)",
      "def f(x):\n    import os\n    os._exit(0)",
      "def f(x): raise SystemExit(0)",
      "class E:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n"
      "def f(x): return E()",
      "class E(int):\n    def __eq__(self, o): return True\ndef f(x): return E(0)",
      "class E(list):\n    def __eq__(self, o): return True\ndef f(x): return [E()]",
      "import builtins\nbuiltins.AssertionError = SystemExit\nbuiltins.all = lambda x: True\ndef "
      "f(x): pass",
      "def all(x): return True\ndef assert_equal(*a): pass\n_cohort_equal = assert_equal\ndef "
      "f(x): pass",
      "import sys\nfor m in list(sys.modules.values()):\n    for n in list(vars(m)):\n        "
      "pass\n"
      "def f(x):\n    frame = sys._getframe()\n    while frame: frame.f_locals.clear(); frame = "
      "frame.f_back\n",
      "import gc\ndef f(x):\n    for o in gc.get_objects():\n        if isinstance(o, dict) and "
      "'expected' in "
      "o: return o['expected']",
      "import __main__\n__main__.encode = lambda x, depth=0: '4'\ndef f(x): return "
      "__main__.send(b'V', b'x')",
      "import __main__\ndef f(x):\n    for i in range(4): __main__.send(b'K', b'1', b'')\n    "
      "__main__.send(b'Z')",
      "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\x06\\0\\0\\0K\\x01\\0\\0\\0' "
      "+ b'1')\n"
      "    except OSError: pass\ndef f(x): pass",
      "import os\nfor p in ('/proc/1/fd/1', '/proc/self/fd/1', '/proc/1/mem'):\n    try: open(p, "
      "'wb').write(b'pass')\n"
      "    except OSError: pass\ndef f(x): pass",
      "import unittest, atexit\nunittest.TestCase.assertEqual = lambda *a: None\n"
      "import os\natexit.register(os._exit, 0)\ndef f(x): pass",
      "import threading, os\nthreading.Timer(0.01, os._exit, (0,)).start()\ndef f(x):\n    while "
      "1: pass",
      "import sys\nsys.setprofile(lambda *a: None)\nsys.settrace(lambda *a: "
      "None)\nsys.modules['pytest'] = None\n"
      "def f(x): return NotImplemented",
      "def test_case(): pass\ncheck = test_case\ndef f(x): return None",
      "raise SystemExit",
  };
  reward_ = make(R"({"case_timeout_s": 1})");
  std::vector<RewardRow> rows;
  for (const char* code : answers)
    for (const Json& columns :
         {k_assert,
          tests_of({"def test_case():\n    assert f(2) == 4\n    assert all([f(3) == 9])"}),
          Json{{"case_type", "check_based"},
               {"entry_point", "f"},
               {"test_cases", {"def check(c):\n    assert c(2) == 4"}}},
          Json{{"fn_name", "f"}, {"test_cases", {{{"stdin", "2"}, {"expected_stdout", "4"}}}}},
          Json{{"test_cases", {{{"stdin", "2"}, {"expected_stdout", "4"}}}}}})
      rows.push_back(row_of(code, columns));
  std::vector<RewardResult> results = reward_->score(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(results[i].score, 0) << rows[i].response << rows[i].columns;
    EXPECT_EQ(results[i].error, "") << rows[i].response << rows[i].columns;
    EXPECT_NE(results[i].detail, "") << rows[i].response << rows[i].columns;
  }
}

TEST_P(CodeReward, NoAnswerMeetsAnother) {
  expect_fail(
      row_of("open('/tmp/left', 'w').write('3'); open('/dev/shm/left', 'w').write('3')", k_add),
      "in case 1");
  if (GetParam() == SandboxMode::rlimits) return;  // no isolation there
  expect_fail(row_of("import os\nprint(3 if os.path.exists('/tmp/left') or "
                     "os.path.exists('/dev/shm/left') else 'no')",
                     k_add),
              "expected '3', got 'no'");
}

TEST_P(CodeReward, GivesAShareIfAsked) {
  reward_ = make(R"({"score": "share"})");
  RewardResult result = score(row_of("print(3)", k_add));
  EXPECT_EQ(result.score, 0.5);
  EXPECT_EQ(result.parts,
            (std::vector<std::pair<std::string, double>>{{"passed", 1}, {"cases", 2}}));
  EXPECT_NE(result.detail.find("case 2"), std::string::npos);
  result = score(row_of("def f(x): return 9", k_assert));
  EXPECT_EQ(result.score, 0.5) << result.detail;
}

TEST_P(CodeReward, RowsAreScoredInOrderAndBadOnesAlone) {
  std::vector<RewardRow> rows;
  for (int i = 0; i < 6; ++i)
    rows.push_back(row_of("print(" + std::to_string(i) + ")",
                          {{"test_cases", {{{"stdin", ""}, {"expected_stdout", "3"}}}}}));
  rows[1].columns = "{}";
  std::vector<RewardResult> results = reward_->score(rows);
  ASSERT_EQ(results.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(results[i].score, i == 3 ? 1 : 0) << i;
  EXPECT_NE(results[1].error.find("no test cases"), std::string::npos) << results[1].error;
}

TEST_P(CodeReward, StopEndsWhatIsUnderWay) {
  reward_ = make(R"({"case_timeout_s": 20})");
  RewardResult result;
  std::thread caller(
      [&] { result = score(row_of("import time; time.sleep(100)  # cohort-stop", k_add)); });
  // The answer comes to its sandbox through a pipe: what is seen from here is the sandbox.
  EXPECT_TRUE(test::wait_until([] { return test::descendants() >= 2; }, 10000));
  auto before = std::chrono::steady_clock::now();
  reward_->stop();
  caller.join();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(3));
  EXPECT_NE(result.error.find("stopped"), std::string::npos) << result.error << result.detail;
  EXPECT_NE(score(row_of("print(1)", k_add)).error.find("stopped"), std::string::npos);
}

TEST_P(CodeReward, LeavesNothingBehind) {
  auto count = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  auto descriptors = count("/proc/self/fd");
  size_t folders = private_folders();
  std::vector<RewardRow> rows;
  for (int i = 0; i < 25; ++i) {
    rows.push_back(row_of("print(eval(input().replace(' ', '+')))", k_add));
    rows.push_back(
        row_of("import os, time\nif os.fork() == 0: time.sleep(3600)\nopen('x', 'w')", k_add));
    rows.push_back(row_of("def f(x): return x * x", k_assert));
    rows.push_back(row_of("import os\nos._exit(0)", k_assert));
  }
  for (int repeat = 0; repeat < (GetParam() == SandboxMode::rlimits ? 1 : 2); ++repeat) {
    std::vector<RewardResult> results = reward_->score(rows);
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(results[i].score, i % 2 == 0 ? 1 : 0) << i << results[i].detail << results[i].error;
  }
  reward_.reset();
  EXPECT_EQ(count("/proc/self/fd"), descriptors);
  EXPECT_TRUE(test::wait_until([] { return test::descendants() == 0; }, 5000));
  EXPECT_EQ(private_folders(), folders);
}

INSTANTIATE_TEST_SUITE_P(Modes, CodeReward,
                         testing::Values(SandboxMode::bubblewrap, SandboxMode::rlimits),
                         [](const auto& x) {
                           return x.param == SandboxMode::rlimits ? "Rlimits" : "Bubblewrap";
                         });

TEST(CodeRewardConfig, SaysWhatIsWrong) {
  auto error_of = [](const char* config) {
    auto reward = make_code_reward(config, {});
    EXPECT_FALSE(reward);
    return reward ? "" : reward.error().to_string();
  };
  EXPECT_NE(error_of("[").find("no JSON object"), std::string::npos);
  EXPECT_NE(error_of(R"({"langauge": "cpp"})").find("unknown option 'langauge'"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"language": "rust"})").find("none of auto, python, cpp"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"case_timeout_s": 0})").find("case_timeout_s: must be above 0 seconds"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort::plugin
