// Worlds of GEM in their children, played against a stand-in of the package that the test writes:
// the test asks for the five-tuple, chance, rows of local files and tools, and reads what the child
// says when a part lacks.
#include <gtest/gtest.h>

#include <set>

#include "runtime/plugin/child/gem_spec.hpp"
#include "runtime/plugin/child/plugin_environment.hpp"
#include "tests/support/plugin_rig.hpp"

namespace cohort::test {
namespace {

using plugin::EnvironmentSource;
using plugin::GemWorld;
using plugin::PluginSpec;

/// Draws the number at reset and a hint at each step, from the chance of the whole process; counts
/// episodes in a list that copies would share.
constexpr const char* k_registry = R"(import random

class Guess:
    def __init__(self, min_number=1, max_number=9, max_turns=3, **_):
        self.low, self.high, self.max_turns, self.episodes = min_number, max_number, max_turns, []
    def reset(self, seed=None):
        random.seed(seed)
        self.episodes.append(seed)
        self.turn, self.number = 0, random.randint(self.low, self.high)
        shown = (self.number, self.high, len(self.episodes))
        return "number %d of %d, episode %d" % shown, {"suffix": "Guess."}
    def step(self, action):
        self.turn += 1
        if action == "\\boxed{%d}" % self.number:
            return "right", 1.0, True, False, {}
        out = self.turn >= self.max_turns
        return "draw %d" % random.randint(0, 10**9), -0.1, False, out, {"suffix": "Again."}

class Spec:
    def __init__(self, entry_point, **kwargs):
        self.entry_point, self.kwargs = entry_point, kwargs

ENV_REGISTRY = {"game:Guess-v0-easy": Spec("gem.envs.registration:Guess", max_number=5),
                "math:Far": Spec("gem.envs.math_env:MathEnv", dataset_name="axon-rl/far")}

def make(env_id, **kwargs):
    import importlib
    module, name = ENV_REGISTRY[env_id].entry_point.split(":")
    cls = getattr(importlib.import_module(module), name)
    return cls(**{**ENV_REGISTRY[env_id].kwargs, **kwargs})
)";

constexpr const char* k_math = R"(import random
from datasets import Dataset, DatasetDict, load_dataset

class MathEnv:
    def __init__(self, dataset_name="", split=None, dataset=None, question_key="problem",
                 answer_key="answer", seed=0, use_mp=True, **_):
        assert isinstance(dataset, Dataset) and not isinstance(dataset, DatasetDict) and not use_mp
        self.question_key, self.answer_key = question_key, answer_key
        self.dataset = dataset.shuffle(seed=seed)
    def reset(self, seed=None):
        random.seed(seed)
        row = self.dataset[random.randint(0, len(self.dataset) - 1)]
        self.answer = row[self.answer_key]
        return row[self.question_key], {}
    def step(self, action):
        right = action == "\\boxed{%s}" % self.answer
        return "over", float(right), True, True, {"correct": right}
)";

constexpr const char* k_wrapper = R"(class ToolEnvWrapper:
    def __init__(self, env, tools, tool_reward=0, tool_success_reward=0, max_tool_uses=10):
        self.env, self.tools, self.reward, self.uses = env, tools, tool_success_reward, 0
    def reset(self, seed=None):
        observation, info = self.env.reset(seed=seed)
        return observation, dict(info, tool_use_counter=0, tool_success_counter=0)
    def step(self, action):
        parsed, failed, said, _ = self.tools[0].execute_action(action)
        if not parsed:
            found = self.env.step(action)
        else:
            self.uses += 1
            found = said, self.reward, False, False, {}
        found[-1].update(tool_use_counter=self.uses, tool_success_counter=self.uses)
        return found
)";

constexpr const char* k_python_tool = R"(from gem.utils import sandbox

class PythonCodeTool:
    def __init__(self, timeout=5, sandbox_type="none"):
        assert sandbox_type == "none"
    def execute_action(self, action):
        if not action.startswith("<python>"):
            return False, True, "", action
        return True, False, sandbox.subprocess_run(action[8:], ["python"], "none", None), action
)";

constexpr const char* k_search_tool = R"(class SearchTool:
    def __init__(self, search_url=None, topk=3):
        self.said = "%s, %d" % (search_url, topk)
    def execute_action(self, action):
        return action.startswith("<search>"), False, self.said, action
)";

constexpr const char* k_sandbox = R"(import os, subprocess

def subprocess_run(code, command, kind, stdin=None, timeout=10):
    open("scratch", "w").close()  # the working folder can be written
    done = subprocess.run(command + ["-c", code], capture_output=True, timeout=timeout, text=True)
    return "%ss: %s" % (timeout, done.stdout.strip())
)";

