// The rule rewards: every scorer row of verl's (spec), own rows at the edges, options, errors.
#include "runtime/tasks/rule_rewards.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort::tasks {
namespace {

std::unique_ptr<Reward> rule(std::string_view type, std::string_view config = "{}") {
  auto made = make_rule_reward(type, config);
  EXPECT_TRUE(made.has_value()) << made.error().detail;
  return made ? std::move(*made) : nullptr;
}

RewardResult judge(Reward& reward, const RewardRow& row) {
  std::vector<RewardResult> results = reward.score({&row, 1});
  EXPECT_EQ(results.size(), 1u);
  return results.front();
}

RewardRow row_of(std::string response, std::string truth) {
  RewardRow row;
  row.response = std::move(response);
  row.ground_truth = std::move(truth);
  return row;
}

struct Row {
  const char* response;
  const char* truth;
  double score;
  const char* detail = nullptr;  // nullptr: any
};

void expect_rows(std::string_view type, std::string_view config, const std::vector<Row>& rows) {
  auto reward = rule(type, config);
  ASSERT_NE(reward, nullptr);
  for (const Row& row : rows) {
    RewardResult result = judge(*reward, row_of(row.response, row.truth));
    EXPECT_EQ(result.score, row.score)
        << type << ": " << row.response << " / " << row.truth << " -> " << result.detail;
    EXPECT_EQ(result.error, "");
    if (row.detail != nullptr) {
      EXPECT_EQ(result.detail, row.detail) << row.response;
    }
  }
}

// ---- gsm8k

TEST(Gsm8k, StrictScoresAsVerl) {
  std::string far = "#### 18" + std::string(301, 'x');
  expect_rows("gsm8k", "{}",
              {{"#### 1,234", "1234", 1, "pred 1234"},
               {"#### $18", "18", 0, "no '#### number'"},
               {"#### 18.00", "18", 0, "pred 18.00"},
               {"#### 18.", "18", 0, "pred 18."},
               {"#### -3", "-3", 1},
               {"#### 5\n#### 6", "6", 1},
               {far.c_str(), "18", 0},
               {"####18", "18", 0},
               {"#### 18 dollars", "18", 1},
               {"#### 18 #### x", "18", 1, "pred 18"},
               {"", "18", 0}});
}

TEST(Gsm8k, TheLast300CharactersAreCharactersNotBytes) {
  std::string near = "#### 18 ";
  for (int i = 0; i < 292; ++i) near += "é";
  expect_rows("gsm8k", "{}", {{near.c_str(), "18", 1}});
  expect_rows("gsm8k", "{}", {{(near + "é").c_str(), "18", 0}});
}

TEST(Gsm8k, FlexibleScoresAsVerl) {
  expect_rows("gsm8k", R"({"method": "flexible"})",
              {{"the answer is 18.", "18", 0, "pred 18."},
               {"1,234", "1234", 0, "pred 1,234"},
               {"a . 7 .", "7", 1, "pred 7"},
               {"no number", "7", 0, "no number"},
               {". .", "7", 0, "pred ."},
               {"-4 apples", "-4", 1}});
}

TEST(Gsm8k, FormatScoreIsForAWrongNumberOnly) {
  expect_rows("gsm8k", R"({"format_score": 0.1, "score": 2})",
              {{"#### 17", "18", 0.1}, {"#### 18", "18", 2}, {"17", "18", 0}});
  auto reward = rule("gsm8k");
  RewardResult right = judge(*reward, row_of("#### 18", "18"));
  EXPECT_EQ(right.parts, (std::vector<std::pair<std::string, double>>{{"acc", 1}, {"format", 1}}));
}

// ---- math

TEST(Math, ScoresAsVerl) {
  expect_rows("math", "{}",
              {{"\\boxed{\\frac12}", "\\frac{1}{2}", 1},
               {"\\boxed{0.5}", "\\frac{1}{2}", 1},
               {"\\boxed{1/2}", "\\frac{1}{2}", 1, "pred \\frac{1}{2}"},
               {"\\boxed{ x=3}", "3", 1, "pred 3"},
               {"\\boxed{10\\%}", "10", 1},
               {"\\boxed 7", "7", 1},
               {"\\boxed{1} \\boxed{2}", "2", 1},
               {"\\boxed{\\sqrt3}", "\\sqrt{3}", 1},
               {"\\boxed{12\\text{ cm}}", "12", 1},
               {"\\boxed{.5}", "0.5", 1},
               {"\\boxed{\\dfrac{3}{4}}", "\\frac{3}{4}", 1},
               {"\\boxed{1{,}000}", "1000", 0},
               {"7", "7", 0, "no \\boxed{}"}});
}

TEST(Math, Edges) {
  expect_rows("math", "{}",
              {{"\\boxed{\\frac{\\frac{1}{2}}{3}}", "\\frac{\\frac{1}{2}}{3}", 1},
               {"\\boxed{a", "a", 0},
               {"\\fbox{3}", "3", 0},
               {"\\boxed{}", "", 1},
               {"\\boxed{\\left(1,2\\right)}", "(1,2)", 1},
               {"\\boxed{90^\\circ}", "90", 1},
               {"\\boxed{long=3}", "3", 0},
               {"\\boxed{\\frac}", "\\frac", 1},
               {"\\boxed{-1/2}", "-\\frac{1}{2}", 0},
               {"\\boxed{01/2}", "\\frac{1}{2}", 0}});
}

// ---- math_dapo

TEST(MathDapo, ScoresAsVerl) {
  expect_rows("math_dapo", "{}",
              {{"Answer: 34", "34", 1, "pred 34"},
               {"answer : $34$", "34", 1},
               {"Answer: 3\nAnswer: 4", "4", 1},
               {"34", "34", -1, "pred [INVALID]"},
               {"Answer: \\boxed{34}", "34", 1},
               {"Answer: 34 dollars", "34", 1},
               {"Answer: 1,000", "1000", 1},
               {"Answer: x = 34", "34", 1},
               {"Answer: \\frac12", "\\frac{1}{2}", 1},
               {"ANSWER:34", "34", 1},
               {"Answer:\n34", "34", 1},
               {"Answer:", "34", -1, "pred [INVALID]"}});
  auto reward = rule("math_dapo");
  RewardResult wrong = judge(*reward, row_of("Answer: 35", "34"));
  EXPECT_EQ(wrong.parts, (std::vector<std::pair<std::string, double>>{{"acc", 0}}));
}

TEST(MathDapo, StrictBoxNeedsTheBoxInTheLast100Characters) {
  std::string far = "\\boxed{34}" + std::string(101, 'x');
  expect_rows("math_dapo", R"({"strict_box": true})",
              {{"\\boxed{34}", "34", 1}, {"Answer: 34", "34", -1}, {far.c_str(), "34", -1}});
}

// ---- exact

TEST(Exact, TextBehindTheLastMarkerOfAFinishedAnswer) {
  expect_rows("exact", R"({"marker": ";"})",
              {{"2+7=9,1+0=1,;19", "19", 1, "pred 19"},
               {"19", "19", 0, "no ';'"},
               {";1;19 ", "19", 1},
               {";190", "19", 0, "pred 190"}});
  expect_rows("exact", "{}", {{"<<6+7=13>>####13", "13", 1}});
  auto strict = rule("exact"), loose = rule("exact", R"({"requires_finish": false})");
  RewardRow cut = row_of("#### 19", "19");
  cut.is_finished = false;
  EXPECT_EQ(judge(*strict, cut).score, 0);
  EXPECT_EQ(judge(*loose, cut).score, 1);
}

// ---- multiple_choice

TEST(MultipleChoice, TakesTheLetterThatWasChosen) {
  expect_rows("multiple_choice", "{}",
              {{"so \\boxed{B}", "B", 1, "pred B"},
               {"so \\boxed{\\text{(B)}}", "(B)", 1},
               {"so \\boxed{B. seven}", "B", 1},
               {"\\boxed{A} no, \\boxed{C}", "C", 1},
               {"The answer is (d).", "D", 1},
               {"The answer is: **C**", "C", 1},
               {"the answer is B because", "B", 1},
               {"I choose (A) over (B)", "B", 1},
               {"B", "B", 1},
               {"B) seven", "B", 1},
               {"A dog barks", "A", 0, "no choice"},
               {"<think>\\boxed{A}</think>\\boxed{B}", "B", 1},
               {"<think>\\boxed{B}", "B", 0, "the thought does not end"},
               {"\\boxed{AB}", "A", 0}});
  expect_rows("multiple_choice_boxed", "{}", {{"The answer is B", "B", 0}, {"\\boxed{B}", "B", 1}});
  auto reward = rule("multiple_choice", R"({"letters": "abcd"})");
  EXPECT_NE(judge(*reward, row_of("\\boxed{E}", "E")).error, "");
}

// ROLL's grades of a letter and its box; the repetitions weigh always, the length by a factor.
TEST(CrossThinkQa, GradesAsRoll) {
  const std::string right = "so \\boxed{B}", bare = "the answer is B", wrong = "so \\boxed{C}",
                    off = "I think C", open = "\\boxed{} \\boxed{B", thought = "<think>\\boxed{C}";
  const std::string thoughtful = thought + "</think>\n" + right;
  expect_rows("crossthinkqa", R"({"reward_type": "loose"})",
              {{right.c_str(), "B. seven", 1, "pred B"},
               {bare.c_str(), "B", 1},
               {wrong.c_str(), "B", -1},
               {off.c_str(), "B", -1}});
  expect_rows("crossthinkqa", R"({"reward_type": "soft"})",
              {{right.c_str(), "B", 1},
               {bare.c_str(), "B", 0.5},
               {wrong.c_str(), "B", -0.5},
               {off.c_str(), "B", -1},
               {"no letter", "B", -1, "no capital letter"},
               {open.c_str(), "B", 0.5},
               {thoughtful.c_str(), "B", 1},
               {thought.c_str(), "C", 1}});
  expect_rows("crossthinkqa", R"({"reward_type": "strict"})",
              {{right.c_str(), "B", 1},
               {bare.c_str(), "B", -1},
               {wrong.c_str(), "B", -1},
               {off.c_str(), "B", -1}});
  expect_rows("crossthinkqa", "{}", {{right.c_str(), "B", 1}, {off.c_str(), "B", 0}});
  auto soft = rule("crossthinkqa", R"({"reward_type": "soft"})");
  RewardRow row = row_of("a b c a b c a b \\boxed{B}", "B");  // 3 of 7 3-grams are new twice
  EXPECT_NEAR(judge(*soft, row).score, 1 - 0.5 * 3.0 / 7, 1e-12);
  auto timed =
      rule("crossthinkqa", R"({"reward_type": "soft", "response_length_penalty_coef": 0.4})");
  for (const auto& [tokens, length] :
       {std::pair{99U, -0.5}, {100U, -0.5}, {250U, -0.25}, {400U, 0.0}, {401U, 0.0}}) {
    row = row_of(right, "B");
    row.response_tokens = tokens;
    EXPECT_NEAR(judge(*timed, row).score, 1 + 0.4 * length, 1e-12) << tokens;
  }
  EXPECT_NE(judge(*soft, row_of("B", "")).error, "");
}

// ---- format, overlong, length, repetition

TEST(Format, TagsInTheirOrderOrAPattern) {
  expect_rows("format", "{}",
              {{"<think>a</think><answer>b</answer>", "", 1, ""},
               {" <think>a</think>\n<answer>b</answer>\n", "", 1},
               {"<think>a</think>b", "", 0, "no <answer> where it belongs"},
               {"<answer>b</answer><think>a</think>", "", 0},
               {"<think>a</think><answer>b", "", 0, "no </answer>"},
               {"<think>a<think>b</think><answer>b</answer>", "", 0},
               {"<think>a</think><answer>b</answer> and", "", 0, "text behind the last tag"}});
  expect_rows("format", R"({"pattern": "^#+ \\d+$", "otherwise": -1})",
              {{"## 12", "", 1}, {"12", "", -1}});
}

RewardRow of_length(uint32_t tokens) {
  RewardRow row;
  row.response_tokens = tokens;
  return row;
}

TEST(Overlong, SoftPunishmentAsVerlAndCappedAsTrl) {
  auto verl = rule("overlong", R"({"max_response_length": 20480, "buffer": 4096, "factor": 1})");
  const std::pair<uint32_t, double> k_rows[] = {
      {16000, 0}, {16384, 0}, {18432, -.5}, {20480, -1}, {24576, -2}};
  for (auto [tokens, score] : k_rows)
    EXPECT_DOUBLE_EQ(judge(*verl, of_length(tokens)).score, score) << tokens;
  auto trl = rule("overlong", R"({"max_response_length": 100, "buffer": 20, "cap": true})");
  EXPECT_DOUBLE_EQ(judge(*trl, of_length(50)).score, 0);
  EXPECT_DOUBLE_EQ(judge(*trl, of_length(90)).score, -.5);
  EXPECT_DOUBLE_EQ(judge(*trl, of_length(110)).score, -1);
}

TEST(Length, OnALineOrHalfACosine) {
  auto linear = rule("length", R"({"min": 100, "max": 300})");
  auto cosine = rule("length", R"({"shape": "cosine", "max": 100, "at_min": 1, "at_max": 0})");
  EXPECT_DOUBLE_EQ(judge(*linear, of_length(50)).score, 0);
  EXPECT_DOUBLE_EQ(judge(*linear, of_length(200)).score, -.5);
  EXPECT_DOUBLE_EQ(judge(*linear, of_length(900)).score, -1);
  EXPECT_DOUBLE_EQ(judge(*cosine, of_length(0)).score, 1);
  EXPECT_NEAR(judge(*cosine, of_length(50)).score, .5, 1e-12);
  EXPECT_NEAR(judge(*cosine, of_length(25)).score, (1 + std::sqrt(.5)) / 2, 1e-12);
}

TEST(Repetition, TheShareOfNGramsThatWereThereBefore) {
  auto reward = rule("repetition", R"({"n": 2})");
  EXPECT_EQ(judge(*reward, row_of("a b c d", "")).score, 0);
  EXPECT_DOUBLE_EQ(judge(*reward, row_of("a b A  b", "")).score, -1.0 / 3);
  EXPECT_EQ(judge(*reward, row_of("a a a a a", "")).score, -.75);
  EXPECT_EQ(judge(*reward, row_of("a", "")).score, 0);
  auto characters = rule("repetition", R"({"n": 1, "unit": "character", "penalty": -2})");
  EXPECT_DOUBLE_EQ(judge(*characters, row_of("好好 学", "")).score, -2.0 / 3);
}

// ---- ifeval

struct Constraint {
  const char* id;
  const char* kwargs;
  const char* follows;
  const char* breaks;
};

const Constraint k_constraints[] = {
    {"keywords:existence", R"({"keywords": ["Apple", "pear"]})", "an apple, a Pear", "an apple"},
    {"keywords:frequency", R"({"keyword": "so", "frequency": 2, "relation": "at least"})",
     "so and so", "so"},
    {"keywords:frequency", R"({"keyword": "so", "frequency": 2, "relation": "less than"})", "so",
     "so and so"},
    {"keywords:forbidden_words", R"({"forbidden_words": ["cat"]})", "a catalogue", "a Cat!"},
    {"keywords:letter_frequency",
     R"({"letter": "q", "let_frequency": 2, "let_relation": "at least"})", "Quiet queen", "quiet"},
    {"language:response_language", R"({"language": "ko"})", "안녕하세요 여러분", "hello all"},
    {"length_constraints:number_sentences", R"({"num_sentences": 2, "relation": "at least"})",
     "One. Two!", "Dr. Who came"},
    {"length_constraints:number_words", R"({"num_words": 3, "relation": "less than"})", "two words",
     "three words here"},
    {"length_constraints:number_paragraphs", R"({"num_paragraphs": 2})", "one\n***\ntwo",
     "one\n\ntwo"},
    {"length_constraints:nth_paragraph_first_word",
     R"({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"})", "First.\n\nThen, more.",
     "First.\n\nMore then."},
    {"detectable_content:number_placeholders", R"({"num_placeholders": 2})", "[name] at [place]",
     "[name]"},
    {"detectable_content:postscript", R"({"postscript_marker": "P.P.S"})", "Bye.\nP. P.S more",
     "Bye."},
    {"detectable_format:number_bullet_lists", R"({"num_bullets": 2})", "* a\n- b", "* a"},
    {"detectable_format:constrained_response", "{}", "My answer is maybe.", "Maybe."},
    {"detectable_format:number_highlighted_sections", R"({"num_highlights": 2})",
     "*one* and **two**", "*one* and ** **"},
    {"detectable_format:multiple_sections", R"({"section_spliter": "Section", "num_sections": 2})",
     "Section 1\na\nSection 2\nb", "Section 1\na"},
    {"detectable_format:json_format", "{}", "```json\n{\"a\": 1}\n```", "{a: 1}"},
    {"detectable_format:title", "{}", "<<Joy>>\ntext", "<Joy>"},
    {"combination:two_responses", "{}", "one ****** two", "one ****** one"},
    {"combination:repeat_prompt", R"({"prompt_to_repeat": "Say hi."})", "say hi. Hi.", "Hi."},
    {"startend:end_checker", R"({"end_phrase": "Any more?"})", "text. any more?\"", "any more? no"},
    {"startend:quotation", "{}", "\"all\"", "\"all"},
    {"change_case:capital_word_frequency",
     R"({"capital_frequency": 2, "capital_relation": "at least"})", "BIG and LOUD", "BIG"},
    {"change_case:english_capital", "{}", "ALL 1!", "All"},
    {"change_case:english_lowercase", "{}", "all 1!", "All"},
    {"punctuation:no_comma", "{}", "none; here", "one, here"},
};

