// math_rule: pairs of answers, where a response has its answer, hostile text, whole data sets.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/tasks/rule_rewards.hpp"
#include "runtime/tasks/scorers/math_answer.hpp"

namespace cohort::tasks {
namespace {

using math::same_answer;

TEST(MathRule, ATableOfPairs) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run by ctest";
  std::ifstream file(std::string(source) + "/tests/data/math_pairs.tsv");
  ASSERT_TRUE(file.good());
  size_t pairs = 0, number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    size_t first = line.find('\t'), second = line.find('\t', first + 1);
    ASSERT_TRUE(first == 1 && second != std::string::npos) << "line " << number;
    std::string a = line.substr(2, second - 2), b = line.substr(second + 1);
    bool expected = line[0] == '=';
    EXPECT_EQ(same_answer(a, b), expected) << "line " << number << ": " << a << " | " << b;
    EXPECT_EQ(same_answer(b, a), expected) << "line " << number << ": " << b << " | " << a;
    EXPECT_TRUE(same_answer(a, a)) << "line " << number;
    EXPECT_TRUE(same_answer(b, b)) << "line " << number;
    ++pairs;
  }
  EXPECT_GE(pairs, 450u);
}

RewardResult judge(const std::string& response, const std::string& truth,
                   const std::string& config = "{}", const std::string& prompt = "") {
  auto reward = make_rule_reward("math_rule", config);
  EXPECT_TRUE(reward.has_value());
  RewardRow row;
  row.response = response;
  row.ground_truth = truth;
  row.prompt = prompt;
  return (*reward)->score({&row, 1}).front();
}

struct Response {
  const char* text;
  const char* detail;
};

TEST(MathRule, TheAnswerOfAResponse) {
  const Response k_responses[] = {
      {"so \\boxed{5}", "pred 5"},
      {"\\boxed{4} no: \\boxed{5}", "pred 5"},
      {"\\boxed{\\frac{1}{2}}.", "pred \\frac{1}{2}"},
      {"\\boxed{ \\{1, 2\\} }", "pred \\{1,2\\}"},
      {"\\boxed 5$ then", "pred 5"},
      {"\\fbox{5}", "pred 5"},
      {"\\boxed{5} and \\boxed{6", "pred 5"},
      {"\\boxed{}", "an empty \\boxed{}"},
      // thoughts
      {"<think>\\boxed{4}</think>\\boxed{5}", "pred 5"},
      {"  <think>\n\\boxed{4}\n</think>\n\n\\boxed{5}", "pred 5"},
      {"<think>4", "the thought does not end"},
      {"<think>\\boxed{5}", "the thought does not end"},
      {"a</think>b</think>\\boxed{5}", "pred 5"},
      {"<think>a</think>\\boxed{5}<think>\\boxed{6}", "pred 5"},
      {"\\boxed{5} <think> or \\boxed{6}", "pred 5"},
      {"<think>\\boxed{5}</think>", "neither \\boxed{} nor a number"},
      // without a box
      {"6+7=13\n#### 13\n", "pred 13"},
      {"The answer is 42.", "pred 42"},
      {"The final answer is $\\dfrac{1}{2}$. I hope so.", "pred \\frac{1}{2}"},
      {"Answer: 3/4", "pred 3/4"},
      {"**Answer:** 12", "pred 12"},
      {"The answer is therefore 42 apples", "pred 42"},
      {"The answer is: \\(x^2\\)", "pred x^2"},
      {"the answer is 3. The answer is 4. So", "pred 4"},
      {"we get 3 and then 1,234.50 dollars", "pred 1234.5"},
      {"it falls by -3", "pred -3"},
      {"that is 10-3", "pred 3"},
      {"a share of 5%", "pred 5%"},
      {"所以答案是：5元。", "pred 5元"},
      {"答案为 $\\frac{1}{2}$。", "pred \\frac{1}{2}"},
      {"nothing", "neither \\boxed{} nor a number"},
      {"", "neither \\boxed{} nor a number"},
  };
  for (const Response& response : k_responses)
    EXPECT_EQ(judge(response.text, "5").detail, response.detail) << response.text;
  EXPECT_EQ(judge("the answer is 5", "5", R"({"boxed_only": true})").detail, "no \\boxed{}");
  EXPECT_EQ(judge("\\boxed{5}", "5", "{}", "Q <think>\n").detail, "the thought does not end");
  EXPECT_EQ(judge("a</think>\\boxed{5}", "5", "{}", "Q <think>\n").score, 1);
}

TEST(MathRule, AnOpeningThinkTagCostsNothing) {
  for (const char* response :
       {"<think>\nlong\n</think>\n\\boxed{5}", "long\n</think>\n\\boxed{5}", "\\boxed{5}",
        "\n<think></think>5 = \\boxed{5}", "<think>a</think><think>b</think>\\boxed{5}"})
    EXPECT_EQ(judge(response, "5").score, 1) << response;
}

