// Rows of another system: what they become, and what is said of a bad one.
#include "tools/traj/import_rows.hpp"

#include <gtest/gtest.h>

namespace cohort::traj {
namespace {

/// A row with `more` (", \"key\": value") behind what every row has.
std::string row(const std::string& more = "", const std::string& logprobs = "[-0.5, -1]") {
  return R"({"group": "g", "tokens": [7, 8, 9], "mask": [0, 1, 1], "rewards": 1, "logprobs": )" +
         logprobs + more + "}";
}

std::string refusal(const std::string& text) {
  ImportedRows rows("rows.jsonl", "run");
  const auto added = rows.add(text, 17);
  return added ? "" : added.error().detail;
}

TEST(ImportRows, ALongValueIsNotEchoed) {
  const std::string text = refusal(row(R"(, "index": ")" + std::string(10000, 'x') + "\""));
  EXPECT_LT(text.size(), 300U);
  EXPECT_NE(text.find("rows.jsonl"), std::string::npos) << text;
}

TEST(ImportRows, ARowIsATrajectoryOfTraining) {
  ImportedRows rows("rows.jsonl", "theirs");
  ASSERT_TRUE(rows.add(row(R"(, "values": [0.25, 0.5], "prompt": "1+1=", "response": "2")"), 1));
  ASSERT_TRUE(rows.add(R"({"group": 3, "step": 2, "index": 5, "tokens": [7, 8, 9, 4],
                           "mask": [false, true, false, true], "logprobs": [null, -0.5, null, -1],
                           "values": [0, 1, 0, 2], "rewards": {"math": 1, "form": -0.25}})",
                       2));
  const auto& found = rows.trajectories();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].key, (proto::TrajectoryKey{proto::TrajectoryKind::train, 1, 0, 0}));
  EXPECT_EQ(found[0].prompt_id, "g");
  EXPECT_EQ(found[0].behavior_logp, (std::vector<float>{0, -0.5f, -1}));
  EXPECT_EQ(found[0].values, (std::vector<float>{0, 0.25f, 0.5f}));
  ASSERT_EQ(found[0].turns.size(), 1U);
  EXPECT_EQ(found[0].turns[0].observation, "1+1=");
  EXPECT_EQ(found[0].turns[0].response_begin, 1U);
  EXPECT_EQ(found[1].key, (proto::TrajectoryKey{proto::TrajectoryKind::train, 2, 1, 5}));
  EXPECT_EQ(found[1].score, 0.75);
  EXPECT_EQ(found[1].turns.size(), 2U) << "each run of sampled tokens is a turn";
  for (const auto& t : found) EXPECT_TRUE(proto::validate(t));
  const ImportedShape shape = shape_of(found);
  EXPECT_EQ(shape.groups, 1U);
  EXPECT_EQ(shape.group_size, 1U);
  EXPECT_EQ(shape.tokens, 4U);
}

TEST(ImportRows, ABadRowIsNamedByFileLineAndKey) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "not a JSON object"},
      {row(R"(, "ref_logprob": [0, 0])"), "unknown key 'ref_logprob'"},
      {R"({"group": 1, "mask": [0, 1]})", "'tokens' is missing"},
      {R"({"group": 1, "tokens": [1, -2]})", "'tokens': entry 1 is -2"},
      {R"({"group": 1, "tokens": [1, 2], "mask": [0, 2]})", "'mask': entry 1 is 2"},
      {R"({"group": 1, "tokens": [1, 2], "mask": [1, 1]})", "'mask': entry 0 is 1"},
      {row("", "[-1]"), "'logprobs' has 1 entries; wanted: 3 (one per token) or 2"},
      {row("", "[-1, null]"), "'logprobs': entry 1 is null"},
      {R"({"group": 1, "tokens": [1, 2], "mask": [0, 1], "logprobs": [-1]})",
       "'rewards' is missing"},
      {row(R"(, "step": 0)"), "'step' is 0"},
      {row(R"(, "index": -1)"), "'index' is -1"},
      {row(R"(, "prompt": [1])"), "'prompt' is array"}};
  for (const auto& [text, wanted] : cases) {
    const std::string said = refusal(text);
    EXPECT_EQ(said.find("rows.jsonl:17: "), 0U) << said;
    EXPECT_NE(said.find(wanted), std::string::npos) << said << " instead of " << wanted;
  }
}

TEST(ImportRows, RowsAgreeWithEachOther) {
  ImportedRows rows("rows.jsonl", "run");
  ASSERT_TRUE(rows.add(row(), 1));
  const auto twice = rows.add(row(R"(, "index": 0)"), 2);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().detail, "rows.jsonl:2: group g of step 1 has an index 0 already");
  const auto more = rows.add(row(R"(, "values": [1, 2])"), 3);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().detail, "rows.jsonl:3: 'values': all rows have it, or none");
}

}  // namespace
}  // namespace cohort::traj
