// The bytes of format 1. A diff here breaks old streams and mixed clusters: see docs/wire.md.
// COHORT_UPDATE_GOLDEN=1 rewrites the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "runtime/proto/codec.hpp"
#include "runtime/proto/link_hello.hpp"

namespace cohort::proto {
namespace {

Trajectory sample(uint32_t index) {
  Trajectory x;
  x.run_id = "golden-run";
  x.key = {TrajectoryKind::val_greedy, 7, 2, index};
  x.attempt = 1;
  x.tag = "FrozenLake";
  x.seed = 0x0123456789abcdef;
  x.prompt_id = "p";
  x.weight_version_min = 6;
  x.weight_version_max = 7;
  x.stop_reason = "goal";
  x.generate_seconds = 0.5;
  x.env_seconds = 0.25;
  x.score = 0.75;
  x.reward_parts = {{"env", 1.0, 0.75, ""}, {"format", 0.0, 1.0, ""}};
  x.metrics = {{"moves", 2}};
  x.tokens = {10, 11, 12, 13, 14};
  x.response_mask = {0, 0, 1, 0, 1};
  x.behavior_logp = {0, 0, -0.5f, 0, -1.5f};
  x.token_versions = {0, 0, 6, 0, 7};
  if (index == 1) x.ref_logp = x.values = x.token_rewards = {1, 2, 3, 4, 5};
  x.turns = {{2, 3, 0, true, true, "P__\n__G", "<answer>Right</answer>"},
             {4, 5, 1, true, false, "_P_\n__G", std::string("\xff\x00", 2)}};
  return x;
}

void expect_golden(const std::string& name, const std::string& bytes) {
  std::string path = std::string(std::getenv("COHORT_SOURCE_DIR")) + "/tests/golden/data/" + name;
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr)
    std::ofstream(path, std::ios::binary) << bytes;
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path;
  std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(golden == bytes) << name << ": " << bytes.size() << " bytes differ from the golden "
                               << golden.size();
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(CodecGolden, TrajectoryBatch) {
  std::vector<Trajectory> batch = {sample(0), sample(1)};
  Encoded encoded = encode_batch(batch);
  expect_golden("trajectory_batch.header.bin", encoded.header);
  expect_golden("trajectory_batch.columns.bin", text_of(encoded.columns.bytes()));
  auto decoded = decode_batch(std::as_bytes(std::span(encoded.header)), encoded.columns.bytes());
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_EQ(*decoded, batch);
}

TEST(CodecGolden, Handshake) {
  std::string hello =
      encode_hello({1, 1, "golden-run", "rollout.0->reward", 5, 700, 1 << 20, 1000});
  expect_golden("link_hello.bin", hello);
  auto in = decode_hello(std::as_bytes(std::span(hello)));
  ASSERT_TRUE(in);
  EXPECT_EQ(encode_hello(*in), hello);
  std::string welcome = encode_welcome({1, 5, 2, 4, 1 << 26, 1 << 25, "reward"});
  expect_golden("link_welcome.bin", welcome);
  auto answer = decode_welcome(std::as_bytes(std::span(welcome)));
  ASSERT_TRUE(answer);
  EXPECT_EQ(encode_welcome(*answer), welcome);
  std::string reject = encode_reject({Errc::protocol, "run id"});
  expect_golden("link_reject.bin", reject);
  EXPECT_EQ(encode_reject(decode_reject(std::as_bytes(std::span(reject)))), reject);
}

}  // namespace
}  // namespace cohort::proto
