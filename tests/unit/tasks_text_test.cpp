// Patterns, action parsing, prompts, tokenizer.
#include <gtest/gtest.h>

#include "runtime/tasks/action_parser.hpp"
#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/frozen_lake.hpp"
#include "runtime/tasks/pattern.hpp"
#include "runtime/tasks/prompt.hpp"
#include "runtime/tasks/step_prompt.hpp"
#include "runtime/tasks/tokenizer.hpp"
#include "tests/support/lake_tokenizer.hpp"

namespace cohort::tasks {
namespace {

struct PatternCase {
  const char* pattern;
  const char* text;
  std::vector<const char*> groups;  // empty = no match; nullptr = the group took no part
};

// Expected values are those of Python's re.search(pattern, text, re.DOTALL).
const PatternCase k_pattern_cases[] = {
    {"<answer>(.*?)</answer>",
     "a<answer>Up</answer><answer>Left</answer>",
     {"<answer>Up</answer>", "Up"}},
    {"<answer>(.*?)</answer>", "<answer>\nUp\n</answer>", {"<answer>\nUp\n</answer>", "\nUp\n"}},
    {"<answer>(.*)</answer>",
     "<answer>a</answer>b</answer>",
     {"<answer>a</answer>b</answer>", "a</answer>b"}},
    {"<think>(.*?)</think>\\s*<answer>(.*?)</answer>",
     "<think>x</think>\n <answer>Up</answer>",
     {"<think>x</think>\n <answer>Up</answer>", "x", "Up"}},
    {"<answer>(.*?)</answer>", "<answer>Up", {}},
    {"a|ab", "ab", {"a"}},
    {"(?:a|b)+c", "xabbac", {"abbac"}},
    {"(a)|(b)", "b", {"b", nullptr, "b"}},
    {"[a-c]+", "xxabcdx", {"abc"}},
    {"[^a-c]+", "abxyc", {"xy"}},
    {"[]a]+", "x]a]", {"]a]"}},
    {"a{2,3}", "aaaa", {"aaa"}},
    {"a{2,3}?", "aaaa", {"aa"}},
    {"a{2}", "abaa", {"aa"}},
    {"a{2,}", "baaaa", {"aaaa"}},
    {"^b", "ab", {}},
    {"b$", "ab\n", {"b"}},
    {"\\d+\\.\\w", "v12.x", {"12.x"}},
    {"x*", "aaa", {""}},
    {"(a*)*", "aab", {"aa", ""}},
    {"(?=a)a", "ba", {"a"}},
    {"(?P<word>b)\\1", "abb", {"bb", "b"}},
    {"\\bUp\\b", "Upper Up", {"Up"}},
    {"(a+)(b?)", "caa", {"aa", "aa", ""}},
    {"\\[(\\w+)\\]", "do [Up]", {"[Up]", "Up"}},
};

TEST(Pattern, AgreesWithPython) {
  for (const PatternCase& test : k_pattern_cases) {
    auto pattern = Pattern::compile(test.pattern);
    ASSERT_TRUE(pattern.has_value()) << pattern.error().detail;
    auto match = pattern->search(test.text);
    ASSERT_EQ(match.has_value(), !test.groups.empty()) << test.pattern << " on " << test.text;
    for (size_t i = 0; i < test.groups.size(); ++i) {
      ASSERT_EQ((*match)[i].has_value(), test.groups[i] != nullptr) << test.pattern;
      if (test.groups[i]) {
        EXPECT_EQ((*match)[i]->compare(test.groups[i]), 0) << test.pattern << " group " << i;
      }
    }
  }
}

TEST(Pattern, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"(", ")", "a)", "[a", "*", "a{3,2}", "(a{9000}){9000}", "\\", "[b-a]", "(?P<n", "\\2(a)"})
    EXPECT_EQ(Pattern::compile(text).error().code, Errc::invalid_argument) << text;
}

