// The language of queries: what it says of a trajectory, what it refuses, random ones against a
// second evaluation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/proto/codec.hpp"
#include "runtime/proto/trajectory_head.hpp"
#include "runtime/query/expression.hpp"
#include "tests/support/random_trajectory.hpp"

namespace cohort::query {
namespace {

proto::Trajectory sample() {
  proto::Trajectory x;
  x.key = {proto::TrajectoryKind::train, 7, 2, 3};
  x.stop_reason = "goal";
  x.score = 0.5;
  x.weight_version_min = 4;
  x.weight_version_max = 6;
  x.tokens = {1, 2, 3, 4};
  x.response_mask = {0, 1, 1, 0};
  x.behavior_logp = {0, -1, -3, 0};
  x.reward_parts = {{"math/acc", 1, 0.5, ""}, {"form", -0.25, 1, ""}};
  x.metrics = {{"steps", 12}};
  x.turns = {{1, 3, 1, true, true, "1+1=", "it is <answer>2</answer>"}};
  return x;
}

std::string refusal(std::string_view query) {
  const auto parsed = Expression::parse(query);
  return parsed ? "" : parsed.error().detail;
}

TEST(Query, SaysWhatIsTrueOfATrajectory) {
  const proto::Trajectory x = sample();
  for (const char* query :
       {"step == 7 and group == 2 and index == 3", "score >= .5 and not score > 0.5",
        "kind == 'train' and stop_reason != \"length\"", "reward.form < 0 and metric.steps == 12",
        "reward[\"math/acc\"] == 1", "version - version_min == 2", "length == 4 and sampled == 2",
        "logp_mean == -2 and logp_min == -3", "response contains '<answer>' and turns == 1",
        "text ~ '1\\+1=.*\\d</answer>$' and text !~ 'three'", "not masked == true or false",
        "2 + 3 * -4 == -10 and 7 % 4 == 3 and (2 + 3) * 4 == 20 and 8 / 4 / 2 == 1",
        "true or false and false", "'it\\'s' == \"it's\" and 'a\\nb' contains '\\n'",
        "'a' < 'b' and greedy == false"}) {
    const auto parsed = Expression::parse(query, Type::truth);
    ASSERT_TRUE(parsed) << parsed.error().detail;
    EXPECT_TRUE(parsed->holds(x)) << query;
  }
}

TEST(Query, AnAbsentNumberIsInNoComparison) {  // QUERY-1
  const proto::Trajectory x = sample();
  for (const char* sign : {"<", "<=", ">", ">=", "==", "!="})
    for (const std::string& query :
         {std::string("metric.none ") + sign + " 0", std::string("0 ") + sign + " reward.none * 2"})
      EXPECT_FALSE(Expression::parse(query, Type::truth)->holds(x)) << query;
  EXPECT_TRUE(std::isnan(Expression::parse("ref_logp_mean", Type::number)->number(x)));
}

TEST(Query, ErrorsSayWhatAndWhere) {
  const std::pair<const char*, const char*> k_cases[] = {
      {"", "is missing at its end"},
      {"score >", "a field, number, text or ( is missing at its end"},
      {"scor > 1",
       "no field 'scor'; did you mean 'score'? (traj fields lists them) at character 1"},
      {"score = 1", "'=' is no sign (equality is ==) at character 7"},
      {"score > 'a'", "a text stands where '>' needs a number at character 7"},
      {"score and true", "a number stands where 'and' needs a truth at character 7"},
      {"score ~ 'x'", "a number stands where '~' needs a text"},
      {"text ~ '('", "missing closing parenthesis"},
      {"text ~ response", "no regular expression in quotes at character 8"},
      {"0 < score < 1", "two comparisons in a row (write and) at character 11"},
      {"true < false", "truths have no order"},
      {"(score", "a closing ) is missing at its end"},
      {"score 1", "an operator or the end is missing at character 7"},
      {"'open", "closing quote is missing at character 1"},
      {"3x", "a letter directly behind a number at character 2"},
      {"1e999", "a number that no double holds"},
      {"reward", "write reward.NAME or reward[\"NAME\"]"},
      {"score @ 1", "no such sign at character 7: '@ 1'"}};
  for (const auto& [query, part] : k_cases)
    EXPECT_NE(refusal(query).find(part), std::string::npos) << query << " -> " << refusal(query);
  EXPECT_NE(Expression::parse("score", Type::truth).error().detail.find("a truth is needed"),
            std::string::npos);
}

TEST(Query, SizeAndDepthAreBounded) {
  EXPECT_EQ(refusal(std::string(64, '(') + "1" + std::string(64, ')')), "");
  EXPECT_NE(refusal(std::string(65, '(') + "1" + std::string(65, ')')).find("nested"),
            std::string::npos);
  EXPECT_NE(refusal(std::string(65, '-') + "1").find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(refusal(std::string(4097, ' ')).find("4097 bytes"), std::string::npos);
  std::string chain = "1";
  for (int i = 0; i < 1000; ++i) chain += "+1";
  EXPECT_NE(refusal(chain).find("more than 1000 parts"), std::string::npos);
}

/// A random query of numbers with its value, worked out beside it.
std::pair<std::string, double> random_number(std::mt19937& rng, int depth) {
  const auto pick = [&](unsigned n) { return static_cast<unsigned>(rng() % n); };
  if (depth == 0 || pick(4) == 0) {
    if (pick(3) == 0) return {"step", 7};
    const unsigned n = pick(100);
    return {std::to_string(n), n};
  }
  const auto [a, x] = random_number(rng, depth - 1);
  const auto [b, y] = random_number(rng, depth - 1);
  switch (pick(4)) {
    case 0:
      return {"(" + a + " + " + b + ")", x + y};
    case 1:
      return {"(" + a + ") - (" + b + ")", x - y};  // binds loosest: needs its own brackets
    case 2:
      return {"(" + a + ") * (" + b + ")", x * y};
    default:
      return {"-(" + a + ")", -x};
  }
}

TEST(QueryProperty, RandomArithmeticHasItsValue) {
  std::mt19937 rng(7);
  for (int i = 0; i < 2000; ++i) {
    const auto [text, value] = random_number(rng, 5);
    const auto parsed = Expression::parse(text, Type::number);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().detail;
    EXPECT_EQ(parsed->number(sample()), value) << text;
  }
}

TEST(QueryProperty, NoTextBreaksTheParser) {
  const std::string k_words[] = {"score", "text", "(", ")",  "not ", "and ", "or ",      "'a'",
                                 "1",     "<",    "~", "-",  "+",    "[",    "reward.x", "metric",
                                 "!=",    " ",    "'", "\\", "%",    "true", "contains", "\xff"};
  std::mt19937 rng(11);
  const proto::Trajectory x = sample();
  int good = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (auto n = rng() % 8; n-- > 0;) text += k_words[rng() % std::size(k_words)];
    const auto parsed = Expression::parse(text);
    if (!parsed) {
      EXPECT_TRUE(parsed.error().detail.starts_with("query: ")) << text;
      continue;
    }
    ++good;
    EXPECT_EQ(parsed->evaluate(x).index(), static_cast<size_t>(parsed->type())) << text;
  }
  EXPECT_GT(good, 100) << "the words must make queries, too";
}

TEST(Query, FieldsAreSortedAndOfTheirType) {
  const auto all = fields();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const Field& a, const Field& b) { return a.name < b.name; }));
  for (const Field& field : all)
    EXPECT_EQ(field.get(sample()).index(), static_cast<size_t>(field.type)) << field.name;
}

