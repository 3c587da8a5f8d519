#pragma once
/// Byte-pair encoding of one piece of text: start from bytes or characters, then join the adjacent
/// pair of the lowest rank, the leftmost of equals, until no pair has a rank. O(n log n) in the
/// piece. Thread-safe: what changes is in the caller's BpeScratch.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/token_vocabulary.hpp"

namespace cohort::text {

/// The buffers of one encoding thread, and its cache of pieces that it has encoded. Bound: 2 MiB of
/// cache, and buffers of the longest piece so far.
class BpeScratch {
 public:
  /// Joins tried so far: what the time of merges is proportional to.
  uint64_t steps = 0;

 private:
  friend class BpeModel;
  struct Symbol {
    TokenId id;
    uint32_t size;  // bytes of the piece; 0: joined to the one before
    uint32_t before;
    uint32_t behind;
  };
  struct Candidate {
    uint32_t rank;
    uint32_t at;  // index of the left symbol
    TokenId id;   // of the joined token
  };
  struct CacheLine {  // 64 bytes
    static constexpr size_t k_bytes_max = 28, k_ids_max = 8;
    uint8_t size = 0;   // bytes of the piece; 0: empty line
    uint8_t count = 0;  // ids
    std::array<char, k_bytes_max> piece{};
    std::array<TokenId, k_ids_max> ids{};
  };
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::vector<CacheLine> cache_;
};

struct BpeOptions {
  bool is_byte_level = false;  // pieces are bytes, not characters
  bool ignores_merges = false;
  bool has_byte_fallback = false;
  bool fuses_unknown = false;
  std::string unknown_token;  // empty: none
};

class BpeModel {
 public:
  struct Merge {
    std::string_view left, right;
  };
  /// `vocabulary` holds the tokens as tokenizer.json spells them. Returns Errc::config, with the
  /// merge's number, if it names a token that is absent.
  static Expected<BpeModel> make(Vocabulary vocabulary, const std::vector<Merge>& merges,
                                 BpeOptions options);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Byte level: the bytes that a token stands for, or a view whose data() is null.
  std::string_view bytes_of(TokenId id) const { return byte_tokens_.token(id); }

  /// Appends the ids of `piece`; `sizes`, unless null, gets the bytes of `piece` that each stands
  /// for. Returns Errc::config if a character is unknown and unk_token is in no vocabulary.
  Expected<void> encode(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>& ids,
                        std::vector<uint32_t>* sizes) const;

 private:
  struct Joined {
    uint32_t rank = UINT32_MAX;
    TokenId id = 0;
  };
  struct MergeSlot {
    uint64_t pair = UINT64_MAX;
    Joined joined;
  };
  Expected<void> add_merges(const std::vector<Merge>& merges);
  void find_bytes();
  void insert(uint64_t pair, Joined joined);
  Joined join_of(TokenId left, TokenId right) const;
  std::optional<TokenId> id_of_piece(std::string_view piece) const;
  Expected<void> encode_segment(std::string_view piece, BpeScratch& scratch,
                                std::vector<TokenId>& ids, std::vector<uint32_t>* sizes) const;
  Expected<void> start(std::string_view piece, BpeScratch& scratch) const;
  Expected<void> start_characters(std::string_view piece, BpeScratch& scratch) const;
  void merge_few(BpeScratch& scratch) const;
  void merge_many(BpeScratch& scratch) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  Vocabulary byte_tokens_;               // byte level: tokens as the bytes they stand for
  std::array<TokenId, 256> byte_ids_{};  // of one byte (byte level) or of <0xHH>; -1: absent
  std::optional<TokenId> unknown_id_;
  std::vector<MergeSlot> merges_;  // open addressing; a power of two
  /// No token holds a U+2581 behind another character, so that no merge crosses such a place.
  bool begins_at_marks_ = false;
};

}  // namespace cohort::text
