// What a chat template is given, what comes back, and that an endless or huge one ends.
#include "runtime/text/template/chat_template.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace cohort::text {
namespace {

using ChatJson = nlohmann::ordered_json;

ChatTemplate compiled_template(const std::string& source) {
  auto result = ChatTemplate::compile(source);
  EXPECT_TRUE(result) << source << ": " << result.error().to_string();
  return *std::move(result);
}

std::string text_of(const std::string& source, const ChatInput& input = {}) {
  const auto chat = compiled_template(source).render(input);
  return chat ? chat->text : chat.error().to_string();
}

ChatInput dialogue(const char* messages) {
  ChatInput input;
  input.messages = ChatJson::parse(messages);
  return input;
}

std::string compile_error(const std::string& source) {
  const auto result = ChatTemplate::compile(source);
  return result ? "" : result.error().to_string();
}

TEST(ChatTemplate, SeesItsVariables) {
  ChatInput input = dialogue(R"([{"role": "user", "content": "hi"}])");
  input.special_tokens = {{"bos_token", "<s>"}};
  input.kwargs = ChatJson::parse(R"({"thinks": false, "n": 18446744073709551615})");
  EXPECT_EQ(text_of("{{ bos_token }}{{ messages[0].content }}|{{ tools }}|{{ documents }}|"
                    "{{ add_generation_prompt }}|{{ thinks }}|{{ n }}|{{ eos_token is defined }}",
                    input),
            "<s>hi|None|None|False|False|18446744073709551615|False");
  input.adds_generation_prompt = true;
  input.tools = ChatJson::parse(R"([{"type": "function"}])");
  EXPECT_EQ(text_of("{{ tools | tojson }}{{ add_generation_prompt }}", input),
            R"([{"type": "function"}]True)");
}

TEST(ChatTemplate, ErrorsNameTheLineAndWhatWasRaised) {
  EXPECT_EQ(compile_error("a\nb\n{% if x %}\n"),
            "invalid argument: chat template line 3: TemplateSyntaxError: Unexpected end of "
            "template: 'endif' is missing");
  EXPECT_NE(compile_error("\n{{ x | nofilter }}").find("line 2: TemplateAssertionError: No filter"),
            std::string::npos);
  EXPECT_NE(compile_error("{% include 'x' %}").find("a chat template is one file"),
            std::string::npos);
  EXPECT_NE(compile_error("{% for x in y recursive %}{% endfor %}").find("recursive"),
            std::string::npos);
  EXPECT_NE(compile_error("\xFF").find("not UTF-8"), std::string::npos);
  EXPECT_EQ(text_of("a\n{% if true %}\n{{ raise_exception('no ' ~ 1) }}{% endif %}"),
            "invalid argument: chat template line 3: TemplateError: no 1");
}

TEST(ChatTemplate, TimeIsAnArgument) {
  EXPECT_NE(text_of("{{ strftime_now('%Y') }}").find("was given no time"), std::string::npos);
  ChatInput input;
  input.local_time = std::tm{};
  input.local_time->tm_year = 99;
  EXPECT_EQ(text_of("{{ strftime_now('%Y %f%z') }}", input), "1999 000000");
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const std::string keeps = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
  const std::string trims = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}";
  ChatInput input = dialogue(R"([{"content": "a"}, {"content": "so "}])");
  input.continues_final_message = true;
  EXPECT_EQ(text_of(keeps, input), "[a][so ");
  EXPECT_EQ(text_of(trims, input), "[a][so");
  input.messages[1]["content"] = ChatJson::parse(R"([{"text": "x"}, {"text": "y"}, {"n": 1}])");
  EXPECT_EQ(text_of("{{ messages[1].content[1].text }}.", input), "y");
  EXPECT_NE(text_of("nothing", input).find("does not print the last message"), std::string::npos);
  input.messages[1].erase("content");
  EXPECT_NE(text_of(keeps, input).find("has no content"), std::string::npos);
  input.adds_generation_prompt = true;
  EXPECT_NE(text_of(keeps, input).find("exclude each other"), std::string::npos);
}