// What a search asks of a header alone is what it would ask of the whole trajectory.
TEST(Query, FieldsThatNeedNoBodyAreThoseOfTheHead) {
  size_t with_body = 0;
  for (const Field& field : fields()) with_body += field.needs_body ? 1 : 0;
  EXPECT_EQ(with_body, 9U);
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Rng rng(seed);
    const proto::Trajectory whole = proto::test::random_trajectory(rng);
    const proto::Encoded encoded = proto::encode_batch({&whole, 1});
    const auto head = proto::decode_head(std::as_bytes(std::span(encoded.header)));
    ASSERT_TRUE(head) << head.error().detail;
    for (const Field& field : fields()) {
      if (field.needs_body) continue;
      EXPECT_EQ(field.get(*head), field.get(whole)) << field.name << ", seed " << seed;
    }
    for (const auto& [name, value] : whole.metrics)
      EXPECT_EQ(metric(*head, name), metric(whole, name));
    for (const proto::RewardPart& part : whole.reward_parts)
      EXPECT_EQ(reward_part(*head, part.name), reward_part(whole, part.name));
  }
  EXPECT_TRUE(Expression::parse("score > 1 or length > 5")->needs_body());
  EXPECT_TRUE(Expression::parse("response contains 'x'")->needs_body());
  EXPECT_FALSE(Expression::parse("reward.a > 1 and metric.b < 2 and not masked")->needs_body());
}

}  // namespace
}  // namespace cohort::query
