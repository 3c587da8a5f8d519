#include "actors/roles/environment_actor.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "actors/run/preflight.hpp"
#include "runtime/config/load.hpp"
#include "runtime/control/system.hpp"
#include "runtime/tasks/demo_data.hpp"
#include "runtime/tasks/tools/tool_world.hpp"
#include "tests/support/config_text.hpp"
#include "tests/support/lake_tokenizer.hpp"

namespace cohort::actors {
namespace {

std::shared_ptr<const EnvironmentOptions> lake_options() {
  tasks::PromptOptions prompt;
  prompt.agent_template = "{event}{observation}";
  prompt.shows_instructions = false;
  auto compiled = tasks::PromptTemplate::create(prompt);
  tasks::FrozenLakeConfig lake;
  lake.max_steps = 16;  // longer than any shortest path
  EnvironmentOptions options;
  options.make = [lake]() -> Expected<std::unique_ptr<tasks::Environment>> {
    COHORT_ASSIGN(std::unique_ptr<tasks::Environment> world, tasks::FrozenLake::create(lake));
    return world;
  };
  options.prompt = std::move(*compiled);
  options.chat = tasks::make_chatml(tests::lake_tokenizer()).value();
  options.max_response_length = 4;
  return std::make_shared<const EnvironmentOptions>(std::move(options));
}

size_t thread_count() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(EnvironmentActor, TwoThousandGamesCostNoThreadEach) {
  control::SystemConfig config({.scheduler_threads = 2, .is_test = false});
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto options = lake_options();
  size_t before = thread_count();
  std::vector<EnvironmentActor> games;
  for (int i = 0; i < 2048; ++i) games.push_back(system.spawn(environment, options));
  size_t answered = 0;
  for (size_t i = 0; i < games.size(); ++i)
    self->request(games[i], std::chrono::seconds(30), control::play_atom_v, uint64_t{i},
                  uint64_t{i}, 1.0, uint64_t{i})
        .receive([&](const Transcript& game) { answered += game.turns.back().is_success ? 1 : 0; },
                 [&](const caf::error& e) { ADD_FAILURE() << caf::to_string(e); });
  EXPECT_EQ(answered, games.size()) << "the shortest path always arrives";
  EXPECT_LE(thread_count(), before + 1);
}

TEST(EnvironmentActor, AGameThatIsOverRefusesAnotherAction) {
  EnvironmentState game;
  ASSERT_TRUE(game.configure(lake_options()));
  EXPECT_FALSE(game.on_act("<answer>Left</answer>"));
  ASSERT_TRUE(game.on_play(1, 1.0, 0));
  auto late = game.on_act("<answer>Left</answer>");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::protocol);
}

TEST(EnvironmentActor, AStepManagerAsksEachTurnAnew) {
  EnvironmentOptions options = *lake_options();
  options.prompt.reset();
  options.step_prompt =
      tasks::StepPrompt::create({.system_template = "",
                                 .agent_template = "{history}{current_observation}",
                                 .history = tasks::StepHistory::observations,
                                 .history_length = 2})
          .value();
  options.instructions = "";
  EnvironmentState game;
  ASSERT_TRUE(game.configure(std::make_shared<const EnvironmentOptions>(options)));
  auto first = game.on_reset(11);
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_TRUE(first->begins_context);
  std::string before = first->observation;
  for (int i = 0; i < 2; ++i) {
    auto turn = game.on_act("nothing<|im_end|>");
    ASSERT_TRUE(turn) << turn.error().detail;
    EXPECT_TRUE(turn->begins_context);
    const tasks::ChatMessage asked{"user", before + turn->observation};
    EXPECT_EQ(turn->prompt, options.chat->opening(std::span(&asked, 1)).value());
    before = turn->observation;
  }
  EXPECT_EQ(game.on_reset(11)->prompt, first->prompt) << "nothing is left of the game before";
}

/// Writes its dialogues; what it is answered with becomes a message.
class Writer final : public tasks::Environment {
 public:
  std::string reset(uint64_t seed) override {
    return seed == 1 ? R"({"messages": [{"role": "user", "content": "ice"}]})" : "no dialogue";
  }
  tasks::StepResult step(const tasks::PolicyAnswer& answer) override {
    tasks::StepResult result;
    result.observation =
        R"({"messages": [{"role": "user", "content": "ice"}, {"role": "assistant", "content": ")" +
        answer.text + R"("}, {"role": "user", "content": "lake"}]})";
    return result;
  }
  std::string instructions() const override { return ""; }
  int actions_left() const override { return 1; }
  tasks::EpisodeMetrics metrics() const override { return {}; }
};

