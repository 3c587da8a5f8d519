#include "runtime/tasks/pcg64.hpp"

#include "runtime/base/check.hpp"

namespace cohort::tasks {
namespace {

// SeedSequence's constants: its hash is part of numpy's stable stream.
constexpr uint32_t k_init_a = 0x43b0d7e5;
constexpr uint32_t k_mult_a = 0x931e8875;
constexpr uint32_t k_init_b = 0x8b51f9dd;
constexpr uint32_t k_mult_b = 0x58f38ded;
constexpr uint32_t k_mix_left = 0xca01f9dd;
constexpr uint32_t k_mix_right = 0x4973f715;
constexpr unsigned k_half_bits = 16;

// PCG's default 128-bit multiplier, high and low words.
constexpr uint64_t k_pcg_multiplier_high = 2549297995355413924U;
constexpr uint64_t k_pcg_multiplier_low = 4865540595714422341U;

uint32_t hash_word(uint32_t value, uint32_t& hash_constant, uint32_t multiplier) {
  value ^= hash_constant;
  hash_constant *= multiplier;
  value *= hash_constant;
  return value ^ (value >> k_half_bits);
}

uint32_t mix_words(uint32_t x, uint32_t y) {
  uint32_t result = k_mix_left * x - k_mix_right * y;
  return result ^ (result >> k_half_bits);
}

}  // namespace

SeedSequence::SeedSequence(uint64_t entropy) {
  // An integer below 2^32 is one word of entropy, a longer one two; missing words hash as 0.
  const std::array<uint32_t, k_pool_size> words{static_cast<uint32_t>(entropy),
                                                static_cast<uint32_t>(entropy >> 32), 0, 0};
  uint32_t hash_constant = k_init_a;
  for (size_t i = 0; i < k_pool_size; ++i) pool_[i] = hash_word(words[i], hash_constant, k_mult_a);
  for (size_t source = 0; source < k_pool_size; ++source) {
    for (size_t target = 0; target < k_pool_size; ++target) {
      if (source != target)
        pool_[target] = mix_words(pool_[target], hash_word(pool_[source], hash_constant, k_mult_a));
    }
  }
}

std::vector<uint32_t> SeedSequence::generate_state_u32(size_t words) const {
  std::vector<uint32_t> state(words);
  uint32_t hash_constant = k_init_b;
  for (size_t i = 0; i < words; ++i)
    state[i] = hash_word(pool_[i % k_pool_size], hash_constant, k_mult_b);
  return state;
}

std::vector<uint64_t> SeedSequence::generate_state_u64(size_t words) const {
  std::vector<uint32_t> halves = generate_state_u32(2 * words);
  std::vector<uint64_t> state(words);
  for (size_t i = 0; i < words; ++i) state[i] = (uint64_t{halves[2 * i + 1]} << 32) | halves[2 * i];
  return state;
}

Pcg64::Pcg64(uint64_t seed) {
  std::vector<uint64_t> words = SeedSequence(seed).generate_state_u64(4);
  Wide initial_state = (Wide{words[0]} << 64) | words[1];
  Wide sequence = (Wide{words[2]} << 64) | words[3];
  increment_ = (sequence << 1) | 1;
  step();
  state_ += initial_state;
  step();
}

void Pcg64::step() {
  constexpr Wide multiplier = (Wide{k_pcg_multiplier_high} << 64) | k_pcg_multiplier_low;
  state_ = state_ * multiplier + increment_;
}

uint64_t Pcg64::next_u64() {
  step();
  auto high = static_cast<uint64_t>(state_ >> 64);
  uint64_t folded = high ^ static_cast<uint64_t>(state_);
  auto rotation = static_cast<unsigned>(high >> 58);
  return (folded >> rotation) | (folded << ((64 - rotation) & 63U));
}

uint32_t Pcg64::next_u32() {
  if (has_buffered_) {
    has_buffered_ = false;
    return buffered_;
  }
  uint64_t bits = next_u64();
  has_buffered_ = true;
  buffered_ = static_cast<uint32_t>(bits >> 32);
  return static_cast<uint32_t>(bits);
}

double Pcg64::random() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

uint64_t Pcg64::integers(uint64_t bound) {
  COHORT_CHECK(bound > 0, "integers: bound must be positive");
  constexpr uint64_t two_to_32 = uint64_t{1} << 32;
  if (bound == 1) return 0;
  if (bound == two_to_32) return next_u32();
  if (bound < two_to_32) {
    uint64_t threshold = (two_to_32 - bound) % bound;
    uint64_t product = next_u32() * bound;
    while (static_cast<uint32_t>(product) < threshold) product = next_u32() * bound;
    return product >> 32;
  }
  uint64_t threshold = (0 - bound) % bound;
  Wide product = Wide{next_u64()} * bound;
  while (static_cast<uint64_t>(product) < threshold) product = Wide{next_u64()} * bound;
  return static_cast<uint64_t>(product >> 64);
}

size_t Pcg64::choice(std::span<const double> p) {
  COHORT_CHECK(!p.empty(), "choice: no probabilities");
  double total = 0;
  for (double x : p) total += x;
  double draw = random();
  double cumulative = 0;
  for (size_t i = 0; i + 1 < p.size(); ++i) {
    cumulative += p[i];
    if (draw < cumulative / total) return i;
  }
  return p.size() - 1;
}

}  // namespace cohort::tasks
