#pragma once
/// An answer as a value head's engine reads it, which gives a token the value of the place before
/// it: the sequence up to the place that is scored, and a token behind it, the only one that the
/// mask has. Pure.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/compute/train/train_engine.hpp"

namespace cohort::actors {

struct ScoredTokens {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  /// Points into this object.
  compute::TrainSample sample() const { return {tokens, mask, {}, {}, {}}; }
};

/// Scores the last token of `tokens` that `mask` counts, or the last one before it that is no
/// padding, as transformers pools. One of the mask is 1.
inline ScoredTokens scored_tokens(std::span<const int32_t> tokens, std::span<const uint8_t> mask,
                                  std::optional<int64_t> pad_id) {
  size_t last = tokens.size() - 1;
  while (last > 0 && mask[last] == 0) --last;
  while (pad_id && last > 0 && tokens[last] == *pad_id) --last;
  ScoredTokens scored;
  scored.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  scored.tokens.push_back(scored.tokens.back());  // whichever token, it is not read
  scored.mask.assign(scored.tokens.size(), 0);
  scored.mask.back() = 1;
  return scored;
}

}  // namespace cohort::actors