RewardRow constrained(const char* response, const Constraint& c) {
  RewardRow row = row_of(response, "");
  row.columns =
      std::string(R"({"instruction_id_list": [")") + c.id + R"("], "kwargs": [)" + c.kwargs + "]}";
  return row;
}

TEST(IfEval, EachConstraintHoldsAndBreaks) {
  auto reward = rule("ifeval");
  for (const Constraint& c : k_constraints) {
    RewardResult held = judge(*reward, constrained(c.follows, c));
    EXPECT_EQ(held.error, "") << c.id;
    EXPECT_EQ(held.score, 1) << c.id << ": " << c.follows;
    RewardResult broken = judge(*reward, constrained(c.breaks, c));
    EXPECT_EQ(broken.score, 0) << c.id << ": " << c.breaks;
    EXPECT_EQ(broken.detail, std::string("not followed: ") + c.id);
  }
}

TEST(IfEval, StrictAndLooseShares) {
  RewardRow row = row_of("Sure, yes!\n\"all small, no comma\"", "");
  row.columns = R"({"extra_info": {"instruction_id_list": ["punctuation:no_comma",
      "startend:quotation", "change_case:english_lowercase"], "kwargs": [{}, null]}})";
  RewardResult all = judge(*rule("ifeval"), row);
  EXPECT_EQ(all.score, 0);
  EXPECT_EQ(all.parts,
            (std::vector<std::pair<std::string, double>>{{"strict", 0}, {"loose", 2.0 / 3}}));
  EXPECT_EQ(judge(*rule("ifeval", R"({"score": "share", "loose": true})"), row).score, 2.0 / 3);
}

