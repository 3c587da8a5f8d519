#pragma once
/// The blocks of one lane's paged KV cache: ids handed out and taken back; the bytes lie elsewhere.
/// Owner: one lane; not thread-safe. Bound: `block_count` blocks.
/// KV-1: a block belongs to at most one sequence. KV-2: free + owned = block_count at every moment.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/check.hpp"

namespace cohort::compute {

class BlockPool {
 public:
  BlockPool() = default;
  explicit BlockPool(int32_t block_count) : is_owned_(static_cast<size_t>(block_count), 0) {
    free_.reserve(is_owned_.size());
    for (int32_t id = block_count; id > 0; --id) free_.push_back(id - 1);
  }

  /// Returns a free block, the lowest id first after construction, or nothing if all are owned.
  std::optional<int32_t> take() {
    if (free_.empty()) return std::nullopt;
    const int32_t id = free_.back();
    free_.pop_back();
    own(id, false, "KV-1: a free block is owned");
    return id;
  }
  /// Takes the blocks back. A block that is not owned breaks KV-1 and aborts.
  void give_back(std::span<const int32_t> blocks) {
    for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
      COHORT_CHECK(*it >= 0 && *it < block_count(), "KV-1: a block id is out of range");
      own(*it, true, "KV-1: a block is given back twice");
      free_.push_back(*it);
    }
  }

  int32_t block_count() const { return static_cast<int32_t>(is_owned_.size()); }
  int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
  void assert_invariants() const {
    const auto owned = std::count(is_owned_.begin(), is_owned_.end(), 1);
    COHORT_CHECK(static_cast<size_t>(owned) + free_.size() == is_owned_.size(),
                 "KV-2: free and owned blocks do not add up");
    for (int32_t id : free_)
      COHORT_CHECK(is_owned_[static_cast<size_t>(id)] == 0, "KV-1: a free block is owned");
  }

 private:
  /// Turns a block from owned or not (`was`) to the opposite.
  void own(int32_t id, bool was, const char* broken) {
    uint8_t& is_owned = is_owned_[static_cast<size_t>(id)];
    COHORT_CHECK((is_owned != 0) == was, broken);
    is_owned = was ? 0 : 1;
  }

  std::vector<int32_t> free_;  // used as a stack: a block just released is warm in the CPU's caches
  std::vector<uint8_t> is_owned_;
};

/// Returns the number of blocks that hold `tokens` tokens.
constexpr int64_t blocks_for(int64_t tokens, int64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace cohort::compute
