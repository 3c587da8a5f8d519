// Compiled with -mavx2: the loop of copy.cpp, eight elements at a time.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace cohort::publish {

void round_to_bf16_avx2(const std::byte* f32, std::byte* bf16, size_t count);

namespace {

/// The bf16 of eight f32, one in each 32-bit lane.
__m256i round8(const std::byte* f32) {
  __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(f32));
  __m256i high = _mm256_srli_epi32(bits, 16);
  __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  __m256i rounded = _mm256_srli_epi32(sum, 16);
  __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
  __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7F800000));
  __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

}  // namespace

void round_to_bf16_avx2(const std::byte* f32, std::byte* bf16, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    // packus works in 128-bit halves; the permutation puts its quarters in order.
    __m256i both = _mm256_packus_epi32(round8(f32 + 4 * i), round8(f32 + 4 * i + 32));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bf16 + 2 * i),
                        _mm256_permute4x64_epi64(both, 0xD8));
  }
  for (; i < count; ++i) {
    uint32_t bits = 0;
    __builtin_memcpy(&bits, f32 + 4 * i, sizeof bits);
    bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    auto half = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40
                                             : (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
    __builtin_memcpy(bf16 + 2 * i, &half, sizeof half);
  }
}

}  // namespace cohort::publish
