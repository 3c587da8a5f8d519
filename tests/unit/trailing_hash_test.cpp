// TrailingHash: the digest of an array that threads write in pieces.
#include "runtime/compute/train/trailing_hash.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "runtime/base/rng.hpp"

namespace cohort::compute {
namespace {

/// Pieces of up to 3,000 bytes with gaps between them and one behind the last.
std::vector<size_t> random_ends(Rng& rng, size_t size) {
  std::vector<size_t> ends;
  for (size_t at = 0;;) {
    at += 1 + rng.below(3000);
    if (at + 64 > size) return ends;
    ends.push_back(at);
  }
}

TEST(TrailingHash, IsThatOfTheWholeArrayWhateverTheOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    std::vector<std::byte> all(1 + rng.below(200'000));
    std::vector<std::byte> later(all.size());
    for (std::byte& byte : later) byte = static_cast<std::byte>(rng.below(256));
    const std::vector<size_t> ends = random_ends(rng, all.size());
    // What no piece holds is there from the start.
    std::copy(later.begin() + static_cast<ptrdiff_t>(ends.empty() ? 0 : ends.back()), later.end(),
              all.begin() + static_cast<ptrdiff_t>(ends.empty() ? 0 : ends.back()));
    std::vector<size_t> order(ends.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    TrailingHash hash(all, ends);
    for (const size_t piece : order) {
      const size_t begin = piece == 0 ? 0 : ends[piece - 1];
      std::copy(later.begin() + static_cast<ptrdiff_t>(begin),
                later.begin() + static_cast<ptrdiff_t>(ends[piece]),
                all.begin() + static_cast<ptrdiff_t>(begin));
      hash.finished(piece);
    }
    EXPECT_EQ(hash.digest(), tensor::checksum64(later)) << seed;
  }
}

TEST(TrailingHash, ThreadsLeaveNoPieceOut) {
  constexpr size_t k_pieces = 20'000, k_bytes = 64;
  for (const unsigned threads : {2U, 7U}) {
    std::vector<std::byte> all(k_pieces * k_bytes);
    std::vector<size_t> ends(k_pieces);
    for (size_t i = 0; i < k_pieces; ++i) ends[i] = (i + 1) * k_bytes;
    TrailingHash hash(all, ends);
    std::atomic<size_t> next{0};
    {
      std::vector<std::jthread> workers;
      for (unsigned t = 0; t < threads; ++t)
        workers.emplace_back([&] {
          for (size_t i = next++; i < k_pieces; i = next++) {
            std::fill_n(all.begin() + static_cast<ptrdiff_t>(i * k_bytes), k_bytes,
                        static_cast<std::byte>(i * 7));
            hash.finished(i);
          }
        });
    }
    EXPECT_EQ(hash.digest(), tensor::checksum64(all));
  }
}

TEST(TrailingHash, OfNothingIsTheChecksumOfTheBytes) {
  EXPECT_EQ(TrailingHash({}, {}).digest(), tensor::checksum64({}));
}

}  // namespace
}  // namespace cohort::compute