/// A folder with a virtual environment's interpreter and, if asked, the stand-in.
class GemVenv {
 public:
  explicit GemVenv(bool has_package = true) {
    namespace fs = std::filesystem;
    fs::create_directories(folder_.path("bin"));
    for (const char* name : {"bin/python3", "bin/python"})
      fs::create_symlink("/usr/bin/python3", folder_.path(name));
    folder_.write("pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
    std::error_code error;
    const std::string version = fs::canonical("/usr/bin/python3", error).filename().string();
    site_ = "lib/" + version + "/site-packages/";
    fs::create_directories(folder_.path(site_ + "gem/envs"));
    fs::create_directories(folder_.path(site_ + "gem/tools"));
    fs::create_directories(folder_.path(site_ + "gem/utils"));
    if (!has_package) {
      fs::remove_all(folder_.path(site_ + "gem"));
      return;
    }
    for (const char* package : {"envs/", "tools/", "utils/"})
      write(std::string(package) + "__init__.py", "");
    write("__init__.py", "from gem.envs.registration import make\n");
    write("envs/registration.py", k_registry);
    write("envs/math_env.py", k_math);
    write("tools/tool_env_wrapper.py", k_wrapper);
    write("tools/python_code_tool.py", k_python_tool);
    write("tools/search_tool.py", k_search_tool);
    write("utils/sandbox.py", k_sandbox);
  }
  void write(const std::string& name, const std::string& text) const {
    folder_.write(site_ + "gem/" + name, text);
  }
  std::string python() const { return folder_.path("bin/python3"); }

 private:
  PluginFolder folder_;
  std::string site_;
};

PluginSpec spec_of(const GemVenv& venv, const GemWorld& world) {
  PluginSpec spec;
  spec.mode = sandbox_mode();
  spec.python = venv.python();
  auto filled = plugin::fill_gem_spec(world, spec);
  EXPECT_TRUE(filled.has_value()) << (filled ? "" : filled.error().to_string());
  return spec;
}

std::shared_ptr<EnvironmentSource> source_of(const GemVenv& venv, const GemWorld& world) {
  auto source = plugin::open_environment(spec_of(venv, world));
  EXPECT_TRUE(source.has_value()) << (source ? "" : source.error().to_string());
  return source ? *source : nullptr;
}

std::string refusal_of(const GemVenv& venv, const GemWorld& world) {
  auto source = plugin::open_environment(spec_of(venv, world));
  EXPECT_FALSE(source.has_value());
  return source ? "" : source.error().detail;
}

const GemWorld k_guess{"game:Guess-v0", R"({"max_number": 7, "max_turns": 2})"};

TEST(GemWorlds, AreMadeAndPlayedByTheirFiveTuple) {
  GemVenv venv;
  auto source = source_of(venv, k_guess);
  ASSERT_TRUE(source);
  auto world = source->make();
  const std::string seen = world->reset(5);
  EXPECT_TRUE(seen.ends_with(" of 7, episode 1\nGuess.")) << seen;  // the config's, and the suffix
  EXPECT_EQ(world->instructions(), "");
  auto wrong = world->step("no");
  EXPECT_FLOAT_EQ(wrong.reward, -0.1F);
  EXPECT_FALSE(wrong.is_done);
  EXPECT_TRUE(wrong.observation.ends_with("\nAgain.")) << wrong.observation;
  auto last = world->step("no");
  EXPECT_TRUE(last.is_done) << "truncated";
  EXPECT_EQ(last.stop_reason, "max_turns");
  EXPECT_FALSE(last.is_success);
  const std::string again = world->reset(5);
  EXPECT_EQ(again, seen);
  auto right = world->step("\\boxed{" + again.substr(7, 1) + "}");
  EXPECT_TRUE(right.is_done && right.is_success);
  EXPECT_EQ(right.stop_reason, "goal");
  EXPECT_FLOAT_EQ(right.reward, 1);
}

TEST(GemWorlds, ChanceIsThatOfTheSeedWhoeverPlaysBesideIt) {  // TASK-1
  GemVenv venv;
  auto source = source_of(venv, k_guess);
  ASSERT_TRUE(source);
  const uint64_t seed = (uint64_t{1} << 40) + 3;  // beyond what numpy takes
  auto alone = source->make();
  const std::string first = alone->reset(seed), hint = alone->step("no").observation;
  auto one = source_of(venv, k_guess)->make(), other = source->make(), third = source->make();
  EXPECT_EQ(one->reset(seed), first) << "another process";
  EXPECT_EQ(one->step("no").observation, hint);
  EXPECT_EQ(other->reset(seed), first);
  third->reset(9);
  third->step("no");
  alone->reset(10);
  alone->step("no");
  EXPECT_EQ(other->step("no").observation, hint);
}

TEST(GemWorlds, APackageThatLacksIsNamedWithItsRemedy) {
  GemVenv venv(false);
  EXPECT_EQ(refusal_of(venv, k_guess),
            "game:Guess-v0 is a world of the package gem-llm, and " + venv.python() +
                " has none (No module named 'gem'): make a virtual environment, pip install "
                "gem-llm in it, and give env_config.python: /that/venv/bin/python3");
}

TEST(GemWorlds, AWorldThatThePackageLacksIsNamed) {
  GemVenv venv;
  EXPECT_EQ(refusal_of(venv, {"game:Chess-v0"}),
            "game:Chess-v0 (" + venv.python() +
                "): its gem-llm has no such world; there is: game:Guess-v0-easy");
  venv.write("envs/math_env.py", "import pylatexenc\n");
  PluginFolder folder;
  const std::string rows = folder.write("rows.jsonl", "{}\n");
  const std::string why = refusal_of(venv, {"roll_math", R"({"dataset_name": ")" + rows + "\"}"});
  EXPECT_NE(why.find("No module named 'pylatexenc'"), std::string::npos) << why;
  EXPECT_NE(why.find(venv.python() + " -m pip install it"), std::string::npos) << why;
}

