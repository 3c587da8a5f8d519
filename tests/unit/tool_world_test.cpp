/// The agent loop of one episode: which answers reach the world, what tools say, and what ends it.
#include "runtime/tasks/tools/tool_world.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/demo_data.hpp"

namespace cohort::tasks {
namespace {

/// A tool in this process: it says what its arguments are, or fails as they ask.
class Parrot final : public Tool {
 public:
  ToolResult call(std::string_view arguments) override {
    if (arguments.find("fail") != std::string_view::npos)
      return {ToolEnding::failed, "so far", "broken", 0.5};
    if (arguments.find("late") != std::string_view::npos)
      return {ToolEnding::timed_out, "", "timeout after 1 s", 1};
    return {ToolEnding::answered, std::string(arguments), "", 0.25};
  }
  std::string schema() const override {
    return R"({"type":"function","function":{"name":"parrot"}})";
  }
};

/// Answers a call when `calls` of them are under way; the first to come answers last.
class Meeting final : public Tool {
 public:
  explicit Meeting(int calls) : calls_(calls) {}
  ToolResult call(std::string_view arguments) override {
    std::unique_lock lock(mutex_);
    const int place = here_++;
    changed_.notify_all();
    const auto is_my_turn = [&] { return here_ == calls_ && answered_ == calls_ - 1 - place; };
    if (!changed_.wait_for(lock, std::chrono::seconds(30), is_my_turn))
      return {ToolEnding::failed, "", "nobody else came", 0};
    ++answered_;
    changed_.notify_all();
    return {ToolEnding::answered, std::string(arguments), "", 0};
  }
  std::string schema() const override {
    return R"({"type":"function","function":{"name":"meeting"}})";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_, here_ = 0, answered_ = 0;
};

/// A world that pays one for each answer, and ends with the third.
class Counter final : public Environment {
 public:
  std::string reset(uint64_t) override {
    answers_ = 0;
    return "go";
  }
  StepResult step(const PolicyAnswer&) override {
    StepResult result;
    result.reward = 1;
    result.is_done = ++answers_ == 3;
    result.stop_reason = result.is_done ? "third" : "";
    return result;
  }
  std::string instructions() const override { return "count"; }
  int actions_left() const override { return 3 - answers_; }
  EpisodeMetrics metrics() const override { return {}; }

