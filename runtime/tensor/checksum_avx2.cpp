// Compiled with -mavx2, called only where the CPU has it. XXH_INLINE_ALL keeps every xxhash
// function static, so that no AVX2 code can leak into other files through the linker.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

namespace cohort::tensor {

uint64_t checksum64_avx2(const std::byte* data, size_t size_bytes);

uint64_t checksum64_avx2(const std::byte* data, size_t size_bytes) {
  return XXH3_64bits(data, size_bytes);
}

/// `state` is an XXH3_state_t.
bool checksum_update_avx2(void* state, const std::byte* data, size_t size_bytes);

bool checksum_update_avx2(void* state, const std::byte* data, size_t size_bytes) {
  return XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, size_bytes) == XXH_OK;
}

}  // namespace cohort::tensor
