// Vectors of COHORT_KERNEL_LANES floats on GCC's vector extension; included by kernels.inl inside
// its namespace. Everything is static and free of the standard library: an inline function shared
// with other translation units could be merged by the linker into one that this CPU cannot run.
constexpr int64_t k_lanes = COHORT_KERNEL_LANES;
using Vec = float __attribute__((vector_size(COHORT_KERNEL_LANES * 4)));
using IntVec = int32_t __attribute__((vector_size(COHORT_KERNEL_LANES * 4)));
using VecUnaligned =
    float __attribute__((vector_size(COHORT_KERNEL_LANES * 4), aligned(4), may_alias));

using UintVec = uint32_t __attribute__((vector_size(COHORT_KERNEL_LANES * 4)));
using HalfVec = uint16_t __attribute__((vector_size(COHORT_KERNEL_LANES * 2)));
using HalfVecUnaligned =
    uint16_t __attribute__((vector_size(COHORT_KERNEL_LANES * 2), aligned(2), may_alias));

static inline Vec load(const float* p) { return *reinterpret_cast<const VecUnaligned*>(p); }
static inline void store(float* p, Vec x) { *reinterpret_cast<VecUnaligned*>(p) = x; }
static inline Vec splat(float x) { return Vec{} + x; }

/// bf16: the upper half of an f32.
static inline Vec load(const uint16_t* p) {
  const HalfVec half = *reinterpret_cast<const HalfVecUnaligned*>(p);
  return reinterpret_cast<Vec>(__builtin_convertvector(half, UintVec) << 16);
}
/// Rounds to nearest, ties to even; NaN stays NaN.
static inline void store(uint16_t* p, Vec x) {
  const UintVec bits = reinterpret_cast<UintVec>(x), high = bits >> 16;
  const UintVec is_nan = reinterpret_cast<UintVec>((bits & 0x7FFFFFFF) > 0x7F800000);
  const UintVec rounded = (bits + 0x7FFF + (high & 1)) >> 16;
  const UintVec half = (is_nan & (high | 0x40)) | (~is_nan & rounded);
  *reinterpret_cast<HalfVecUnaligned*>(p) = __builtin_convertvector(half, HalfVec);
}

static inline float value_of(float x) { return x; }
static inline float value_of(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
static inline void put(float* p, float x) { *p = x; }
static inline void put(uint16_t* p, float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  const uint32_t high = bits >> 16;
  *p = static_cast<uint16_t>(is_nan ? high | 0x40 : (bits + 0x7FFF + (high & 1)) >> 16);
}

/// Loads the first n lanes (0 < n <= k_lanes), the others are `fill`.
template <class T>
static inline Vec load_part(const T* p, int64_t n, float fill = 0) {
  Vec x = splat(fill);
  for (int64_t i = 0; i < n; ++i) x[i] = value_of(p[i]);
  return x;
}
template <class T>
static inline void store_part(T* p, Vec x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) put(p + i, x[i]);
}

static inline Vec select(IntVec mask, Vec yes, Vec no) {
  return reinterpret_cast<Vec>((mask & reinterpret_cast<IntVec>(yes)) |
                               (~mask & reinterpret_cast<IntVec>(no)));
}
static inline Vec maximum(Vec a, Vec b) { return select(a > b, a, b); }

/// Lane i is x's lane (i + by) % k_lanes. In registers: a sum of lanes through memory waits for the
/// stores.
#if COHORT_KERNEL_LANES == 16
#define COHORT_ROTATED(x, by)                                                                  \
  __builtin_shufflevector(x, x, by, by + 1, by + 2, by + 3, by + 4, by + 5, by + 6, by + 7,    \
                          by + 8, by + 9, by + 10, by + 11, by + 12, by + 13, by + 14, by + 15)
#elif COHORT_KERNEL_LANES == 8
#define COHORT_ROTATED(x, by) \
  __builtin_shufflevector(x, x, by, by + 1, by + 2, by + 3, by + 4, by + 5, by + 6, by + 7)
#else
#define COHORT_ROTATED(x, by) __builtin_shufflevector(x, x, by, by + 1, by + 2, by + 3)
#endif

/// Lanes are folded in halves: a fixed tree.
static inline float lane_sum(Vec x) {
  if constexpr (k_lanes > 8) x += COHORT_ROTATED(x, 8 % k_lanes);
  if constexpr (k_lanes > 4) x += COHORT_ROTATED(x, 4 % k_lanes);
  x += COHORT_ROTATED(x, 2);
  x += COHORT_ROTATED(x, 1);
  return x[0];
}
static inline float lane_max(Vec x) {
  if constexpr (k_lanes > 8) x = maximum(x, COHORT_ROTATED(x, 8 % k_lanes));
  if constexpr (k_lanes > 4) x = maximum(x, COHORT_ROTATED(x, 4 % k_lanes));
  x = maximum(x, COHORT_ROTATED(x, 2));
  x = maximum(x, COHORT_ROTATED(x, 1));
  return x[0];
}
#undef COHORT_ROTATED

/// The first n lanes of x (0 < n <= k_lanes), the others are `fill`.
static inline Vec first_lanes(Vec x, int64_t n, float fill) {
  constexpr int32_t k_index[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  IntVec index;
  __builtin_memcpy(&index, k_index, sizeof index);
  return select(index < static_cast<int32_t>(n), x, splat(fill));
}

/// e^x, relative error < 2e-7; 0 below -87.3 (no denormals), saturates at e^88.
/// Cody-Waite reduction x = n ln2 + r, |r| <= ln2 / 2, then a degree-6 polynomial (Cephes expf).
static inline Vec exponential(Vec x) {
  const IntVec is_zero = x < splat(-87.3f);
  x = select(x > splat(88.0f), splat(88.0f), x);
  x = select(is_zero, splat(0), x);
  const Vec magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  Vec n = (x * splat(1.44269504088896341f) + magic) - magic;
  Vec r = x - n * splat(0.693359375f);
  r = r - n * splat(-2.12194440e-4f);
  Vec p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * (r * r) + r + splat(1.0f);
  IntVec bits = (__builtin_convertvector(n, IntVec) + 127) << 23;
  return select(is_zero, splat(0), p * reinterpret_cast<Vec>(bits));
}

static inline Vec sigmoid(Vec x) { return splat(1.0f) / (splat(1.0f) + exponential(-x)); }
