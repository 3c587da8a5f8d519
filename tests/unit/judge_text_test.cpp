#include "runtime/plugin/http/judge_text.hpp"

#include <gtest/gtest.h>

#include "runtime/plugin/http/http_pool.hpp"
#include "runtime/plugin/http/http_reward.hpp"
#include "runtime/plugin/http/remote_reward.hpp"

namespace cohort::plugin {
namespace {

TEST(JudgeTemplate, FillsInOnePass) {
  auto prompt = JudgeTemplate::create("Q {prompt} R {response} G {ground_truth} S {data_source}");
  ASSERT_TRUE(prompt.has_value());
  tasks::RewardRow row;
  row.prompt = "{response}";
  row.response = "{ground_truth} {prompt}";
  row.ground_truth = "42";
  row.data_source = "{x}";
  EXPECT_EQ(prompt->fill(row), "Q {response} R {ground_truth} {prompt} G 42 S {x}");
}

TEST(JudgeTemplate, LeavesOtherBracesAlone) {
  auto prompt = JudgeTemplate::create(R"({"score": 1} {} {{response}} { prompt} {1} {)");
  ASSERT_TRUE(prompt.has_value()) << prompt.error().to_string();
  tasks::RewardRow row;
  row.response = "x";
  EXPECT_EQ(prompt->fill(row), R"({"score": 1} {} {x} { prompt} {1} {)");
}

TEST(JudgeTemplate, RefusesUnknownAndMissingPlaceholders) {
  EXPECT_EQ(JudgeTemplate::create("{response} {reference}").error().detail,
            "template: there is no {reference}: {prompt}, {response}, {ground_truth} and "
            "{data_source} are filled in");
  EXPECT_EQ(JudgeTemplate::create("Is {prompt} right?").error().detail,
            "template: {response}, the answer to judge, is not in it");
  EXPECT_TRUE(JudgeTemplate::create(default_judge_template()).has_value());
}

TEST(Verdict, Scores) {
  struct Case {
    const char* reply;
    double scale, score;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"Score: 0.7", 0, 0.7},
                                   {"Score: 7", 0, 0.7},
                                   {"Score: 1", 0, 1},
                                   {"Score: 1", 10, 0.1},
                                   {"score:10", 0, 1},
                                   {"SCORE : 25", 0, 1},
                                   {"Score: -3", 0, 0},
                                   {"Score: 85", 100, 0.85},
                                   {"Score: 7/10", 0, 0.7},
                                   {"Score: 1 / 5", 0, 0.2},
                                   {"Score: 8/0", 0, 0.8},
                                   {"**Score:** 8.", 0, 0.8},
                                   {"**Score**: 8\n", 0, 0.8},
                                   {"Final score: __4__", 0, 0.4},
                                   {"clarity score: 9\nYes.\nScore: 2", 0, 0.2},
                                   {"Score: n/a then Score: 3 then Score: none", 0, 0.3},
                                   {"<think>Score: 9, no, yes</think>\nScore: 2", 0, 0.2},
                                   {"Yes", 0, 1},
                                   {"no.", 0, 0},
                                   {"The answer is correct: YES", 0, 1},
                                   {"I know that nothing is noted here, yes", 0, 1},
                                   {"No, although one could say yes to a part", 0, 0},
                                   {"There is no doubt. Yes!", 0, 1}}) {
    auto score = read_verdict(c.reply, c.scale);
    ASSERT_TRUE(score.has_value()) << c.reply << ": " << score.error().to_string();
    EXPECT_DOUBLE_EQ(*score, c.score) << c.reply;
  }
}

TEST(Verdict, AReplyWithoutOneIsNoZero) {
  for (const char* reply :
       {"", "The answer is correct.", "Score: high", "Score 7", "noted, knows", "Score: nan",
        "Score: inf", "Both yes and no are fair.", "Score: 5</think>"}) {
    auto score = read_verdict(reply, 0);
    ASSERT_FALSE(score.has_value()) << reply << " is " << *score;
    EXPECT_EQ(score.error().code, Errc::invalid_argument);
  }
}

TEST(HttpUrl, ReadsWhatItCanReach) {
  EXPECT_EQ(parse_http_url("http://h:80/v1")->origin, "http://h:80");
  EXPECT_EQ(parse_http_url("http://h:80/v1")->path, "/v1");
  EXPECT_EQ(parse_http_url("https://example.org")->origin, "https://example.org");
  EXPECT_EQ(parse_http_url("https://example.org")->path, "/");
  EXPECT_EQ(parse_http_url("http://[::1]:8000/a/b")->origin, "http://[::1]:8000");
  for (const char* url : {"", "h:80", "ftp://h/", "http://", "http://:80/", "http://h:0/",
                          "http://h:99999/", "http://h:x/", "http://u:p@h/", "http://h/a b",
                          "http://h/a?key=1", "http://h/\r\nX: y", "//h/"})
    EXPECT_EQ(parse_http_url(url).error().code, Errc::config) << url;
}

