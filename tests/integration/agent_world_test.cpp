// Agents and worlds that write their dialogues: a program of the user's asks a server in its own
// sandbox, and what it asks is the observation; worlds of packages that register with GEM, and
// runners of ROLL's, against stand-ins that the test writes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/plugin/child/gem_spec.hpp"
#include "runtime/plugin/child/plugin_environment.hpp"
#include "tests/support/plugin_rig.hpp"

namespace cohort::test {
namespace {

using plugin::EnvironmentSource;
using plugin::GemWorld;
using plugin::PluginSpec;
using Json = nlohmann::ordered_json;

PluginSpec agent_spec(const std::string& agent) {
  PluginSpec spec = spec_of(agent);
  spec.is_dialogue = true;
  spec.has_network = spec.mode == plugin::SandboxMode::rlimits;  // no loopback of its own there
  return spec;
}

std::shared_ptr<EnvironmentSource> opened(const PluginSpec& spec) {
  auto source = plugin::open_environment(spec);
  EXPECT_TRUE(source.has_value()) << (source ? "" : source.error().to_string());
  return source ? *source : nullptr;
}

std::string refusal_of(const PluginSpec& spec) {
  auto source = plugin::open_environment(spec);
  EXPECT_FALSE(source.has_value());
  return source ? "" : source.error().detail;
}

/// Says what the last message of a dialogue says.
std::string last_of(const std::string& dialogue) {
  const Json told = Json::parse(dialogue, nullptr, false);
  return told.is_object() ? told["messages"].back().value("content", "?") : dialogue;
}

/// An agent with the example's way to ask; `body` is that of run(self, seed, base_url).
std::string agent_text(const std::string& body) {
  std::string text = R"(import json, time, urllib.error, urllib.request

def post(base_url, body):
    request = urllib.request.Request(base_url + "/chat/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

def ask(base_url, text, **more):
    status, said = post(base_url, {"messages": [{"role": "user", "content": text}], **more})
    return json.loads(said)["choices"][0] if status == 200 else said

class Agent:
    def run(self, seed, base_url):
)";
  return text + body;
}

TEST(Agents, WhatTheyAskIsTheObservationAndThePolicyAnswers) {
  PluginSpec spec = agent_spec(example("guess_agent.py"));
  spec.config = R"({"limit": 9})";
  auto source = opened(spec);
  ASSERT_TRUE(source);
  auto world = source->make(), other = source->make();
  const std::string first = world->reset(4);
  EXPECT_EQ(first, R"({"messages": [{"role": "user", "content": "Guess a number from 1 to 9."}]})");
  EXPECT_EQ(other->reset(4), first) << "two agents at once in one child";
  int low = 1, high = 9;
  tasks::StepResult step;
  for (int guesses = 1; !step.is_done; ++guesses) {
    ASSERT_LE(guesses, 4);
    const int guess = (low + high) / 2;
    step = world->step("My guess: " + std::to_string(guess));
    EXPECT_FLOAT_EQ(step.reward, step.is_done ? 1 : 0);
    if (step.is_done) {
      EXPECT_EQ(world->metrics(), (tasks::EpisodeMetrics{{"guesses", guesses}}));
      break;
    }
    const Json told = Json::parse(step.observation);
    EXPECT_EQ(told["messages"].size(), 1 + 2U * guesses) << "the agent's own dialogue";
    EXPECT_EQ(told["messages"][2U * guesses - 1]["content"], "My guess: " + std::to_string(guess));
    if (last_of(step.observation) == "Higher.")
      low = guess + 1;
    else
      high = guess - 1;
  }
  EXPECT_TRUE(step.is_success);
  EXPECT_EQ(step.stop_reason, "goal");
  EXPECT_EQ(last_of(other->step("nothing").observation), "Higher.") << "nobody disturbed it";
  EXPECT_EQ(world->reset(4), first) << "the next episode";
}

TEST(Agents, CallsOfToolsAndStreamsHaveOpenAisForm) {
  PluginFolder folder;
  auto source = opened(agent_spec(folder.write("caller.py", agent_text(R"(
        tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
        one = ask(base_url, "add", tools=tools)
        assert one["finish_reason"] == "tool_calls", one
        call = one["message"]["tool_calls"][0]
        two = ask(base_url, call["function"]["name"] + call["function"]["arguments"])
        assert two["finish_reason"] == "stop", two
        status, said = post(base_url, {"stream": True,
                                       "messages": [{"role": "user", "content": "stream"}]})
        assert said.endswith("data: [DONE]\n\n"), said
        chunk = json.loads(said.split("\n\n")[0][len("data: "):])
        assert '"usage"' not in said, said
        three = ask(base_url, chunk["choices"][0]["delta"]["content"])
        assert three["finish_reason"] == "length", three
        more = {"stream": True, "stream_options": {"include_usage": True}}
        status, said = post(base_url, {"messages": [{"role": "user", "content": "count"}], **more})
        usage = json.loads(said.split("\n\n")[2][len("data: "):])["usage"]
        assert usage == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}, usage
        return 0.5, {"metrics": {"turns": 4}}
)"))));
  ASSERT_TRUE(source);
  auto world = source->make();
  const Json told = Json::parse(world->reset(1));
  EXPECT_EQ(told["tools"][0]["function"]["name"], "add");
  const std::string call = R"(So: <tool_call>
{"name": "add", "arguments": {"a": 1}}
</tool_call>)";
  EXPECT_EQ(last_of(world->step(call).observation), R"(add{"a": 1})");
  EXPECT_EQ(last_of(world->step("two").observation), "stream");
  EXPECT_EQ(last_of(world->step("three").observation), "three");
  tasks::PolicyAnswer cut("four");
  cut.is_cut = true;
  EXPECT_EQ(last_of(world->step(cut).observation), "count");
  tasks::PolicyAnswer counted("five");
  counted.prompt_tokens = 7;
  counted.tokens = 2;
  const tasks::StepResult end = world->step(counted);
  EXPECT_TRUE(end.is_done);
  EXPECT_FALSE(end.is_success);
  EXPECT_FLOAT_EQ(end.reward, 0.5);
  EXPECT_EQ(end.stop_reason, "done");
  EXPECT_EQ(world->metrics(), (tasks::EpisodeMetrics{{"turns", 4}}));
}

TEST(Agents, WhatBreaksCostsOneEpisode) {
  PluginFolder folder;
  PluginSpec spec = agent_spec(folder.write("broken.py", agent_text(R"(
        if seed == 1: return 1
        if seed == 2: raise ValueError("no route to the moon")
        if seed == 3: return ask(base_url, "hi") and time.sleep(60)
        if seed == 4:
            bad = [post(base_url, body)[0] for body in
                   ({}, {"messages": []}, {"messages": [{"role": "king"}]},
                    {"messages": [{"role": "user", "content": "a"}], "n": 2})]
            gone = base_url.rsplit("/", 2)[0] + "/777/v1"
            bad.append(post(gone, {"messages": [{"role": "user", "content": "a"}]})[0])
            return float(ask(base_url, str(bad)) is not None)
        return ask(base_url, "well")["message"]["content"]
)")));
  spec.timeout_s = 4;
  auto source = opened(spec);
  ASSERT_TRUE(source);
  auto healthy = source->make();
  healthy->reset(0);
  for (const auto& [seed, why] : {std::pair{1, "the agent ended without a question"},
                                  std::pair{2, "ValueError: no route to the moon (broken.py:"}}) {
    auto world = source->make();
    EXPECT_EQ(world->reset(seed), "") << why;
    const tasks::StepResult step = world->step("x");
    EXPECT_TRUE(step.is_done);
    EXPECT_NE(step.stop_reason.find(why), std::string::npos) << step.stop_reason;
  }
  auto late = source->make();
  late->reset(3);
  const tasks::StepResult step = late->step("x");
  EXPECT_NE(step.stop_reason.find("neither asked nor ended for 3.6 s"), std::string::npos)
      << step.stop_reason;
  auto wrong = source->make();
  EXPECT_EQ(last_of(wrong->reset(4)), "[400, 400, 400, 400, 410]");
  const tasks::StepResult text = healthy->step("a text is no reward");
  EXPECT_NE(text.stop_reason.find("not a number"), std::string::npos) << text.stop_reason;
}

// An episode that nobody goes on with is told so: its agent's request ends.
TEST(Agents, AnEpisodeThatIsLeftAnswersItsAgentWithGone) {
  PluginFolder folder;
  auto source = opened(agent_spec(folder.write("left.py", agent_text(R"(
        if seed == 1:
            Agent.said = post(base_url, {"messages": [{"role": "user", "content": "x"}]})
            return 0
        while not hasattr(Agent, "said"): time.sleep(0.01)
        return ask(base_url, str(Agent.said[0])) and 1
)"))));
  ASSERT_TRUE(source);
  source->make()->reset(1);  // and goes
  auto next = source->make();
  EXPECT_EQ(last_of(next->reset(2)), "410");
}

TEST(Agents, OneThatIsNoDialogueIsToldTheKey) {
  PluginSpec spec = agent_spec(example("guess_agent.py"));
  spec.is_dialogue = false;
  const std::string why = refusal_of(spec);
  EXPECT_NE(why.find("env_manager_cls: ProxyEnvManager"), std::string::npos) << why;
}

TEST(Agents, TheirLoopbackIsTheirOwn) {
  if (sandbox_mode() != plugin::SandboxMode::bubblewrap) GTEST_SKIP() << "no namespaces here";
  PluginFolder folder;
  auto source = opened(agent_spec(folder.write("out.py", agent_text(R"(
        import socket
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=1)
            said = "out"
        except OSError as error:
            said = error.strerror
        ask(base_url, said)
)"))));
  ASSERT_TRUE(source);
  EXPECT_EQ(last_of(source->make()->reset(1)), "Network is unreachable");
}

// A world that gives messages, as ROLL's native ones do.
TEST(Dialogues, AWorldMayWriteThemItself) {
  PluginFolder folder;
  PluginSpec spec = agent_spec(folder.write("native.py", R"(class World:
    def reset(self, seed):
        tools = [{"type": "function", "function": {"name": "look"}}]
        asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        return asked, {"tools": tools}
    def step(self, answer):
        return [{"role": "user", "content": answer}], 1.0, answer == "end", {}
)"));
  auto world = opened(spec)->make();
  EXPECT_EQ(Json::parse(world->reset(1))["tools"][0]["function"]["name"], "look");
  EXPECT_EQ(last_of(world->step("on").observation), "on");
  EXPECT_EQ(world->step("end").observation, "");
  spec.is_dialogue = false;
  auto plain = opened(spec)->make();
  plain->reset(1);
  EXPECT_NE(plain->step("on").stop_reason.find("env_manager_cls AgentNativeStepEnvManager"),
            std::string::npos);
}

/// GEM with a registry, and a package beside it that registers worlds when it is imported.
class Packages {
 public:
  Packages() {
    folder_.write("gem.py", R"(import importlib
KNOWN = {}
def register(env_id, entry_point): KNOWN[env_id] = entry_point
def make(env_id, **kwargs):
    module, name = KNOWN[env_id].split(":")
    return getattr(importlib.import_module(module), name)(**kwargs)
)");
    folder_.write("mine.py", R"(import gem, random
gem.register("shop", entry_point="mine:Shop")
gem.register("native", entry_point="mine:Native")

class Shop:
    made = 0
    def __init__(self, goods=1):
        Shop.made += 1
        self.goods = goods
    def reset(self, seed=None):
        random.seed(seed)
        self.price, self.turns = random.randint(1, 10**6), 0
        return "%d goods, price %d, made %d" % (self.goods, self.price, Shop.made), {
            "env_instruction": "Buy.", "suffix": "[buy]"}
    def step(self, action):
        self.turns += 1
        metrics = {"success": action == "buy", "action_is_valid": action != "fly", "word": "x"}
        return "sold", 0.5, action == "buy", self.turns == 2, {"metrics": metrics}

class Native:
    env_reset_failed = False
    def reset(self, seed=None):
        if seed == 7:
            self.env_reset_failed = True
            return [], {"failure_mode": "the sandbox did not start"}
        return [{"role": "user", "content": "go"}], {"tools": [{"type": "function"}]}
    def step(self, action):
        return [{"role": "user", "content": action}], 1, False, False, {}
)");
    folder_.write("runners.py", R"(import json, urllib.request

class Result:
    def __init__(self, score, status): self.score, self.status = score, status
    def to_dict(self): return {"status": self.status, "score": self.score,
                               "metrics": {"pass_rate": self.score / 2, "asked": 1}}

class Runner:
    made = 0
    def __init__(self, base_url, env_id, env_config, **kwargs):
        Runner.made += 1
        self.base_url, self.env_id, self.env_config = base_url, env_id, env_config
    def run_job(self, seed):
        if seed == 3: return Result(0, "NoData")
        text = "%s %s, %d steps, runner %d" % (self.env_config["env_type"],
            self.env_config.get("config", {}).get("dataset_name"), self.env_config["max_steps"],
            Runner.made)
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        request = urllib.request.Request(self.base_url + "/v1/chat/completions", body,
                                         {"Authorization": "Bearer %s" % self.env_id})
        with urllib.request.urlopen(request) as answer:
            said = json.load(answer)["choices"][0]["message"]["content"]
        return Result(float(len(said)), "Finished")
)");
  }
  PluginSpec spec(GemWorld world, bool is_dialogue) const {
    PluginSpec spec = agent_spec("");
    spec.is_dialogue = is_dialogue;
    world.pythonpath = {folder_.path("")};
    auto filled = plugin::fill_gem_spec(world, spec);
    EXPECT_TRUE(filled.has_value()) << (filled ? "" : filled.error().to_string());
    return spec;
  }

 private:
  PluginFolder folder_;
};

TEST(PackageWorlds, AreMadeByGemAndPlayOneEpisodeAfterTheOther) {
  Packages packages;
  auto source = opened(packages.spec(
      {.env_id = "shop", .env_config = R"({"goods": 3})", .modules = {"mine"}}, false));
  ASSERT_TRUE(source);
  auto world = source->make();
  const std::string seen = world->reset(5);
  EXPECT_TRUE(seen.starts_with("3 goods, price ") && seen.ends_with(", made 1\n[buy]")) << seen;
  EXPECT_EQ(world->instructions(), "Buy.");
  const tasks::StepResult flown = world->step("fly");
  EXPECT_FALSE(flown.is_valid);
  EXPECT_FALSE(flown.is_done);
  const tasks::StepResult bought = world->step("buy");
  EXPECT_TRUE(bought.is_success);
  EXPECT_EQ(bought.stop_reason, "goal");
  EXPECT_EQ(world->metrics(), (tasks::EpisodeMetrics{{"success", 1}, {"action_is_valid", 1}}));
  EXPECT_EQ(world->reset(5), seen) << "the same object, whose episode is over";
  EXPECT_NE(source->make()->reset(5).find("made 2"), std::string::npos) << "one more at once";
}

TEST(PackageWorlds, WriteDialoguesWhereTheirManagerSaysSo) {
  Packages packages;
  auto source = opened(packages.spec({.env_id = "native", .modules = {"mine"}}, true));
  ASSERT_TRUE(source);
  auto world = source->make();
  EXPECT_EQ(
      world->reset(1),
      R"({"messages": [{"role": "user", "content": "go"}], "tools": [{"type": "function"}]})");
  EXPECT_EQ(last_of(world->step("on").observation), "on");
  world->reset(7);
  EXPECT_NE(world->step("x").stop_reason.find("its reset failed (the sandbox did not start)"),
            std::string::npos);
}

TEST(PackageWorlds, WhatLacksIsNamed) {
  Packages packages;
  const std::string why =
      refusal_of(packages.spec({.env_id = "shop", .modules = {"roll.x"}}, false));
  EXPECT_NE(why.find("module roll.x: No module named 'roll'"), std::string::npos) << why;
  EXPECT_NE(why.find("env_config.pythonpath"), std::string::npos) << why;
  const std::string unknown =
      refusal_of(packages.spec({.env_id = "shopp", .modules = {"mine"}}, false));
  EXPECT_NE(unknown.find("KeyError: 'shopp'"), std::string::npos) << unknown;
  PluginSpec spec;
  EXPECT_EQ(plugin::fill_gem_spec({.env_id = "a", .pythonpath = {"/no/such"}}, spec).error().detail,
            "pythonpath: no folder '/no/such'");
}

TEST(PackageWorlds, AStepMayTakeAsLongAsTheProgramsInIt) {
  PluginSpec spec;
  const double bare = spec.timeout_s;
  const GemWorld world{
      .env_id = "shop",
      .tool_wrapper =
          R"({"tool_configs": [{"tool_id": "python_code", "tool_args": {"timeout": 3}}]})",
      .modules = {"mine"}};
  ASSERT_TRUE(plugin::fill_gem_spec(world, spec));
  EXPECT_DOUBLE_EQ(spec.timeout_s, bare + 2 * 3) << "GEM may run a program twice";
}

TEST(AgentRunners, AskTheServerAndGiveTheirScore) {
  Packages packages;
  const GemWorld world{.env_id = "rocknative",
                       .env_config = R"({"dataset_name": "x.jsonl"})",
                       .agent_runner = "runners.Runner",
                       .entry = R"({"env_type": "rocknative", "max_steps": 4})"};
  auto source = opened(packages.spec(world, true));
  ASSERT_TRUE(source);
  auto game = source->make();
  for (int episode = 0; episode < 2; ++episode) {
    EXPECT_EQ(last_of(game->reset(1)), "rocknative x.jsonl, 4 steps, runner 1");
    const tasks::StepResult end = game->step("12345678");
    EXPECT_TRUE(end.is_done);
    EXPECT_FLOAT_EQ(end.reward, 4) << "reward_granularity is pass_rate, as ROLL's";
  }
  game->reset(3);
  EXPECT_NE(game->step("x").stop_reason.find("run_job ended as NoData"), std::string::npos);
  GemWorld other = world;
  other.agent_runner = "runners.Walker";
  EXPECT_NE(refusal_of(packages.spec(other, true)).find("module runners has no class Walker"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort::test
