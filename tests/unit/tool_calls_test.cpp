/// Tool calls in answers, and tools' texts cut for the policy.
#include "runtime/tasks/tools/tool_calls.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.hpp"
#include "runtime/tasks/demo_data.hpp"
#include "runtime/tasks/tools/tool_text.hpp"

namespace cohort::tasks {
namespace {

using Calls = std::vector<ToolCall>;

Calls hermes(std::string_view answer, bool is_ended = true) {
  return read_tool_calls(answer, ToolFormat::hermes, is_ended);
}
Calls llama(std::string_view answer, bool is_ended = true) {
  return read_tool_calls(answer, ToolFormat::llama3_json, is_ended);
}
Calls one(std::string name, std::string arguments) {
  return {{std::move(name), std::move(arguments), ""}};
}
std::string error_of(const Calls& calls) {
  return calls.size() == 1 ? calls[0].error : std::to_string(calls.size()) + " calls";
}

TEST(ToolCalls, HermesReadsEachCallBetweenItsTags) {
  EXPECT_EQ(hermes("The answer is 4."), Calls());
  EXPECT_EQ(hermes("Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": "
                   "[\"</x>\", null]}}\n</tool_call>"),
            one("f", R"({"a":1,"b":["</x>",null]})"));
  EXPECT_EQ(
      hermes("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> and "
             "<tool_call>{\"name\": \"g\", \"parameters\": {\"z\": 1, \"a\": 2}}</tool_call>"),
      (Calls{{"f", "{}", ""}, {"g", R"({"z":1,"a":2})", ""}}));
}

TEST(ToolCalls, ArgumentsMayBeMissingOrAText) {
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\"}</tool_call>"), one("now", "{}"));
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call>"),
            one("now", "{}"));
  EXPECT_EQ(hermes(R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)"),
            one("f", R"({"a":1})"));
}

TEST(ToolCalls, WhatIsNoCallSaysWhy) {
  EXPECT_EQ(error_of(hermes("<tool_call>f(1)</tool_call>")),
            "the tool call is no JSON object: it does not begin with {");
  EXPECT_EQ(error_of(hermes("<tool_call>{\"name\": \"f\", }</tool_call>")),
            "the tool call is no JSON: wrong at character 15");
  EXPECT_EQ(error_of(hermes("<tool_call>{\"arguments\": {}}</tool_call>")),
            "the tool call has no \"name\"");
  EXPECT_EQ(error_of(hermes("<tool_call>{\"name\": 3}</tool_call>")),
            "the tool call has no \"name\"");
  EXPECT_EQ(error_of(hermes("<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>")),
            "\"arguments\" is no JSON object");
  EXPECT_EQ(error_of(hermes("<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>")),
            "the text of \"arguments\" is no JSON object: it does not begin with {");
  const std::string deep(100, '[');
  EXPECT_EQ(error_of(hermes("<tool_call>{\"a\": " + deep + "</tool_call>")),
            "the tool call is nested more than 64 deep");
  // The others of the answer stay calls.
  const Calls both = hermes("<tool_call>?</tool_call><tool_call>{\"name\":\"f\"}</tool_call>");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_NE(both[0].error, "");
  EXPECT_EQ(both[1], one("f", "{}")[0]);
}

TEST(ToolCalls, AnAnswerThatWasCutInACallHasNotCalled) {
  for (const std::string cut : {"<tool_call>{\"name\": \"f\"", "<tool_call>"}) {
    EXPECT_EQ(hermes(cut, false), Calls()) << cut;
    EXPECT_EQ(error_of(hermes(cut, true)), "a <tool_call> has no </tool_call>") << cut;
  }
  EXPECT_EQ(llama("<|python_tag|>{\"name\": \"f\"", false), Calls());
  EXPECT_NE(error_of(llama("<|python_tag|>{\"name\": \"f\"", true)), "");
}

TEST(ToolCalls, LlamaReadsObjectsBehindThePythonTag) {
  EXPECT_EQ(llama(R"(<|python_tag|>{"name": "f", "parameters": {"a": "}"}})"),
            one("f", R"({"a":"}"})"));
  EXPECT_EQ(llama(R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g"})"),
            (Calls{{"f", "{}", ""}, {"g", "{}", ""}}));
  EXPECT_EQ(llama(R"(Wait. <|python_tag|>{"type": "function", "name": "f", "parameters": {}})"),
            one("f", "{}"));
  EXPECT_EQ(error_of(llama("<|python_tag|>print(1)")),
            "the tool call is no JSON object: it does not begin with {");
}