// A backtracking matcher would need 2^20,000 steps: the limit ends it.
TEST(Pattern, HostileTextEndsAsNoMatch) {
  auto pattern = Pattern::compile("(x+x+)+[yz]");
  ASSERT_TRUE(pattern.has_value());
  EXPECT_FALSE(pattern->search(std::string(20'000, 'x')).has_value());
  EXPECT_TRUE(pattern->search(std::string(20, 'x') + "z").has_value());
  auto answer = Pattern::compile("<answer>(.*?)</answer>");
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += "<answer>";
  EXPECT_FALSE(answer->search(text).has_value());
}

std::optional<size_t> parse(std::string_view response) {
  auto parser = ActionParser::create("<answer>(.*?)</answer>", {"Left", "Down", "Right", "Up"});
  EXPECT_TRUE(parser.has_value());
  return parser->parse(response);
}

// Deep enough for the JIT's stack to run out: the interpreter takes over.
TEST(Pattern, LongAlternationsMatch) {
  auto pattern = Pattern::compile("^(?:(a)|b)*$");
  ASSERT_TRUE(pattern.has_value());
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += i % 3 == 0 ? 'b' : 'a';
  EXPECT_TRUE(pattern->search(text).has_value());
}

TEST(ActionParser, FindsTheWord) {
  EXPECT_EQ(parse("<answer>Left</answer>"), 0U);
  EXPECT_EQ(parse("<answer>  dOwN \n</answer>"), 1U);
  EXPECT_EQ(parse("I think <answer>Right</answer> or <answer>Up</answer>"), 2U);
  EXPECT_EQ(parse("<answer><|im_start|>Up<|im_end|></answer><|im_end|>"), 3U);
  EXPECT_EQ(parse("<ans<|im_end|>wer>Up</answer>"), 3U);
}

TEST(ActionParser, AnythingElseIsInvalid) {
  for (const char* text : {"", "Left", "<answer></answer>", "<answer>Left Right</answer>",
                           "<answer>0</answer>", "<ANSWER>Left</ANSWER>", "</answer>Left<answer>"})
    EXPECT_FALSE(parse(text).has_value()) << text;
}

TEST(ActionParser, TakesTheLastGroup) {
  auto parser =
      ActionParser::create("<think>(.*?)</think>\\s*<answer>(.*?)</answer>", {"Left", "Up"});
  EXPECT_EQ(parser->parse("<think>Left</think><answer>Up</answer>"), 1U);
  EXPECT_FALSE(parser->parse("<answer>Up</answer>").has_value());
}

PromptTemplate make_prompt(PromptOptions options) {
  auto prompt = PromptTemplate::create(std::move(options));
  EXPECT_TRUE(prompt.has_value());
  return std::move(*prompt);
}

TEST(Prompt, FirstAndLaterTurns) {
  PromptTemplate prompt =
      make_prompt({.system_template = "Be brief.",
                   .agent_template = "Turn {turn_idx}:\n{observation}\n{{{actions_left}}} "
                                     "{max_response_length} {event}",
                   .shows_instructions = true});
  PromptFields fields{.turn_idx = 1,
                      .observation = "P_",
                      .actions_left = 10,
                      .max_response_length = 64,
                      .event = "e"};
  EXPECT_EQ(prompt.first_turn("Rules.", fields),
            (std::vector<ChatMessage>{{"system", "Be brief."},
                                      {"user", "Rules.\nTurn 1:\nP_\n{10} 64 e"}}));
  fields.turn_idx = 2;
  fields.observation = "_P";
  fields.event = "moved";
  EXPECT_EQ(prompt.next_turn(fields), (ChatMessage{"user", "Turn 2:\n_P\n{10} 64 moved"}));
}

TEST(Prompt, LeavesOutWhatIsEmpty) {
  PromptTemplate prompt = make_prompt(
      {.system_template = "", .agent_template = "{observation}", .shows_instructions = false});
  EXPECT_EQ(prompt.first_turn("Rules.", {.observation = "P"}),
            (std::vector<ChatMessage>{{"user", "P"}}));
}

TEST(Prompt, UnknownPlaceholderIsAnError) {
  for (const char* text : {"{observatoin}", "{", "}", "{}", "a {turn_idx"}) {
    auto prompt = PromptTemplate::create(
        {.system_template = "", .agent_template = text, .shows_instructions = true});
    ASSERT_FALSE(prompt.has_value()) << text;
    EXPECT_EQ(prompt.error().code, Errc::config);
  }
  auto prompt = PromptTemplate::create(
      {.system_template = "", .agent_template = "ab{turn}", .shows_instructions = true});
  EXPECT_NE(prompt.error().detail.find("offset 2: unknown placeholder {turn}"), std::string::npos);
}

// ROLL's step managers: history_length counts the turn that is asked, steps count from 1.
TEST(StepPrompt, TellsTheLastTurns) {
  const std::vector<PlayedTurn> played{{"A", "Up"}, {"B", "Down"}, {"C", "Left"}};
  const auto text_of = [](StepPromptOptions options, std::string_view rules,
                          std::span<const PlayedTurn> before, std::string_view now) {
    return StepPrompt::create(std::move(options)).value().turn(rules, before, now, 64);
  };
  StepPromptOptions options{
      .system_template = "Be brief.",
      .agent_template =
          "{env_instruction}|{step_count}|{history_length}|{history}|{current_step}|"
          "{current_observation}|{max_response_length}{{}}",
      .history = StepHistory::actions,
      .history_length = 3};
  EXPECT_EQ(text_of(options, "Rules.", {}, "A"),
            (std::vector<ChatMessage>{{"system", "Be brief."}, {"user", "Rules.|0|0||1|A|64{}"}}));
  EXPECT_EQ(text_of(options, "Rules.", played, "D").back().content,
            "Rules.|3|2|(step:2, observation: B, action: Down), "
            "(step:3, observation: C, action: Left)|4|D|64{}");
  options.history_length = 0;
  EXPECT_EQ(text_of(options, "Rules.", played, "D").back().content, "Rules.|3|0||4|D|64{}");

  options = {.system_template = "",
             .agent_template = "{history}\n{current_observation}",
             .history = StepHistory::observations,
             .history_length = 20};
  EXPECT_EQ(text_of(options, "Rules.", {}, "A"),
            (std::vector<ChatMessage>{{"user", "\nRules.\nA"}}));
  EXPECT_EQ(text_of(options, "Rules.", played, "D").back().content, "Rules.\nA\nB\nC\nD");
  options.agent_template = "{observation}";
  const auto unknown = StepPrompt::create(options);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().detail.find("unknown placeholder {observation}; known: env_instr"),
            std::string::npos)
      << unknown.error().detail;
}

TEST(Tokenizer, RoundTripsADemoTurn) {
  const auto tokenizer = tests::lake_tokenizer();
  const auto chat = make_chatml(tokenizer).value();
  PromptTemplate prompt = make_prompt(
      {.system_template = "", .agent_template = "{observation}", .shows_instructions = false});
  auto lake = FrozenLake::create({});
  const auto first = prompt.first_turn("", {.observation = (*lake)->reset(11)});
  auto ids = chat->opening(first);
  ASSERT_TRUE(ids.has_value());
  EXPECT_EQ(ids->size(), 21U);  // two borders, 16 cells, 3 newlines
  EXPECT_EQ(tokenizer->decode(*ids), chat->text(first).value());
  EXPECT_EQ(tokenizer->encode(answer_text(Action::up))->size(), 3U);
  const ChatMessage next = prompt.next_turn({.observation = "P√"});
  EXPECT_EQ(chat->following(next, "<answer>")->size(), 4U);
  EXPECT_EQ(tokenizer->decode(chat->following(next, "<answer><|im_end|>").value()),
            "\n<|im_start|>user\nP√<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(tokenizer->decode(chat->following(next, "<answer>").value()).substr(0, 11),
            "<|im_end|>\n");
}

TEST(Tokenizer, LongestWordWins) {
  auto tokenizer = make_word_tokenizer(
      {.specials = {"<pad>", "<|im_end|>"}, .words = {"a", "ab", "abc", "b", "c", "d"}});
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ(*(*tokenizer)->encode("abcabdab"), (std::vector<int32_t>{4, 3, 7, 3}));
  EXPECT_EQ((*tokenizer)->decode(std::vector<int32_t>{4, -1, 99, 7}), "abcd");
  EXPECT_EQ((*tokenizer)->token_id("ab"), 3);
  EXPECT_FALSE((*tokenizer)->token_id("x").has_value());
  EXPECT_EQ((*tokenizer)->vocab_size(), 8);
}

TEST(Tokenizer, NamesTheCharacterItCannotCover) {
  auto tokenizer = make_word_tokenizer(frozen_lake_vocabulary());
  auto ids = (*tokenizer)->encode("P_é");
  ASSERT_FALSE(ids.has_value());
  EXPECT_NE(ids.error().detail.find("no token for 'é' at offset 2"), std::string::npos);
  const std::vector<std::string> texts{"Go, é!"};
  auto wider = make_word_tokenizer(frozen_lake_vocabulary(texts));
  ASSERT_TRUE(wider.has_value());
  EXPECT_EQ((*wider)->decode(*(*wider)->encode("é!P Go")), "é!P Go");
}

TEST(Tokenizer, RefusesABrokenVocabulary) {
  EXPECT_FALSE(make_word_tokenizer({.specials = {"<pad>"}, .words = {"a"}}).has_value());
  EXPECT_FALSE(
      make_word_tokenizer({.specials = {"<pad>", "<|im_end|>"}, .words = {"a", "a"}}).has_value());
  EXPECT_FALSE(
      make_word_tokenizer({.specials = {"<pad>", "<|im_end|>"}, .words = {""}}).has_value());
}

}  // namespace
}  // namespace cohort::tasks
