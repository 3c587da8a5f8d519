#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "runtime/proto/codec.hpp"
#include "runtime/proto/link_hello.hpp"

namespace cohort::proto {
namespace {

Trajectory good() {
  Trajectory x;
  x.key = {TrajectoryKind::train, 3, 1, 0};
  x.tokens = {1, 2, 3, 4};
  x.response_mask = {0, 0, 1, 1};
  x.behavior_logp = {0, 0, -1, -2};
  x.turns = {{2, 3, 0, true, true, "s", "a"}, {3, 4, 1, true, true, "t", "b"}};
  return x;
}

TEST(TrajectoryValidate, AcceptsWhatIsWhole) {
  EXPECT_TRUE(validate(good()));
  EXPECT_TRUE(validate(Trajectory{}));
  Trajectory x = good();
  x.behavior_logp[0] = std::numeric_limits<float>::quiet_NaN();  // not sampled: nobody reads it
  EXPECT_TRUE(validate(x));
}

TEST(TrajectoryValidate, NamesTheKeyAndTheField) {
  struct Row {
    std::function<void(Trajectory&)> harm;
    std::string word;
  };
  float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Row& row : std::initializer_list<Row>{
           {[](Trajectory& x) { x.ref_logp = {1}; }, "neither 0 nor 4"},
           {[](Trajectory& x) { x.response_mask[1] = 2; }, "response_mask[1]"},
           {[&](Trajectory& x) { x.behavior_logp[2] = nan; }, "behavior_logp[2]"},
           {[&](Trajectory& x) {
              x.ref_logp = {0, 0, 0, nan};
            },
            "ref_logp[3]"},
           {[&](Trajectory& x) { x.score = nan; }, "score"},
           {[](Trajectory& x) { x.weight_version_min = 5; }, "weight_version_min"},
           {[](Trajectory& x) { x.turns[1].response_end = 5; }, "turn range"},
           {[](Trajectory& x) { x.turns[1].response_begin = 2; }, "turn range"},
           {[](Trajectory& x) { x.turns[1].context_begin = 2; }, "context begins at 2"},
           {[](Trajectory& x) { x.key.kind = static_cast<TrajectoryKind>(9); }, "kind"}}) {
    Trajectory x = good();
    row.harm(x);
    auto result = validate(x);
    ASSERT_FALSE(result) << row.word;
    EXPECT_EQ(result.error().code, Errc::corrupt);
    EXPECT_NE(result.error().detail.find(row.word), std::string::npos) << result.error().detail;
    EXPECT_NE(result.error().detail.find("step 3"), std::string::npos);
  }
}

TEST(Trajectory, ATurnThatIsAskedAnewBeginsAContext) {
  Trajectory x = good();
  EXPECT_EQ(contexts_of(x), (std::vector<TokenRange>{{0, 4}}));
  x.tokens = {1, 2, 3, 4, 5, 6};
  x.response_mask = {0, 1, 0, 1, 0, 1};
  x.behavior_logp.assign(6, -1);
  x.turns = {{1, 2, 0, true, true, "s", "a", 0},
             {3, 4, 0, true, true, "t", "b", 2},
             {5, 6, 1, true, true, "u", "c", 2}};  // goes on in the context of the second
  ASSERT_TRUE(validate(x));
  EXPECT_EQ(contexts_of(x), (std::vector<TokenRange>{{0, 2}, {2, 6}}));
  Encoded encoded = encode_batch({&x, 1});
  auto decoded = decode_batch(std::as_bytes(std::span(encoded.header)), encoded.columns.bytes());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->front(), x);
  x.turns[2].context_begin = 6;
  encoded = encode_batch({&x, 1});
  EXPECT_FALSE(decode_batch(std::as_bytes(std::span(encoded.header)), encoded.columns.bytes()));
}

TEST(Codec, RefusesAColumnOfTheWrongLength) {
  Trajectory x = good();
  x.values = {1, 2};
  Encoded encoded = encode_batch({&x, 1});
  auto decoded = decode_batch(std::as_bytes(std::span(encoded.header)), encoded.columns.bytes());
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().detail.find("column 5 has 2 entries for 4 tokens"), std::string::npos);
}

TEST(Codec, RefusesColumnsOfAnotherBatch) {
  Trajectory x = good();
  Encoded encoded = encode_batch({&x, 1});
  auto decoded = decode_batch(std::as_bytes(std::span(encoded.header)),
                              encoded.columns.bytes().first(encoded.columns.size_bytes() - 64));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, Errc::corrupt);
}

TEST(Codec, EmptyBatch) {
  Encoded encoded = encode_batch({});
  auto decoded = decode_batch(std::as_bytes(std::span(encoded.header)), encoded.columns.bytes());
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->empty());
}

TEST(LinkHandshake, RejectOfAnUnknownCodeIsProtocol) {
  std::string bytes = encode_reject({static_cast<Errc>(200), "from the future"});
  Error error = decode_reject(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(error.code, Errc::protocol);
  EXPECT_EQ(error.detail, "from the future");
}

}  // namespace
}  // namespace cohort::proto
