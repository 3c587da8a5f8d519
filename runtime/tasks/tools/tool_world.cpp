#include "runtime/tasks/tools/tool_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/tasks/chat_format.hpp"

namespace cohort::tasks {
namespace {

struct ToolCounts {
  double calls = 0, errors = 0, timeouts = 0, seconds = 0;
};

class ToolWorld final : public Environment {
 public:
  ToolWorld(std::unique_ptr<Environment> inner, std::shared_ptr<const ToolLoop> loop)
      : inner_(std::move(inner)), loop_(std::move(loop)) {}

  std::string reset(uint64_t seed) override {
    counts_ = {};
    assistant_turns_ = user_turns_ = 0;
    return inner_->reset(seed);
  }

  StepResult step(const PolicyAnswer& answer) override {
    ++assistant_turns_;
    const std::vector<ToolCall> calls = read_tool_calls(
        loop_->chat->without_end(answer.text), loop_->format, loop_->chat->is_ended(answer.text));
    StepResult result;
    if (calls.empty()) {
      result = inner_->step(answer);
    } else if (is_at_bound()) {
      result.is_done = true;
      result.is_valid = true;
      result.stop_reason = "max_turns";
    } else {
      run(calls, result);
    }
    add_counts(result.metrics);
    return result;
  }

  std::string instructions() const override { return inner_->instructions(); }
  std::span<const int32_t> prompt_tokens() const override { return inner_->prompt_tokens(); }
  uint64_t seed_count() const override { return inner_->seed_count(); }
  std::string shown() const override { return inner_->shown(); }
  std::string_view initial_event() const override { return inner_->initial_event(); }
  int actions_left() const override { return inner_->actions_left(); }
  EpisodeMetrics metrics() const override {
    EpisodeMetrics all = inner_->metrics();
    add_counts(all);
    return all;
  }
  Expected<std::string> scripted_answer(double expert_fraction, Rng& rng) override {
    return inner_->scripted_answer(expert_fraction, rng);
  }

 private:
  bool is_at_bound() const {
    const auto is_reached = [](int bound, int turns) { return bound > 0 && turns >= bound; };
    return is_reached(loop_->assistant_turns_max, assistant_turns_) ||
           is_reached(loop_->user_turns_max, user_turns_);
  }

  /// Runs the calls at once. Messages have the calls' order, whichever ends first.
  void run(const std::vector<ToolCall>& calls, StepResult& result) {
    ++user_turns_;
    result.is_valid = true;
    const size_t run_count = std::min(calls.size(), static_cast<size_t>(loop_->calls_max));
    std::vector<std::future<ToolResult>> others;
    // Where no thread is to be had, deferred calls follow one after the other.
    for (size_t i = 1; i < run_count; ++i)
      others.push_back(std::async(std::launch::async | std::launch::deferred,
                                  [this, &call = calls[i]] { return ask(call); }));
    if (run_count > 0) tell(ask(calls.front()), result);
    for (std::future<ToolResult>& other : others) tell(other.get(), result);
    if (run_count < calls.size()) tell(beyond(), result);  // all of the rest are told the same
    result.event = "tool";
  }

  void tell(const ToolResult& said, StepResult& result) {
    note(said, result);
    std::string text = loop_->text->shown(message_of(said));
    if (!result.messages.empty()) result.observation += '\n';
    result.observation += text;
    result.messages.push_back({"tool", std::move(text)});
  }

  ToolResult ask(const ToolCall& call) const {
    if (!call.error.empty()) return {ToolEnding::failed, "", call.error};
    auto tool = loop_->tools.find(call.name);
    if (tool != loop_->tools.end()) return tool->second->call(call.arguments);
    std::string names;
    for (const auto& [name, each] : loop_->tools) names += (names.empty() ? "" : ", ") + name;
    return {ToolEnding::failed, "",
            fmt::format("there is no tool '{:.80}'; there is: {}", call.name, names)};
  }

  ToolResult beyond() const {
    return {ToolEnding::failed, "",
            fmt::format("calls of an answer beyond the first {} are not run", loop_->calls_max)};
  }

  void note(const ToolResult& said, StepResult& result) {
    counts_.calls += 1;
    counts_.seconds += said.seconds;
    counts_.errors += said.ending == ToolEnding::failed ? 1 : 0;
    counts_.timeouts += said.ending == ToolEnding::timed_out ? 1 : 0;
    result.is_valid = result.is_valid && said.ending == ToolEnding::answered;
    result.is_effective = result.is_effective || said.ending == ToolEnding::answered;
  }

  static std::string message_of(const ToolResult& said) {
    if (said.ending == ToolEnding::answered) return said.text;
    std::string text = said.text;
    if (!text.empty() && text.back() != '\n') text += '\n';
    return text + "Error: " + said.failure;
  }

  void add_counts(EpisodeMetrics& metrics) const {
    metrics.insert(metrics.end(), {{k_tool_calls, counts_.calls},
                                   {"tool_errors", counts_.errors},
                                   {"tool_timeouts", counts_.timeouts},
                                   {"tool_seconds", counts_.seconds}});
  }

  std::unique_ptr<Environment> inner_;
  std::shared_ptr<const ToolLoop> loop_;
  ToolCounts counts_;
  int assistant_turns_ = 0, user_turns_ = 0;
};

}  // namespace

std::string tool_schemas(const ToolLoop& loop) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [name, tool] : loop.tools) {
    list.push_back(nlohmann::ordered_json::parse(tool->schema()));
    list.back()["function"]["name"] = name;
  }
  return list.dump();
}

std::unique_ptr<Environment> with_tools(std::unique_ptr<Environment> inner,
                                        std::shared_ptr<const ToolLoop> loop) {
  return std::make_unique<ToolWorld>(std::move(inner), std::move(loop));
}

}  // namespace cohort::tasks
