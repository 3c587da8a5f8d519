#pragma once
/// numpy's default generator, bit for bit: SeedSequence -> PCG64 (XSL-RR 128/64) -> Generator
/// methods. Environments that were defined in Python by `Generator(PCG64(SeedSequence(seed)))` get
/// the same worlds here. Sources: M. O'Neill, "PCG: A Family of Simple Fast Space-Efficient
/// Statistically Good Algorithms for Random Number Generation" (HMC-CS-2014-0905); numpy's
/// documented streams (NEP 19); D. Lemire, "Fast Random Integer Generation in an Interval" (2019).
/// Value types; one object belongs to one thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort::tasks {

/// numpy.random.SeedSequence of a non-negative integer below 2^64, without spawn keys.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t entropy);
  /// Returns generate_state(words, dtype=uint32).
  std::vector<uint32_t> generate_state_u32(size_t words) const;
  /// Returns generate_state(words, dtype=uint64).
  std::vector<uint64_t> generate_state_u64(size_t words) const;

 private:
  static constexpr size_t k_pool_size = 4;  // numpy's default: 128 bits of entropy
  std::array<uint32_t, k_pool_size> pool_{};
};

/// numpy.random.Generator(PCG64(SeedSequence(seed))).
class Pcg64 {
 public:
  explicit Pcg64(uint64_t seed);
  /// Returns 64 raw bits (BitGenerator.random_raw).
  uint64_t next_u64();
  /// Returns 32 raw bits: the low half of a 64-bit draw, then its buffered high half, as numpy
  /// does.
  uint32_t next_u32();
  /// Returns Generator.random(): a double in [0, 1) with 53 bits. Leaves the buffered half alone.
  double random();
  /// Returns Generator.integers(0, bound) of dtype int64: Lemire's method on buffered 32-bit draws
  /// for bounds up to 2^32, on 64-bit draws above; bound 1 draws nothing. bound > 0.
  uint64_t integers(uint64_t bound);
  /// Returns Generator.choice(len(p), p=p) for one draw: the index by right-sided search in
  /// cumsum(p). p is not empty and sums to about 1.
  size_t choice(std::span<const double> p);

 private:
  __extension__ using Wide = unsigned __int128;
  void step();

  Wide state_ = 0;
  Wide increment_ = 0;
  bool has_buffered_ = false;
  uint32_t buffered_ = 0;
};

}  // namespace cohort::tasks