constexpr const char* k_rows = R"({"problem": "1 + 1?", "answer": "2"}
{"problem": "1 + 2?", "answer": "3"}
{"problem": "2 + 2?", "answer": "4"}
)";

TEST(GemRows, TheSeedDrawsTheRowOfALocalFileOrFolder) {
  GemVenv venv;
  PluginFolder folder;
  const std::string file = folder.write("train.jsonl", k_rows);
  folder.write("test.jsonl", R"({"problem": "held out", "answer": "0"})");
  for (const std::string& config :
       {R"({"dataset_name": ")" + file + "\"}",
        R"({"dataset_name": ")" + folder.path("") + R"(", "split": "train"})"}) {
    auto source = source_of(venv, {"roll_math", config});
    ASSERT_TRUE(source);
    std::set<std::string> seen;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      auto world = source->make(), same = source->make();
      const std::string problem = world->reset(seed);
      EXPECT_EQ(same->reset(seed), problem);
      seen.insert(problem);
      const int answer = (problem[0] - '0') + (problem[4] - '0');
      auto step = world->step("\\boxed{" + std::to_string(answer) + "}");
      EXPECT_TRUE(step.is_done && step.is_success) << problem;
      EXPECT_EQ(same->step("I do not know").stop_reason, "done");
    }
    EXPECT_EQ(seen, (std::set<std::string>{"1 + 1?", "1 + 2?", "2 + 2?"}));
  }
}

TEST(GemRows, WhatIsNotHereIsNotSearchedInANetwork) {
  GemVenv venv;
  for (const GemWorld& world :
       {GemWorld{"roll_math", R"({"dataset_name": "axon-rl/far"})"}, GemWorld{"math:Far"}}) {
    const std::string why = refusal_of(venv, world);
    EXPECT_NE(why.find("dataset_name axon-rl/far: no such file or folder, and a world has no "
                       "network"),
              std::string::npos)
        << why;
  }
  EXPECT_NE(refusal_of(venv, {"roll_math"}).find("needs env_config.dataset_name"),
            std::string::npos);
  PluginFolder folder;
  const std::string rows = folder.write("rows.jsonl", k_rows);
  const std::string why = refusal_of(
      venv, {"roll_math", R"({"question_key": "prompt", "dataset_name": ")" + rows + "\"}"});
  EXPECT_NE(why.find("question_key: rows have no column 'prompt' (they have: problem, answer)"),
            std::string::npos)
      << why;
}

TEST(GemTools, APythonProgramRunsInTheChildAndItsTimeIsTheTools) {
  GemVenv venv;
  GemWorld world = k_guess;
  world.tool_wrapper = R"({"wrapper_args": {"tool_success_reward": 0.25},
      "tool_configs": [{"tool_id": "python_code",
                        "tool_args": {"timeout": 3, "sandbox_type": "none"}}]})";
  EXPECT_DOUBLE_EQ(spec_of(venv, world).timeout_s, 10 + 2 * 3);
  auto source = source_of(venv, world);
  ASSERT_TRUE(source);
  auto game = source->make();
  game->reset(1);
  auto step = game->step("<python>print(6 * 7)");
  EXPECT_EQ(step.observation, "3s: 42");
  EXPECT_FLOAT_EQ(step.reward, 0.25);
  EXPECT_FALSE(step.is_done);
  EXPECT_EQ(game->metrics(), (tasks::EpisodeMetrics{{"tool_uses", 1}, {"tool_successes", 1}}));
  EXPECT_FLOAT_EQ(game->step("no").reward, -0.1F);
  world.tool_wrapper = R"({"tool_configs": [{"tool_id": "search"}, {"tool_id": "python_code"}]})";
  EXPECT_NE(refusal_of(venv, world).find("tool_wrapper: search asks a server; use python_code"),
            std::string::npos);
}

TEST(GemTools, ASearchHasANetworkWhereNoProgramsRun) {
  GemVenv venv;
  GemWorld world = k_guess;
  world.tool_wrapper = R"({"tool_configs": [
      {"tool_id": "search", "tool_args": {"search_url": "http://127.0.0.1:9/x", "topk": 2}}]})";
  const PluginSpec spec = spec_of(venv, world);
  EXPECT_TRUE(spec.has_network);
  auto source = plugin::open_environment(spec);
  ASSERT_TRUE(source) << source.error().detail;
  auto game = (*source)->make();
  game->reset(1);
  EXPECT_EQ(game->step("<search>who").observation, "http://127.0.0.1:9/x, 2");
}

}  // namespace
}  // namespace cohort::test
