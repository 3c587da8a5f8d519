#include "runtime/publish/delta.hpp"

#include <cstring>
#include <vector>

namespace cohort::publish {
namespace {

constexpr size_t k_long_gap = 255;

/// Calls f(index) for each word that differs; looks at 64 equal bytes at a time.
template <class F>
void each_change(std::span<const std::byte> now, std::span<const std::byte> base, size_t word,
                 F f) {
  constexpr size_t k_block = 64;
  size_t bytes = now.size();
  for (size_t at = 0; at < bytes; at += k_block) {
    size_t end = at + k_block < bytes ? at + k_block : bytes;
    if (std::memcmp(now.data() + at, base.data() + at, end - at) == 0) continue;
    for (size_t i = at; i < end; i += word)
      if (std::memcmp(now.data() + i, base.data() + i, word) != 0) f(i / word);
  }
}

Error no_fit() { return {Errc::corrupt, "a delta does not fit its chunk"}; }

}  // namespace

// A head of 4 bytes counts the gap bytes; the words follow them.
std::optional<size_t> encode_delta(std::span<const std::byte> now, std::span<const std::byte> base,
                                   size_t word_bytes, std::span<std::byte> out) {
  thread_local std::vector<std::byte> gaps, words;
  gaps.clear();
  words.clear();
  size_t after = 0;  // the last change
  bool is_large = false;
  each_change(now, base, word_bytes, [&](size_t index) {
    if (is_large) return;
    size_t gap = index - after;
    for (; gap >= k_long_gap; gap -= k_long_gap) gaps.push_back(std::byte{k_long_gap});
    gaps.push_back(static_cast<std::byte>(gap));
    const std::byte* word = now.data() + index * word_bytes;
    words.insert(words.end(), word, word + word_bytes);
    after = index + 1;
    is_large = 4 + gaps.size() + words.size() >= out.size();
  });
  if (is_large || 4 + gaps.size() + words.size() >= out.size()) return std::nullopt;
  auto count = static_cast<uint32_t>(gaps.size());
  std::memcpy(out.data(), &count, sizeof count);
  if (!gaps.empty()) std::memcpy(out.data() + 4, gaps.data(), gaps.size());
  if (!words.empty()) std::memcpy(out.data() + 4 + gaps.size(), words.data(), words.size());
  return 4 + gaps.size() + words.size();
}

Expected<void> apply_delta(std::span<const std::byte> code, size_t word_bytes,
                           std::span<std::byte> words) {
  uint32_t gaps = 0;
  if (code.size() < sizeof gaps) return no_fit();
  std::memcpy(&gaps, code.data(), sizeof gaps);
  if (gaps > code.size() - 4) return no_fit();
  size_t from = 4 + size_t{gaps}, index = 0;
  for (size_t i = 0; i < gaps; ++i) {
    auto gap = std::to_integer<size_t>(code[4 + i]);
    index += gap;
    if (gap == k_long_gap) continue;
    if ((index + 1) * word_bytes > words.size() || from + word_bytes > code.size()) return no_fit();
    std::memcpy(words.data() + index * word_bytes, code.data() + from, word_bytes);
    from += word_bytes;
    ++index;
  }
  if (from != code.size()) return no_fit();
  return {};
}

}  // namespace cohort::publish