TEST(RetryAfter, SecondsOrADate) {
  constexpr int64_t k_now = 1'792'591'200;  // 2026-10-21 14:00:00 UTC
  EXPECT_EQ(retry_after_seconds("7", k_now), 7.0);
  EXPECT_EQ(retry_after_seconds("0.5", k_now), 0.5);
  EXPECT_EQ(retry_after_seconds("Wed, 21 Oct 2026 14:00:30 GMT", k_now), 30.0);
  EXPECT_EQ(retry_after_seconds("Wed, 21 Oct 2026 13:00:30 GMT", k_now), 0.0);
  for (const char* value : {"", "-1", "soon", "7 s", "Wed, 21 Oct 2026"})
    EXPECT_EQ(retry_after_seconds(value, k_now), std::nullopt) << value;
}

TEST(RemoteResults, NumbersAndObjects) {
  const auto results = remote_results(
      R"({"results": [0.5, {"score": 1, "parts": {"acc": 1, "len": -0.5}, "detail": "ok"},)"
      R"( {"error": "no such task"}, {"score": "1"}, null, {"score": 1, "parts": {"a": "b"}}]})",
      6);
  ASSERT_EQ(results.size(), 6U);
  EXPECT_EQ(results[0].score, 0.5);
  EXPECT_EQ(results[1].score, 1);
  EXPECT_EQ(results[1].parts,
            (std::vector<std::pair<std::string, double>>{{"acc", 1}, {"len", -0.5}}));
  EXPECT_EQ(results[1].detail, "ok");
  EXPECT_EQ(results[2].error, "remote: no such task");
  EXPECT_EQ(results[3].error, "remote: a result has no number \"score\"");
  EXPECT_EQ(results[4].error, "remote: a result is neither a number nor an object: null");
  EXPECT_EQ(results[5].error, "remote: part \"a\" is no number");
  EXPECT_EQ(remote_results(R"({"scores": [1, 0]})", 2)[1].error, "");
}

TEST(RemoteResults, AWrongReplyIsAnErrorOfEveryRow) {
  for (const char* reply :
       {"", "oops", "[1, 2]", "{}", R"({"results": 3})", R"({"results": [1]})"}) {
    const auto results = remote_results(reply, 2);
    ASSERT_EQ(results.size(), 2U);
    for (const auto& result : results) EXPECT_TRUE(result.error.starts_with("remote: ")) << reply;
  }
  EXPECT_EQ(remote_results(R"({"results": [1]})", 2)[0].error, "remote: 1 results for 2 rows");
}

TEST(HttpReward, OptionsThatAreWrong) {
  auto judge = [](const char* config) {
    auto made = make_llm_judge(config, 1, 1);
    return made ? std::string("made") : made.error().to_string();
  };
  EXPECT_EQ(judge(R"({"model": "m"})"),
            "config: llm_judge: url is missing: http(s)://host:port/path");
  EXPECT_NE(judge(R"({"url": "http://h/v1"})").find("model"), std::string::npos);
  EXPECT_NE(judge(R"({"url": "http://h/v1", "model": "m", "temprature": 1})").find("temperature"),
            std::string::npos);
  EXPECT_NE(judge(R"({"url": "http://h/v1", "model": "m", "temperature": 3})").find("0..2"),
            std::string::npos);
  EXPECT_NE(judge(R"({"url": "http://h/v1", "model": "m", "template": "?"})").find("{response}"),
            std::string::npos);
  EXPECT_NE(judge(R"({"url": "h", "model": "m"})").find("llm_judge: url \"h\""), std::string::npos);
  EXPECT_EQ(judge(R"({"url": "http://h/", "model": "m", "api_key_env": "COHORT_NO_SUCH_KEY"})"),
            "config: llm_judge: api_key_env names COHORT_NO_SUCH_KEY, which is not set in the "
            "environment");
  EXPECT_NE(judge("[1]").find("llm_judge"), std::string::npos);
  EXPECT_EQ(make_remote_reward(R"({"url": "http://h/"})", 0, 1).error().code, Errc::config);
  EXPECT_EQ(make_remote_reward(R"({"url": "http://h/"})", 1, 100'000).error().code, Errc::config);
  EXPECT_EQ(make_remote_reward(R"({"url": "http://h/", "batch_rows": 0})", 1, 1).error().code,
            Errc::config);
}

}  // namespace
}  // namespace cohort::plugin
