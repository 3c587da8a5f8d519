#pragma once
/// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011, "Parallel random numbers:
/// as easy as 1, 2, 3"). A number is a pure function of (key, counter), so a trajectory draws the
/// same numbers whatever shares its batch, thread or process (docs/architecture.md,
/// Determinism). Value types, not thread-safe per object.
#include <array>
#include <cstdint>

namespace cohort {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Returns the 128 random bits of Philox4x32-10 for (counter, key).
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// SplitMix64's finaliser: mixes ids into keys.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// A stream of numbers with its own key; `seek` makes the next number that of any position.
class Rng {
  __extension__ using Wide = unsigned __int128;

 public:
  Rng() = default;
  explicit constexpr Rng(uint64_t seed) : key_(mix64(seed)) {}
  /// Returns an independent generator for a sub-entity, e.g.
  /// rng.fork(step).fork(group).fork(index).
  constexpr Rng fork(uint64_t id) const {
    Rng child;
    child.key_ = mix64(key_ ^ mix64(id + 0x632BE59BD9B4E019));
    return child;
  }
  constexpr void seek(uint64_t position) { position_ = position; }
  constexpr uint64_t next_u64() {
    PhiloxCounter bits =
        philox4x32({static_cast<uint32_t>(position_), static_cast<uint32_t>(position_ >> 32), 0, 0},
                   {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
    ++position_;
    return (uint64_t{bits[1]} << 32) | bits[0];
  }
  /// Returns a uniform double in [0, 1) with 53 random bits.
  constexpr double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  /// Returns a uniform integer in [0, bound), bound > 0 (bias below 2^-32 for bounds that fit 32
  /// bits).
  constexpr uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<Wide>(next_u64()) * bound) >> 64);
  }

 private:
  uint64_t key_ = 0;
  uint64_t position_ = 0;
};

}  // namespace cohort