TEST(MathRule, TheGroundTruthMayBeDressed) {
  for (const char* truth : {"5", "$5$", "\\boxed{5}", "so $\\boxed{5}$", "2+3=5\n#### 5", " 5 "})
    EXPECT_EQ(judge("\\boxed{5}", truth).score, 1) << truth;
  EXPECT_NE(judge("\\boxed{5}", "").error, "");
  EXPECT_NE(judge("\\boxed{5}", "  ").error, "");
}

TEST(MathRule, PercentByValueOnly) {
  EXPECT_EQ(judge("\\boxed{10\\%}", "10").score, 1);
  EXPECT_EQ(judge("\\boxed{10\\%}", "10", R"({"strict_percent": true})").score, 0);
  EXPECT_EQ(judge("\\boxed{10\\%}", "0.1", R"({"strict_percent": true})").score, 1);
}

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

/// MATH-1, MATH-2, MATH-3: what would cost without bounds ends, and equals itself.
TEST(MathRule, HostileTextEndsSoon) {
  const std::string k_texts[] = {
      repeated("(", 1400),
      repeated("{", 700) + "x" + repeated("}", 700),
      repeated("\\frac{1}{", 160) + "2" + repeated("}", 160),
      "2" + repeated("^9", 500),
      "9^{9^{9^{9^9}}}",
      "10^{1000000000000}",
      "3000!^{3000!}",
      repeated("3000!+", 200) + "1",
      "x" + repeated("!", 1400),
      repeated("-", 1400) + "1",
      repeated("1,", 700) + "1",
      repeated("x,", 700) + "y",
      repeated("\\sqrt{", 200) + "2" + repeated("}", 200),
      repeated("|x", 700),
      repeated("\\{", 600) + repeated("\\}", 600),
      repeated("\\sin", 340) + " x",
      "\\binom{1000000000000000000}{500000000000000000}",
      repeated("1=", 700) + "1",
      repeated("x<", 700) + "1",
      repeated("\\pm 1,", 200) + "2",
      std::string(1400, '\\'),
      std::string(100000, '7'),
      repeated("\\boxed{", 10000),
      repeated("\\text{", 200),
      repeated("1 \\\\ ", 250),
      repeated("\\lfloor ", 170),
      std::string("\0\x80\xff\xc3", 4),
  };
  for (const std::string& text : k_texts) {
    auto begin = std::chrono::steady_clock::now();
    same_answer(text, text + "+1");
    same_answer(text + "+2", text + "+1");
    judge(text, "1" + text);
    judge("\\boxed{" + text + "}", "5");
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 5) << text.substr(0, 20);  // seconds; a hang, not a benchmark
    EXPECT_TRUE(same_answer(text, text)) << text.substr(0, 20);
  }
}

/// The golds of data sets, by hand: COHORT_DATA_DIR=…/data. Gold is itself; the next row's is not.
TEST(MathRule, GoldsOfWholeDataSets) {
  const char* folder = std::getenv("COHORT_DATA_DIR");
  if (folder == nullptr) GTEST_SKIP() << "COHORT_DATA_DIR is not set";
  size_t rows = 0;
  for (const char* name : {"gsm8k/test.jsonl", "roll/math_benchmarks_sample.jsonl",
                           "roll/math_deepmath_sample.jsonl"}) {
    std::ifstream file(std::string(folder) + "/" + name);
    ASSERT_TRUE(file.good()) << name;
    std::vector<std::string> golds;
    for (std::string line; std::getline(file, line);) {
      auto row = nlohmann::json::parse(line);
      std::string answer = row.contains("answer") ? row["answer"].get<std::string>() : "";
      golds.push_back(answer.empty() ? row["ground_truth"].get<std::string>()
                                     : answer.substr(answer.rfind("#### ") + 5));
    }
    for (size_t i = 0; i < golds.size(); ++i) {
      const std::string &gold = golds[i], &next = golds[(i + 1) % golds.size()];
      std::string response = "<think>so</think>It is $\\boxed{" + gold + "}$.";
      EXPECT_EQ(judge(response, gold).score, 1) << name << ":" << i + 1 << ": " << gold;
      bool is_defined = next == "x=" + gold || gold == "x=" + next;  // one answer, written twice
      if (gold != next && !is_defined) {
        EXPECT_EQ(judge(response, next).score, 0)
            << name << ":" << i + 1 << ": " << gold << " | " << next;
      }
      ++rows;
    }
  }
  std::printf("%zu rows\n", rows);
}

}  // namespace
}  // namespace cohort::tasks
