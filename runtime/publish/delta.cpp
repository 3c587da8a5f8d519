#include "runtime/publish/delta.hpp"

#include <bit>
#include <cstring>
#include <memory>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cohort::publish {
namespace {

constexpr size_t k_long_gap = 255;
constexpr size_t k_block_words = 64;

template <class Word>
Word word_at(const std::byte* bytes, size_t index) {
  Word word;
  std::memcpy(&word, bytes + index * sizeof(Word), sizeof(Word));
  return word;
}

/// Bit i: the i-th of `count` words differs.
template <class Word>
uint64_t differing(const std::byte* now, const std::byte* base, size_t count) {
  uint64_t mask = 0;
  for (size_t i = 0; i < count; ++i)
    mask |= uint64_t{word_at<Word>(now, i) != word_at<Word>(base, i)} << i;
  return mask;
}

#if defined(__SSE2__)
// What every x86-64 has is enough here: the words come from memory more slowly than this.

__m128i load(const std::byte* bytes, size_t vector) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + vector);
}

/// All ones in each 16-bit lane of 8 words that are equal.
template <class Word>
__m128i equal8(const std::byte* now, const std::byte* base) {
  if constexpr (sizeof(Word) == 2) {
    return _mm_cmpeq_epi16(load(now, 0), load(base, 0));
  } else {
    __m128i low = _mm_cmpeq_epi32(load(now, 0), load(base, 0));
    return _mm_packs_epi32(low, _mm_cmpeq_epi32(load(now, 1), load(base, 1)));
  }
}

template <class Word>
uint64_t differing64(const std::byte* now, const std::byte* base) {
  constexpr size_t k_half = 8 * sizeof(Word);
  uint64_t equal = 0;
  for (size_t i = 0; i < 4; ++i, now += 2 * k_half, base += 2 * k_half) {
    __m128i both =
        _mm_packs_epi16(equal8<Word>(now, base), equal8<Word>(now + k_half, base + k_half));
    equal |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(both))} << 16 * i;
  }
  return ~equal;
}
#endif

template <class Word>
uint64_t differing_block(const std::byte* now, const std::byte* base) {
#if defined(__SSE2__)
  if constexpr (sizeof(Word) == 2 || sizeof(Word) == 4) return differing64<Word>(now, base);
#endif
  return differing<Word>(now, base, k_block_words);
}

/// Gaps and words of a chunk as they are found; kept by a thread, for the next chunk.
template <class Word>
struct Found {
  std::unique_ptr<uint8_t[]> gaps;
  std::unique_ptr<Word[]> words;
  size_t room = 0;
  /// Room for the code of so many words: each may have a gap byte, and each 255 a long one.
  void reserve(size_t count) {
    if (count <= room) return;
    gaps.reset(new uint8_t[count + count / k_long_gap + 1]);
    words.reset(new Word[count]);
    room = count;
  }
};

// A head of 4 bytes counts the gap bytes; the words follow them.
template <class Word>
std::optional<size_t> encode(std::span<const std::byte> now, std::span<const std::byte> base,
                             std::span<std::byte> out) {
  thread_local Found<Word> found;
  size_t count = now.size() / sizeof(Word), after = 0;  // after the last change
  found.reserve(count);
  uint8_t* gap_end = found.gaps.get();
  Word* word_end = found.words.get();
  auto used = [&] {
    return 4 + static_cast<size_t>(gap_end - found.gaps.get()) +
           sizeof(Word) * static_cast<size_t>(word_end - found.words.get());
  };
  for (size_t at = 0; at < count; at += k_block_words) {
    const std::byte *from = now.data() + at * sizeof(Word), *old = base.data() + at * sizeof(Word);
    size_t left = count - at;
    uint64_t mask =
        left >= k_block_words ? differing_block<Word>(from, old) : differing<Word>(from, old, left);
    for (; mask != 0; mask &= mask - 1) {
      size_t index = at + static_cast<size_t>(std::countr_zero(mask)), gap = index - after;
      for (; gap >= k_long_gap; gap -= k_long_gap) *gap_end++ = k_long_gap;
      *gap_end++ = static_cast<uint8_t>(gap);
      *word_end++ = word_at<Word>(now.data(), index);
      after = index + 1;
    }
    if (used() >= out.size()) return std::nullopt;
  }
  if (used() >= out.size()) return std::nullopt;
  auto gaps = static_cast<uint32_t>(gap_end - found.gaps.get());
  std::memcpy(out.data(), &gaps, sizeof gaps);
  std::memcpy(out.data() + 4, found.gaps.get(), gaps);
  std::memcpy(out.data() + 4 + gaps, found.words.get(), used() - 4 - gaps);
  return used();
}

Error no_fit() { return {Errc::corrupt, "a delta does not fit its chunk"}; }

/// The code may lie where its sender can still write: nothing of it is read twice.
template <class Word>
Expected<void> apply(std::span<const std::byte> code, std::span<std::byte> words) {
  uint32_t gaps = 0;
  if (code.size() < sizeof gaps) return no_fit();
  std::memcpy(&gaps, code.data(), sizeof gaps);
  if (gaps > code.size() - 4) return no_fit();
  size_t from = 4 + size_t{gaps}, index = 0, count = words.size() / sizeof(Word);
  for (size_t i = 0; i < gaps; ++i) {
    auto gap = std::to_integer<size_t>(code[4 + i]);
    index += gap;
    if (gap == k_long_gap) continue;
    if (index >= count || code.size() - from < sizeof(Word)) return no_fit();
    std::memcpy(words.data() + index * sizeof(Word), code.data() + from, sizeof(Word));
    from += sizeof(Word);
    ++index;
  }
  if (from != code.size()) return no_fit();
  return {};
}

}  // namespace

std::optional<size_t> encode_delta(std::span<const std::byte> now, std::span<const std::byte> base,
                                   size_t word_bytes, std::span<std::byte> out) {
  if (word_bytes == 2) return encode<uint16_t>(now, base, out);
  if (word_bytes == 4) return encode<uint32_t>(now, base, out);
  if (word_bytes == 8) return encode<uint64_t>(now, base, out);
  return std::nullopt;  // all is sent
}

Expected<void> apply_delta(std::span<const std::byte> code, size_t word_bytes,
                           std::span<std::byte> words) {
  if (word_bytes == 2) return apply<uint16_t>(code, words);
  if (word_bytes == 4) return apply<uint32_t>(code, words);
  if (word_bytes == 8) return apply<uint64_t>(code, words);
  return no_fit();
}

}  // namespace cohort::publish