TEST(ChatTemplate, MarksTheTokensOfGenerationBlocks) {
  const auto chat =
      compiled_template(
          "é{% generation %}ab{% endgeneration %}c{% generation %}{% endgeneration %}")
          .render(ChatInput());
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->generated, (std::vector<ByteRange>{{2, 4}, {5, 5}}));
  EXPECT_EQ(character_ranges(chat->text, chat->generated),
            (std::vector<ByteRange>{{1, 3}, {4, 4}}));
  // Tokens: "é", "", "a", "bc": the last holds the range's last byte.
  const std::vector<ByteRange> offsets{{0, 2}, {2, 2}, {2, 3}, {3, 5}};
  EXPECT_EQ(token_mask(offsets, chat->generated), (std::vector<bool>{false, false, true, true}));
}

TEST(ChatTemplate, GenerationRangesAreThoseOfTheFinalText) {
  // Characters are counted where the block stands, and are bytes of the text as it came out.
  const auto chat = compiled_template(
                        "{% macro f(x) %}<{% generation %}{{ x }}{% endgeneration %}>{% endmacro %}"
                        "é{{ f('数学') }}t{{ f('b') }}{% set q %}{% generation %}gone, and longer "
                        "than the text{% endgeneration %}{% endset %}ö")
                        .render(ChatInput());
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->text, "é<数学>t<b>ö");
  EXPECT_EQ(character_ranges(chat->text, chat->generated),
            (std::vector<ByteRange>{{1, 3}, {6, 7}, {9, 10}}));
  EXPECT_EQ(chat->generated, (std::vector<ByteRange>{{2, 6}, {11, 12}, {14, 16}}));
  const std::vector<ByteRange> offsets{{0, 2},   {2, 3},   {3, 6},   {6, 9},  {9, 10},
                                       {10, 11}, {11, 12}, {12, 14}, {14, 16}};
  EXPECT_EQ(token_mask(offsets, chat->generated),
            (std::vector<bool>{false, true, true, false, false, false, true, false, true}));
}

TEST(ChatTemplate, MasksRangesThatOverlap) {
  const std::vector<ByteRange> offsets{{0, 2}, {2, 2}, {2, 3}, {3, 3}, {3, 5}, {5, 6}};
  const std::vector<ByteRange> ranges{{2, 4}, {1, 4}, {3, 3}, {5, 5}};
  EXPECT_EQ(token_mask(offsets, ranges), (std::vector<bool>{true, true, true, true, true, false}));
}

TEST(ChatTemplate, ReadsArgumentsThatAreText) {
  const auto parsed = with_parsed_arguments(ChatJson::parse(
      R"([{"tool_calls": [{"function": {"arguments": "{\"b\": 1, \"a\": [2]}"}},
                          {"arguments": {}}]}, {"content": "x"}])"));
  ASSERT_TRUE(parsed);
  EXPECT_EQ((*parsed)[0]["tool_calls"][0]["function"]["arguments"].dump(), R"({"b":1,"a":[2]})");
  const auto bad =
      with_parsed_arguments(ChatJson::parse(R"([{}, {"tool_calls": [{"arguments": "{"}]}])"));
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().detail.find("messages[1]"), std::string::npos);
}