TEST(ToolCalls, LlamaReadsAnAnswerThatIsACall) {
  EXPECT_EQ(llama(" {\"name\": \"f\", \"parameters\": {\"a\": 1}}"), one("f", R"({"a":1})"));
  EXPECT_EQ(llama("{\"name\": \"f\", \"arguments\": {}}"), one("f", "{}"));
  // An answer in JSON, or one with a call in its words, is an answer.
  EXPECT_EQ(llama("{\"name\": \"Ada\", \"born\": 1815}"), Calls());
  EXPECT_EQ(llama("{1, 2}"), Calls());
  EXPECT_EQ(llama("It is {\"name\": \"f\", \"parameters\": {}}"), Calls());
  EXPECT_EQ(error_of(llama("{\"name\": \"f\", \"parameters\": {]}")),
            "the tool call is no JSON: wrong at character 30");
}

/// A JSON value with every kind of value, and characters that end strings, tags and objects.
nlohmann::ordered_json random_value(Rng& rng, int depth) {
  static const std::vector<std::string> k_texts = {
      "", "}", "\"]", "\\", "ä", "</x>\n{", "<|python_tag|>", "; {"};
  switch (rng.below(depth > 0 ? 6 : 4)) {
    case 0:
      return nullptr;
    case 1:
      return static_cast<int64_t>(rng.below(1000)) - 500;
    case 2:
      return rng.below(2) == 0;
    case 3:
      return k_texts[rng.below(k_texts.size())];
    case 4: {
      auto list = nlohmann::ordered_json::array();
      for (uint64_t i = rng.below(4); i > 0; --i) list.push_back(random_value(rng, depth - 1));
      return list;
    }
    default: {
      auto object = nlohmann::ordered_json::object();
      for (uint64_t i = rng.below(4); i > 0; --i)
        object[k_texts[rng.below(k_texts.size())]] = random_value(rng, depth - 1);
      return object;
    }
  }
}

TEST(ToolCalls, WhatIsWrittenComesBack) {
  Rng rng(20261123);
  for (int round = 0; round < 2000; ++round) {
    Calls wanted;
    std::string as_hermes = "Well.", as_llama = "<|python_tag|>";
    for (uint64_t i = 1 + rng.below(3); i > 0; --i) {
      auto arguments = nlohmann::ordered_json::object();
      for (const char* key : {"a", "b"}) arguments[key] = random_value(rng, 4);
      const nlohmann::ordered_json call = {{"name", "f"}, {"parameters", arguments}};
      const int indent = rng.below(2) == 0 ? -1 : 2;
      as_hermes += "\n<tool_call>\n" + call.dump(indent) + "\n</tool_call>";
      as_llama += call.dump(indent) + (rng.below(2) == 0 ? "; " : "\n");
      wanted.push_back({"f", arguments.dump(), ""});
    }
    EXPECT_EQ(hermes(as_hermes), wanted) << as_hermes;
    EXPECT_EQ(llama(as_llama), wanted) << as_llama;
    // Cut anywhere, with or without an end, it is read without a fault.
    const std::string cut = as_llama.substr(0, rng.below(as_llama.size()));
    EXPECT_LE(llama(cut, false).size(), wanted.size()) << cut;
    EXPECT_LE(llama(cut, true).size(), wanted.size() + 1) << cut;
  }
}

TEST(ToolText, IsCutAsVerlCutsIt) {
  EXPECT_EQ(cut_text("abcdef", 6, CutSide::middle), "abcdef");
  EXPECT_EQ(cut_text("abcdef", 4, CutSide::left), "abcd...(truncated)");
  EXPECT_EQ(cut_text("abcdef", 4, CutSide::right), "(truncated)...cdef");
  EXPECT_EQ(cut_text("abcdef", 5, CutSide::middle), "ab...(truncated)...ef");
  // Characters, not bytes.
  EXPECT_EQ(cut_text("äöüß", 4, CutSide::left), "äöüß");
  EXPECT_EQ(cut_text("äöüß", 2, CutSide::middle), "ä...(truncated)...ß");
}

TEST(ToolText, IsCutByTokens) {
  std::shared_ptr<const Tokenizer> bytes = make_word_tokenizer(byte_vocabulary()).value();
  const ToolText text(bytes, {.characters_max = 0, .tokens_max = 4, .side = CutSide::middle});
  EXPECT_EQ(text.shown("abcd"), "abcd");
  EXPECT_EQ(text.shown("abcdefgh"), "ab...(truncated)...gh");
  // "ä" is two tokens: half of it is a character that is none.
  EXPECT_EQ(text.shown("aäcdefgh"), "a\xEF\xBF\xBD...(truncated)...gh");
}

TEST(ToolText, BecomesIdsWhateverItSays) {
  std::shared_ptr<const Tokenizer> digits = make_word_tokenizer(arithmetic_vocabulary()).value();
  const ToolText text(digits, {});
  EXPECT_EQ(text.shown("42"), "42");
  EXPECT_EQ(text.shown("Error: 1/0\n"), "10");  // the vocabulary has no "?" either
  std::shared_ptr<const Tokenizer> bytes = make_word_tokenizer(byte_vocabulary()).value();
  EXPECT_EQ(ToolText(bytes, {}).shown("a\xff"), "a\xEF\xBF\xBD");
}

}  // namespace
}  // namespace cohort::tasks
