#include "runtime/publish/copy.hpp"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cohort::publish {

#if defined(COHORT_PUBLISH_AVX2)
/// The same loop compiled with -mavx2 (copy_avx2.cpp); only for CPUs that have it.
void round_to_bf16_avx2(const std::byte* f32, std::byte* bf16, size_t count);
#endif

namespace {

/// Below, what is copied is as likely as not read again soon, and a store past the cache gains
/// nothing.
constexpr uint64_t k_stream_bytes = 4096;

/// memcpy whose stores go past the cache: a target of gigabytes is not read before it is complete,
/// and a line need not be fetched to be overwritten whole.
void stream_copy(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__SSE2__)
  if (bytes < k_stream_bytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  size_t head = (16 - reinterpret_cast<uintptr_t>(to) % 16) % 16;
  std::memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
    auto* target = reinterpret_cast<__m128i*>(to);
    const auto* source = reinterpret_cast<const __m128i*>(from);
    __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
#endif
  std::memcpy(to, from, bytes);
}

void finish_stream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Calls f(first packed byte, bytes, address) for each block's part inside [begin, end).
template <class F>
void each_block(RunList& list, uint64_t begin, uint64_t end, uint64_t widen, F f) {
  while (list.mark < list.runs.size() && list.runs[list.mark].packed_end() <= begin) ++list.mark;
  for (size_t i = list.mark; i < list.runs.size() && list.runs[i].packed < end; ++i) {
    const AddressedRun& run = list.runs[i];
    uint64_t first = 0;
    if (run.count > 1 && begin > run.packed) first = (begin - run.packed) / run.packed_stride;
    for (uint64_t k = first; k < run.count; ++k) {
      uint64_t at = run.packed + k * run.packed_stride;
      if (at >= end) break;
      uint64_t from = std::max(at, begin), to = std::min(at + run.bytes, end);
      if (from >= to) continue;
      f(from, to - from, run.address + k * run.stride + (from - at) * widen);
    }
  }
}

}  // namespace

RunList address(const std::vector<plan::ReshardCopies::Unit>& units, uint32_t family,
                const PartTable& parts, uint64_t widen) {
  RunList list;
  for (const auto& unit : units) {
    std::byte* base = parts.at({family, unit.layer, unit.expert});
    for (const plan::CopyRun& x : unit.runs)
      list.runs.push_back({x.packed, x.bytes, x.count, x.packed_stride, x.shard_stride * widen,
                           base + x.shard * widen});
  }
  return list;
}

void gather(RunList& list, uint64_t begin, std::span<std::byte> packed, uint64_t widen) {
  each_block(list, begin, begin + packed.size(), widen,
             [&](uint64_t at, uint64_t bytes, const std::byte* memory) {
               std::byte* to = packed.data() + (at - begin);
               if (widen == 1)
                 std::memcpy(to, memory, bytes);
               else
                 round_to_bf16(memory, to, bytes / 2);
             });
}

void scatter(RunList& list, uint64_t begin, std::span<const std::byte> packed) {
  each_block(list, begin, begin + packed.size(), 1,
             [&](uint64_t at, uint64_t bytes, std::byte* memory) {
               stream_copy(memory, packed.data() + (at - begin), bytes);
             });
  finish_stream();
}

void round_to_bf16(const std::byte* f32, std::byte* bf16, size_t count) {
#if defined(COHORT_PUBLISH_AVX2)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return round_to_bf16_avx2(f32, bf16, count);
#endif
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, f32 + 4 * i, sizeof bits);
    uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40;
    auto half = static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
    std::memcpy(bf16 + 2 * i, &half, sizeof half);
  }
}

}  // namespace cohort::publish