TEST(ChatTemplate, OneTreeServesManyThreads) {
  const ChatTemplate shared = compiled_template(
      "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m.content ~ 'é' %}"
      "{% endfor %}{{ ns.t }}{{ 'a' * 3 }}");
  const ChatInput input = dialogue(R"([{"content": "x"}, {"content": "y"}])");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 200; ++k) {
        const auto chat = shared.render(input);
        if (!chat || chat->text != "xéyéaaa") ++wrong[i];
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

/// Each is a template that no bound of Jinja's stops.
class HugeTemplate : public testing::TestWithParam<const char*> {};

TEST_P(HugeTemplate, EndsWithAnError) {
  const TemplateLimits limits{
      .steps = 300'000, .live_bytes = size_t{8} << 20, .output_bytes = size_t{1} << 20};
  const auto chat = compiled_template(GetParam()).render(ChatInput(), limits);
  ASSERT_FALSE(chat) << chat->text.size();
  EXPECT_EQ(chat.error().code, Errc::capacity) << chat.error().to_string();
}

INSTANTIATE_TEST_SUITE_P(
    Bounds, HugeTemplate,
    testing::Values(
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10**9 }}", "{{ [1] * 10**9 }}", "{{ 'x' * 10**30 }}", "{{ 'x' | center(10**9) }}",
        "{{ 'x' | indent(10**9) }}", "{{ [1] | batch(10**9, 0) | list }}",
        "{{ [1] | slice(10**9) | list }}", "{{ ('\\t' * 900000).expandtabs(60000) }}",
        "{{ '\\t'.expandtabs(10**9) }}", "{{ [1] | tojson(indent=10**9) }}",
        "{{ ('ab' * 400000).split('a') }}", "{{ ('ab' * 400000) | list }}",
        "{{ ('a' * 1000000).replace('a', 'bb') }}",
        "{% for i in range(9999) %}{% set q = '{:>999999}'.format(1) %}{% endfor %}",
        "{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor "
        "%}",
        "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor "
        "%}",
        "{% set n = namespace(s=[]) %}{% for i in range(999) %}{% set n.s = [n.s] %}{% endfor %}",
        "{% set n = namespace(s=[]) %}{% for i in range(150) %}{% set n.s = [n.s, n.s] %}{% endfor "
        "%}"
        "{{ n.s }}",
        "{% set n = namespace(s=[]) %}{% for i in range(150) %}{% set n.s = [n.s, n.s] %}{% endfor "
        "%}"
        "{{ n.s | tojson }}",
        "{% set n = namespace(s=1, t=1) %}{% for i in range(150) %}{% set n.s = (n.s, n.s) %}"
        "{% set n.t = (n.t, n.t) %}{% endfor %}{{ n.s == n.t }}",
        "{% set n = namespace(s=1) %}{% for i in range(150) %}{% set n.s = (n.s, n.s) %}{% endfor "
        "%}"
        "{{ {n.s: 1} }}",
        "{% set n = namespace() %}{% set n.a = n %}{{ n }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) "
        "}}",
        "{% macro f() %}{{ 'x' * 900000 }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
        "{% set s = 'ab' * 400000 %}{% for i in range(99999) %}{% set q = s | tojson %}{% endfor "
        "%}",
        "{% set s = 'ab' * 400000 %}{% for i in range(99999) %}{% set q = s in s %}{% endfor %}",
        "{% set s = 'ab' * 400000 %}{% for i in range(99999) %}{% set q = s in {} %}{% endfor %}"));

TEST(ChatTemplate, DepthIsBoundedWhereItIsRead) {
  const auto deep = [](const std::string& part, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += part;
    return all;
  };
  EXPECT_NE(compile_error(deep("{% if a %}", 99999)).find("nest more than 64"), std::string::npos);
  EXPECT_NE(compile_error("{{ " + deep("(", 99) + "1" + deep(")", 99) + " }}").find("more than 64"),
            std::string::npos);
  EXPECT_NE(compile_error("{{ " + deep("- ", 99999) + "1 }}").find("more than 64"),
            std::string::npos);
  EXPECT_NE(compile_error("{{ 1" + deep(" + 1", 99999) + " }}").find("more than 200"),
            std::string::npos);
  EXPECT_NE(compile_error("{{ a" + deep(".b", 99999) + " }}").find("more than 200"),
            std::string::npos);
  EXPECT_NE(compile_error("{{ a" + deep(" if b else a", 99999) + " }}").find("more than 64"),
            std::string::npos);
  // Nested evaluations take of the stack what every thread has, in builds with sanitizers too.
  const std::string recursion =
      "{% macro f(n) %}{% for i in [1] %}{% with %}{% filter trim %}{% if n %}"
      "{{ [f(n - 1) | trim ~ 'a'] | join }}{% endif %}{% endfilter %}{% endwith %}{% endfor %}"
      "{% endmacro %}";
  EXPECT_EQ(text_of(recursion + "{{ f(180) | length }}"), "180");
  EXPECT_NE(text_of(recursion + "{{ f(9999) }}").find("nests or recurs more than"),
            std::string::npos);
  ChatInput input;
  input.messages = ChatJson::parse(deep("[", 300) + deep("]", 300));
  EXPECT_NE(text_of("x", input).find("nests more than 200"), std::string::npos);
}

}  // namespace
}  // namespace cohort::text