TEST(EnvironmentActor, ADialogueOfTheEnvironmentIsThePrompt) {
  std::shared_ptr<const tasks::Tokenizer> bytes =
      tasks::make_word_tokenizer(tasks::byte_vocabulary()).value();
  EnvironmentOptions options;
  options.make = []() -> Expected<std::unique_ptr<tasks::Environment>> {
    return std::unique_ptr<tasks::Environment>(std::make_unique<Writer>());
  };
  options.chat = tasks::make_chatml(bytes).value();
  options.writes_dialogues = true;
  EnvironmentState game;
  ASSERT_TRUE(game.configure(std::make_shared<const EnvironmentOptions>(options)));
  auto first = game.on_reset(1);
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_TRUE(first->begins_context);
  EXPECT_EQ(bytes->decode(first->prompt),
            "<|im_start|>user\nice<|im_end|>\n<|im_start|>assistant\n");
  auto next = game.on_act("cold<|im_end|>");  // the world is told the text, not how it ended
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_FALSE(next->begins_context) << "the dialogue goes on";
  EXPECT_EQ(bytes->decode(next->prompt),
            "\n<|im_start|>user\nlake<|im_end|>\n<|im_start|>assistant\n");
  auto broken = game.on_act("\"");  // the agent's JSON breaks: its game ends, no other
  ASSERT_TRUE(broken) << broken.error().detail;
  EXPECT_TRUE(broken->is_done);
  EXPECT_TRUE(broken->stop_reason.starts_with("plugin_error: ")) << broken->stop_reason;
  ASSERT_TRUE(game.on_reset(2)) << "there is a prompt";
  EXPECT_TRUE(game.on_act("x")->stop_reason.starts_with("plugin_error: "));
  EXPECT_EQ(game.on_reset(1)->prompt, first->prompt);
}

TEST(EnvironmentActor, AGameMayWaitForThoseThatItsProcessPlaysFirst) {
  EnvironmentOptions options;
  EXPECT_EQ(options.wait_limit(1000), 60) << "nobody waits for another in this process";
  options.call_limit_s = 30;
  options.processes = 2;
  EXPECT_EQ(options.wait_limit(1), 60 + 2 * 30);
  EXPECT_EQ(options.wait_limit(9), 60 + 5 * 2 * 30);
}

TEST(EnvironmentActor, ARowIsOneQuestionAndOneAnswer) {
  auto config = config::load(test::source_path("configs/arithmetic_rlvr.yaml"), {});
  ASSERT_TRUE(config);
  auto plan = preflight(*config);
  ASSERT_TRUE(plan) << plan.error().detail;
  EnvironmentState row;
  ASSERT_TRUE(row.configure(plan->environments.at("answer")));
  EXPECT_FALSE(row.on_reset(1U << 20)) << "there is no such row";
  auto asked = row.on_reset(3);
  ASSERT_TRUE(asked);
  const Prompt& prompt = plan->prompts->at(3);
  EXPECT_EQ(asked->observation, prompt.sample->messages[0].content);
  EXPECT_EQ(asked->prompt, prompt.tokens);
  auto ended = row.on_act("1;1<|im_end|>");
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->is_done && ended->is_valid);
  EXPECT_EQ(ended->stop_reason, "answered");
  EXPECT_FALSE(row.on_act("again"));
  ASSERT_TRUE(row.on_reset(3));
  EXPECT_EQ(row.on_act("1;1")->stop_reason, "length");
  auto played = row.on_play(3, 1, 0);
  ASSERT_TRUE(played);
  EXPECT_EQ(played->responses.front(), prompt.sample->answer + "<|im_end|>");
}

/// A tool in this process.
class Parrot final : public tasks::Tool {
 public:
  tasks::ToolResult call(std::string_view arguments) override {
    return {tasks::ToolEnding::answered, std::string(arguments), "", 0};
  }
  std::string schema() const override { return "{}"; }
};

TEST(EnvironmentActor, AToolCallIsNoAction) {
  std::shared_ptr<const tasks::Tokenizer> bytes =
      tasks::make_word_tokenizer(tasks::byte_vocabulary()).value();
  auto options = std::make_shared<EnvironmentOptions>(*lake_options());
  options->chat = tasks::make_chatml(bytes).value();
  options->max_turns = 2;
  auto loop = std::make_shared<tasks::ToolLoop>();
  loop->tools["parrot"] = std::make_shared<Parrot>();
  loop->chat = options->chat;
  loop->text = std::make_shared<tasks::ToolText>(bytes, tasks::ToolTextLimits{});
  options->make = [loop, make = options->make]() -> Expected<std::unique_ptr<tasks::Environment>> {
    COHORT_ASSIGN(std::unique_ptr<tasks::Environment> lake, make());
    return tasks::with_tools(std::move(lake), loop);
  };
  EnvironmentState game;
  ASSERT_TRUE(game.configure(options));
  ASSERT_TRUE(game.on_reset(1));
  for (int i = 0; i < 3; ++i) {
    auto said = game.on_act(
        "<tool_call>{\"name\": \"parrot\", \"arguments\": {\"a\": 1}}</tool_call><|im_end|>");
    ASSERT_TRUE(said) << said.error().detail;
    EXPECT_FALSE(said->is_done);
    EXPECT_EQ(bytes->decode(said->prompt),
              "\n<|im_start|>user\n<tool_response>\n{\"a\":1}\n</tool_response><|im_end|>\n"
              "<|im_start|>assistant\n");
    EXPECT_EQ(said->metrics.front(), (std::pair<std::string, double>("tool_calls", i + 1)));
  }
  EXPECT_FALSE(game.on_act("nothing<|im_end|>")->is_done);
  EXPECT_EQ(game.on_act("nothing<|im_end|>")->stop_reason, "max_turns");
}

}  // namespace
}  // namespace cohort::actors
