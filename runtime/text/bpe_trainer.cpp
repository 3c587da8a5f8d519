#include "runtime/text/bpe_trainer.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

#include "runtime/text/byte_level.hpp"

namespace cohort::text {
namespace {

constexpr size_t k_word_bytes_max = 1024;

/// Left and right id; its order is that of (left, right).
using PairKey = uint64_t;
PairKey key_of(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}
TokenId left_of(PairKey pair) { return static_cast<TokenId>(pair >> 32); }
TokenId right_of(PairKey pair) { return static_cast<TokenId>(pair & UINT32_MAX); }

/// Bytes in the order of the characters that stand for them.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  std::ranges::sort(bytes, {}, [](const std::string& byte) { return characters_of_bytes(byte); });
  return bytes;
}

class Trainer {
 public:
  Trainer(const PieceCounts& pieces, const BpeTraining& options) : options_(options) {
    out_.tokens = byte_tokens();
    for (size_t id = 0; id < out_.tokens.size(); ++id)
      ids_[out_.tokens[id]] = static_cast<TokenId>(id);
    for (const auto& [piece, count] : pieces)
      for (size_t at = 0; at < piece.size(); at += k_word_bytes_max)
        add_word(std::string_view(piece).substr(at, k_word_bytes_max), count);
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
  }

  TrainedBpe train() && {
    while (out_.tokens.size() < options_.tokens_max && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const uint64_t count = pairs_[best.pair].count;
      if (count < std::max<uint64_t>(options_.frequency_min, 1)) continue;
      if (count != best.count)
        queue_.push({count, best.pair});  // it has become rarer since
      else
        join(best.pair);
    }
    return std::move(out_);
  }

 private:
  struct Word {
    std::vector<TokenId> ids;
    uint64_t count = 0;
  };
  struct PairState {
    uint64_t count = 0;
    std::vector<uint32_t> words;  // that have it, or had it; some twice
  };
  struct Candidate {
    uint64_t count = 0;
    PairKey pair = 0;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void add_word(std::string_view bytes, uint64_t count) {
    Word word{{}, count};
    for (const char byte : bytes) word.ids.push_back(ids_[std::string(1, byte)]);
    words_.push_back(std::move(word));
    count_pairs(static_cast<uint32_t>(words_.size() - 1));
  }
  void count_pairs(uint32_t index) {
    const Word& word = words_[index];
    for (size_t i = 1; i < word.ids.size(); ++i) {
      PairState& pair = pairs_[key_of(word.ids[i - 1], word.ids[i])];
      pair.count += word.count;
      if (pair.words.empty() || pair.words.back() != index) pair.words.push_back(index);
    }
  }
  void discount_pairs(const Word& word) {
    for (size_t i = 1; i < word.ids.size(); ++i)
      pairs_[key_of(word.ids[i - 1], word.ids[i])].count -= word.count;
  }

  void join(PairKey pair) {
    const TokenId left = left_of(pair), right = right_of(pair);
    const std::string token =
        out_.tokens[static_cast<size_t>(left)] + out_.tokens[static_cast<size_t>(right)];
    // Another pair may have made the same token.
    const auto [known, is_new] = ids_.emplace(token, static_cast<TokenId>(out_.tokens.size()));
    if (is_new) out_.tokens.push_back(token);
    out_.merges.emplace_back(left, right);
    std::vector<uint32_t> words = std::exchange(pairs_[pair].words, {});
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::vector<PairKey> grown;
    for (const uint32_t index : words) join_in(index, left, right, known->second, grown);
    std::ranges::sort(grown);
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const PairKey each : grown) queue_.push({pairs_[each].count, each});
  }

  /// Only pairs with the new token become more frequent: they go to `grown`.
  void join_in(uint32_t index, TokenId left, TokenId right, TokenId joined,
               std::vector<PairKey>& grown) {
    Word& word = words_[index];
    std::vector<TokenId>& ids = word.ids;
    discount_pairs(word);
    size_t to = 0;
    for (size_t from = 0; from < ids.size(); ++to) {
      const bool is_pair = from + 1 < ids.size() && ids[from] == left && ids[from + 1] == right;
      ids[to] = is_pair ? joined : ids[from];
      from += is_pair ? 2 : 1;
    }
    ids.resize(to);
    count_pairs(index);
    for (size_t i = 1; i < ids.size(); ++i)
      if (ids[i - 1] == joined || ids[i] == joined) grown.push_back(key_of(ids[i - 1], ids[i]));
  }

  BpeTraining options_;
  TrainedBpe out_;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<Word> words_;
  std::unordered_map<PairKey, PairState> pairs_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

TrainedBpe train_bpe(const PieceCounts& pieces, const BpeTraining& options) {
  return Trainer(pieces, options).train();
}

}  // namespace cohort::text