TEST(IfEval, ARowThatCannotBeJudgedSaysWhy) {
  auto reward = rule("ifeval");
  EXPECT_NE(judge(*reward, row_of("x", "")).error.find("instruction_id_list"), std::string::npos);
  const Constraint typo = {"length_constraints:number_word", "{}", "", ""};
  EXPECT_NE(judge(*reward, constrained("x", typo)).error.find("number_words'?"), std::string::npos);
  const Constraint bare = {"length_constraints:number_words", "{}", "", ""};
  EXPECT_NE(judge(*reward, constrained("x", bare)).error.find("'num_words'"), std::string::npos);
  const Constraint french = {"language:response_language", R"({"language": "fr"})", "", ""};
  EXPECT_NE(judge(*reward, constrained("x", french)).error.find("'fr'"), std::string::npos);
}

// ---- the door

TEST(RuleRewards, UnknownNamesAndOptionsAreRefusedWithTheNearest) {
  auto type = make_rule_reward("gsm8");
  ASSERT_FALSE(type.has_value());
  EXPECT_EQ(type.error().detail, "no built-in reward 'gsm8'; did you mean 'gsm8k'?");
  const std::pair<const char*, const char*> k_wrong[] = {
      {R"({"methd": "strict"})", "unknown option 'methd'; did you mean 'method'?"},
      {R"({"method": "lazy"})", "method: 'lazy' is none of strict, flexible"},
      {R"({"format_score": "0"})", "format_score: \"0\" is no number"},
      {"[1]", "is no JSON object"},
      {"{", "is no JSON object"}};
  for (auto [config, message] : k_wrong) {
    auto made = make_rule_reward("gsm8k", config);
    ASSERT_FALSE(made.has_value()) << config;
    EXPECT_EQ(made.error().code, Errc::config);
    EXPECT_NE(made.error().detail.find(message), std::string::npos) << made.error().detail;
  }
  EXPECT_FALSE(make_rule_reward("overlong").has_value());
  EXPECT_FALSE(make_rule_reward("length", R"({"min": 5, "max": 5})").has_value());
  EXPECT_FALSE(make_rule_reward("format", R"({"pattern": "("})").has_value());
  EXPECT_FALSE(make_rule_reward("repetition", R"({"n": 0})").has_value());
}

TEST(RuleRewards, EveryNameMakesARewardOrSaysWhatItNeeds) {
  for (const std::string& name : rule_reward_names()) {
    auto made = make_rule_reward(name, "");
    bool needs_options = name == "overlong" || name == "length";
    EXPECT_EQ(made.has_value(), !needs_options) << name;
    if (!made) {
      EXPECT_NE(made.error().detail.find("must be given"), std::string::npos) << name;
    }
  }
}

TEST(RuleRewards, DataSourcesAreDispatchedAsInVerl) {
  const std::pair<const char*, const char*> k_sources[] = {
      {"openai/gsm8k", "gsm8k"},
      {"lighteval/MATH", "math"},
      {"DigitalLearningGmbH/MATH-lighteval", "math"},
      {"HuggingFaceH4/MATH-500", "math"},
      {"math_dapo", "math_dapo"},
      {"math", "math_dapo"},
      {"math_dapo_reasoning", "math_dapo"},
      {"aime2024", "math_dapo"},
      {"numina_olympiads", "math_rule"},
      {"codeforces", "code_sandbox"},
      {"openai/gsm8k2", ""},
      {"mathematics", ""},
      {"", ""}};
  for (auto [source, reward] : k_sources) EXPECT_EQ(scorer_for_data_source(source), reward);
}

TEST(RuleRewards, ADetailIsShortAndEndsBetweenCharacters) {
  std::string text = "#### a";
  for (int i = 0; i < 1000; ++i) text += "é";
  RewardRow row;
  row.response = text;
  row.ground_truth = "a";
  const std::string detail = (*make_rule_reward("exact"))->score({&row, 1}).front().detail;
  EXPECT_EQ(detail.size(), std::string("pred ").size() + 255u);
  EXPECT_TRUE(detail.ends_with("é"));
}

}  // namespace
}  // namespace cohort::tasks
