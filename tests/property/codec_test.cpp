// Round trip of random trajectories, and hostile bytes: whatever arrives, the decoder answers.
#include "runtime/proto/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/proto/link_hello.hpp"
#include "runtime/proto/trajectory_head.hpp"
#include "tests/support/random_trajectory.hpp"

namespace cohort::proto {
namespace {

using test::random_trajectory;

uint64_t base_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<Trajectory> random_batch(Rng& rng) {
  std::vector<Trajectory> batch;
  for (uint64_t i = rng.below(5); i > 0; --i) batch.push_back(random_trajectory(rng));
  return batch;
}

TEST(CodecProperty, AHeadIsTheTrajectoryWithoutTurnsAndColumns) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 200; ++seed) {
    SCOPED_TRACE("COHORT_SEED=" + std::to_string(seed));
    Rng rng(seed);
    Trajectory x = random_trajectory(rng);
    const Encoded encoded = encode_batch({&x, 1});
    x.turns.clear();
    x.tokens.clear();
    x.response_mask.clear();
    for (auto* column :
         {&x.behavior_logp, &x.ref_logp, &x.teacher_logp, &x.values, &x.token_rewards})
      column->clear();
    x.token_versions.clear();
    const auto head = decode_head(bytes_of(encoded.header));
    ASSERT_TRUE(head) << head.error().to_string();
    EXPECT_EQ(*head, x);
    std::string cut = encoded.header.substr(0, rng.below(encoded.header.size()));
    EXPECT_FALSE(decode_head(bytes_of(cut)));
  }
}

TEST(CodecProperty, WhatIsEncodedComesBack) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 200; ++seed) {
    SCOPED_TRACE("COHORT_SEED=" + std::to_string(seed));
    Rng rng(seed);
    std::vector<Trajectory> batch = random_batch(rng);
    for (const Trajectory& x : batch) ASSERT_TRUE(validate(x)) << validate(x).error().to_string();
    Encoded encoded = encode_batch(batch);
    EXPECT_EQ(encoded.columns.size_bytes() % tensor::k_buffer_alignment, 0u);
    auto decoded = decode_batch(bytes_of(encoded.header), encoded.columns.bytes());
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(*decoded, batch);
    Encoded again = encode_batch(*decoded);
    EXPECT_EQ(again.header, encoded.header);
    EXPECT_TRUE(std::ranges::equal(again.columns.bytes(), encoded.columns.bytes()));
  }
}

/// Damages a copy: truncates, flips bits, or overwrites a run with one value.
std::string damage(Rng& rng, std::string bytes) {
  if (bytes.empty()) return bytes;
  switch (rng.below(3)) {
    case 0:
      bytes.resize(rng.below(bytes.size()));
      break;
    case 1:
      for (uint64_t i = 1 + rng.below(8); i > 0; --i) {
        char& c = bytes[rng.below(bytes.size())];
        c = static_cast<char>(c ^ (1 << rng.below(8)));
      }
      break;
    default: {
      size_t begin = rng.below(bytes.size());
      size_t size = std::min<size_t>(bytes.size() - begin, 1 + rng.below(10));
      bytes.replace(begin, size, size,
                    static_cast<char>(rng.below(2) == 0 ? 0xff : rng.below(256)));
    }
  }
  return bytes;
}

TEST(CodecProperty, DamagedBytesNeverCrashAndErrorsAreCorrupt) {
  size_t refused = 0;
  for (uint64_t seed = base_seed(); seed < base_seed() + 3000; ++seed) {
    SCOPED_TRACE("COHORT_SEED=" + std::to_string(seed));
    Rng rng(seed);
    Encoded encoded = encode_batch(random_batch(rng));
    std::string header = damage(rng, encoded.header);
    auto columns = encoded.columns.bytes();
    if (rng.below(4) == 0) columns = columns.first(rng.below(columns.size() + 1));
    auto decoded = decode_batch(bytes_of(header), columns);
    if (!decoded) {
      EXPECT_EQ(decoded.error().code, Errc::corrupt);
      ++refused;
      continue;
    }
    for (const Trajectory& x : *decoded) [[maybe_unused]] auto checked = validate(x);
  }
  EXPECT_GT(refused, 500u);
}

TEST(CodecProperty, DamagedHandshakesNeverCrash) {
  std::string hello = encode_hello({1, 1, "run", "name", 5, 700, 1 << 20, 1000});
  std::string welcome = encode_welcome({1, 5, 2, 4, 1 << 26, 1 << 26, "name"});
  std::string reject = encode_reject({Errc::protocol, "no"});
  for (uint64_t seed = base_seed(); seed < base_seed() + 2000; ++seed) {
    Rng rng(seed);
    [[maybe_unused]] auto a = decode_hello(bytes_of(damage(rng, hello)));
    [[maybe_unused]] auto b = decode_welcome(bytes_of(damage(rng, welcome)));
    EXPECT_NE(decode_reject(bytes_of(damage(rng, reject))).code, Errc::none);
  }
}

}  // namespace
}  // namespace cohort::proto
