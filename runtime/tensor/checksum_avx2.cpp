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

}  // namespace cohort::tensor
