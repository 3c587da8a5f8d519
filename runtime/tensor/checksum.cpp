#include "runtime/tensor/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/base/check.hpp"

namespace cohort::tensor {

#if defined(COHORT_CHECKSUM_AVX2)
/// The same function compiled with -mavx2 (checksum_avx2.cpp); only for CPUs that have it.
uint64_t checksum64_avx2(const std::byte* data, size_t size_bytes);
bool checksum_update_avx2(void* state, const std::byte* data, size_t size_bytes);
#endif

namespace {

// Below this size the SSE2 body inlined here wins over a call through the dispatch.
[[maybe_unused]] constexpr size_t k_wide_bytes = 1024;

#if defined(COHORT_CHECKSUM_AVX2)
bool is_wide(std::span<const std::byte> bytes) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  return bytes.size() >= k_wide_bytes && has_avx2;
}
#endif

}  // namespace

uint64_t checksum64(std::span<const std::byte> bytes) {
#if defined(COHORT_CHECKSUM_AVX2)
  if (is_wide(bytes)) return checksum64_avx2(bytes.data(), bytes.size());
#endif
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct Checksum::State {
  XXH3_state_t xxh3;
};

// new of an over-aligned type (XXH3_state_t asks for 64 bytes) is aligned since C++17.
Checksum::Checksum() : state_(std::make_unique<State>()) {
  COHORT_CHECK(XXH3_64bits_reset(&state_->xxh3) == XXH_OK, "xxh3 reset");
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
#if defined(COHORT_CHECKSUM_AVX2)
  if (is_wide(bytes)) {
    COHORT_CHECK(checksum_update_avx2(&state_->xxh3, bytes.data(), bytes.size()), "xxh3 update");
    return;
  }
#endif
  if (!bytes.empty())
    COHORT_CHECK(XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size()) == XXH_OK,
                 "xxh3 update");
}

uint64_t Checksum::digest() const { return XXH3_64bits_digest(&state_->xxh3); }

}  // namespace cohort::tensor
