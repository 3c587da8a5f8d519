#pragma once
/// Byte-pair encoding is learned here: from counted pieces of text to the pairs of tokens to join,
/// most frequent first (Sennrich et al., arXiv 1508.07909), over bytes. Pure.
///
/// TRAIN-BPE-1: equal pieces and options give equal merges: of pairs that are equally frequent, the
/// one of the lowest ids comes first, whatever the order of the pieces.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/text/token_vocabulary.hpp"

namespace cohort::text {

/// How often each piece occurs. Pieces are bytes; no merge crosses from one to the next.
using PieceCounts = std::unordered_map<std::string, uint64_t>;

struct BpeTraining {
  size_t tokens_max = 0;       // bytes and joined tokens together
  uint64_t frequency_min = 2;  // a pair that is rarer is not joined
};

struct TrainedBpe {
  /// By id: the 256 bytes in the order of the characters that stand for them (byte_level.hpp), then
  /// what was joined.
  std::vector<std::string> tokens;
  std::vector<std::pair<TokenId, TokenId>> merges;  // in order of rank
};

/// Ends when there are tokens_max tokens, or no pair is frequent enough. A piece counts in parts of
/// at most 1,024 bytes, which bounds the time of text without blanks.
TrainedBpe train_bpe(const PieceCounts& pieces, const BpeTraining& options);

}  // namespace cohort::text
