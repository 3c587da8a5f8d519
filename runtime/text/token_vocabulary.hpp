#pragma once
/// Tokens and their ids, both ways. Ids are below k_id_end and may leave gaps. One thread fills
/// it; then it is thread-safe. Bound: the bytes of the tokens, and 8 bytes an id up to the
/// largest one.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::text {

using TokenId = int32_t;

class Vocabulary {
 public:
  /// An id from a file may not make the tables larger than this; the largest vocabularies in use
  /// have some 260,000.
  static constexpr TokenId k_id_end = 1 << 22;

  void reserve(size_t tokens, size_t bytes);
  /// Adds a token; a later one of the same text or the same id replaces it in that direction.
  /// REQUIRES: 0 <= id < k_id_end; fewer than 4 GiB of text in all.
  void add(std::string_view token, TokenId id);
  std::optional<TokenId> id_of(std::string_view token) const;
  /// Returns the token, or a view whose data() is null if no token has this id.
  std::string_view token(TokenId id) const {
    if (id < 0 || static_cast<size_t>(id) >= by_id_.size()) return {};
    const Place& x = by_id_[static_cast<size_t>(id)];
    return x.begin == k_absent ? std::string_view()
                               : std::string_view(bytes_).substr(x.begin, x.size);
  }
  /// Number of different token texts.
  size_t size() const { return count_; }
  /// Largest id + 1.
  TokenId id_end() const { return static_cast<TokenId>(by_id_.size()); }

 private:
  static constexpr uint32_t k_absent = UINT32_MAX;
  struct Place {
    uint32_t begin = k_absent;  // in bytes_
    uint32_t size = 0;
  };
  struct Slot {
    uint32_t begin = k_absent;
    uint32_t size = 0;
    uint32_t hash = 0;
    TokenId id = 0;
  };
  void grow(size_t slots);
  Slot& slot_of(std::string_view token, uint32_t hash);
  std::string bytes_;
  std::vector<Place> by_id_;
  std::vector<Slot> slots_;  // open addressing; a power of two
  size_t count_ = 0;
};

/// A 64-bit hash of bytes, the same on every machine.
uint64_t hash_bytes(std::string_view bytes);

}  // namespace cohort::text