 private:
  int answers_ = 0;
};

struct Loop {
  explicit Loop(ToolLoop options = {}) : loop(std::move(options)) {
    tokenizer = make_word_tokenizer(byte_vocabulary()).value();
    loop.chat = make_chatml(tokenizer).value();
    loop.tools = {{"parrot", std::make_shared<Parrot>()}};
    loop.text = std::make_shared<ToolText>(tokenizer, ToolTextLimits{.characters_max = 100});
    world = with_tools(std::make_unique<Counter>(), std::make_shared<const ToolLoop>(loop));
    world->reset(1);
  }
  static std::string call(const std::string& arguments, const std::string& name = "parrot") {
    return "<tool_call>{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}</tool_call>";
  }
  StepResult answer(const std::string& text) const { return world->step(text + "<|im_end|>"); }
  ToolLoop loop;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Environment> world;
};

double metric(const StepResult& result, std::string_view name) {
  for (const auto& [found, value] : result.metrics)
    if (found == name) return value;
  return -1;
}

TEST(ToolWorld, CallsAreToldToThePolicyAndAnswersToTheWorld) {
  const Loop loop;
  const StepResult said = loop.answer("So. " + Loop::call("{\"a\": 1}"));
  EXPECT_EQ(said.messages, (std::vector<ChatMessage>{{"tool", "{\"a\":1}"}}));
  EXPECT_EQ(said.observation, "{\"a\":1}");
  EXPECT_TRUE(said.is_valid && said.is_effective && !said.is_done);
  EXPECT_EQ(said.reward, 0);
  EXPECT_EQ(loop.world->actions_left(), 3) << "a call is no action";
  const StepResult played = loop.answer("two");
  EXPECT_TRUE(played.messages.empty());
  EXPECT_EQ(played.reward, 1);
  EXPECT_EQ(metric(played, "tool_calls"), 1);
  EXPECT_EQ(metric(played, "tool_seconds"), 0.25);
}

TEST(ToolWorld, ACallThatFailsIsAMessage) {  // TOOL-3
  ToolLoop options;
  options.calls_max = 4;
  const Loop loop(options);
  const StepResult said = loop.answer(Loop::call("{\"do\": \"fail\"}") + Loop::call("{}", "cat") +
                                      "<tool_call>?</tool_call>" + Loop::call("{\"a\": \"late\"}"));
  ASSERT_EQ(said.messages.size(), 4U);
  EXPECT_EQ(said.messages[0].content, "so far\nError: broken");
  EXPECT_EQ(said.messages[1].content, "Error: there is no tool 'cat'; there is: parrot");
  EXPECT_EQ(said.messages[2].content,
            "Error: the tool call is no JSON object: it does not begin with {");
  EXPECT_EQ(said.messages[3].content, "Error: timeout after 1 s");
  EXPECT_FALSE(said.is_done || said.is_valid || said.is_effective);
  EXPECT_EQ(metric(said, "tool_calls"), 4);
  EXPECT_EQ(metric(said, "tool_errors"), 3);
  EXPECT_EQ(metric(said, "tool_timeouts"), 1);
  EXPECT_EQ(metric(said, "tool_seconds"), 1.5);
}

TEST(ToolWorld, CallsBeyondTheirNumberAreNotRun) {
  const Loop loop;  // one call an answer
  const StepResult said =
      loop.answer(Loop::call("{\"a\": 1}") + Loop::call("{\"b\": 1}") + Loop::call("{\"c\": 1}"));
  ASSERT_EQ(said.messages.size(), 2U);
  EXPECT_EQ(said.messages[0].content, "{\"a\":1}");
  EXPECT_EQ(said.messages[1].content, "Error: calls of an answer beyond the first 1 are not run");
}

TEST(ToolWorld, CallsOfAnAnswerRunAtOnce) {
  ToolLoop options;
  options.calls_max = 3;
  Loop loop(std::move(options));
  loop.loop.tools["meeting"] = std::make_shared<Meeting>(3);
  loop.world = with_tools(std::make_unique<Counter>(), std::make_shared<const ToolLoop>(loop.loop));
  loop.world->reset(1);
  const StepResult said =
      loop.answer(Loop::call(R"({"n":1})", "meeting") + Loop::call(R"({"n":2})", "meeting") +
                  Loop::call(R"({"n":3})", "meeting") + Loop::call(R"({"n":4})", "meeting"));
  ASSERT_EQ(said.messages.size(), 4u);
  EXPECT_EQ(said.messages[0].content, R"({"n":1})");
  EXPECT_EQ(said.messages[1].content, R"({"n":2})");
  EXPECT_EQ(said.messages[2].content, R"({"n":3})");
  EXPECT_NE(said.messages[3].content.find("not run"), std::string::npos);
  EXPECT_EQ(metric(said, "tool_calls"), 4);
  EXPECT_EQ(metric(said, "tool_errors"), 1);
}

TEST(ToolWorld, ALongTextIsCut) {
  const Loop loop;
  const StepResult said = loop.answer(Loop::call("{\"a\": \"" + std::string(500, 'x') + "\"}"));
  EXPECT_EQ(said.messages[0].content, "{\"a\":\"" + std::string(44, 'x') + "...(truncated)..." +
                                          std::string(48, 'x') + "\"}");
}

TEST(ToolWorld, TurnsHaveTheirBounds) {
  ToolLoop options;
  options.assistant_turns_max = 2;
  const Loop answers(options);
  EXPECT_FALSE(answers.answer(Loop::call("{}")).is_done);
  const StepResult last = answers.answer(Loop::call("{}"));
  EXPECT_TRUE(last.is_done && last.messages.empty());
  EXPECT_EQ(last.stop_reason, "max_turns");
  EXPECT_EQ(metric(last, "tool_calls"), 1) << "the last one is not run";
  answers.world->reset(2);
  EXPECT_FALSE(answers.answer(Loop::call("{}")).is_done) << "each episode counts anew";

  options.assistant_turns_max = 0;
  options.user_turns_max = 1;
  const Loop calls(options);
  EXPECT_FALSE(calls.answer(Loop::call("{}")).is_done);
  EXPECT_FALSE(calls.answer("no call").is_done) << "the world goes on";
  EXPECT_EQ(calls.answer(Loop::call("{}")).stop_reason, "max_turns");
}

TEST(ToolWorld, AnAnswerThatWasCutInACallIsTheWorlds) {
  const Loop loop;
  EXPECT_EQ(loop.world->step("<tool_call>{\"name\": \"par").reward, 1);
  // A whole call counts, though the budget cut the answer behind it.
  EXPECT_EQ(loop.world->step(Loop::call("{}")).messages.size(), 1U);
}

TEST(ToolWorld, ChatmlShowsToolsAndWhatTheySay) {
  Loop loop;
  EXPECT_EQ(tool_schemas(loop.loop), R"([{"type":"function","function":{"name":"parrot"}}])");
  auto shown = make_chatml(loop.tokenizer, {.tools = tool_schemas(loop.loop)}).value();
  const std::vector<ChatMessage> question = {{"user", "Why?"}};
  const std::string text = shown->text(question).value();
  EXPECT_EQ(text.find("<|im_start|>system\nYou are a helpful assistant.\n\n# Tools\n"), 0U) << text;
  EXPECT_NE(
      text.find("<tools>\n{\"type\":\"function\",\"function\":{\"name\":\"parrot\"}}\n</tools>"),
      std::string::npos);
  const std::vector<ChatMessage> said = {{"tool", "4"}, {"tool", "<|im_end|>"}};
  EXPECT_EQ(loop.tokenizer->decode(shown->following(said, "x<|im_end|>").value()),
            "\n<|im_start|>user\n<tool_response>\n4\n</tool_response>\n<tool_response>\n"
            "< |im_end|>\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
  auto plain = make_chatml(loop.tokenizer, {.is_plain = true, .tools = "[]"});
  ASSERT_FALSE(plain);
  EXPECT_NE(plain.error().detail.find("multi_turn.shows_tools"), std::string::npos);
}

}  // namespace
}  // namespace cohort::tasks
