#pragma once
/// The blocks of one lane's paged KV cache: ids handed out and taken back; the bytes lie elsewhere.
/// Owner: one lane; not thread-safe. Bound: `block_count` blocks.
/// KV-1: a block belongs to at most one sequence. KV-2: free + owned = block_count at every moment.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cohort::compute {

class BlockPool {
 public:
  BlockPool() = default;
  explicit BlockPool(int32_t block_count);

  /// Returns a free block, the lowest id first after construction, or nothing if all are owned.
  std::optional<int32_t> take();
  /// Takes the blocks back. A block that is not owned breaks KV-1 and aborts.
  void give_back(std::span<const int32_t> blocks);

  int32_t block_count() const { return static_cast<int32_t>(is_owned_.size()); }
  int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
  void assert_invariants() const;

 private:
  std::vector<int32_t> free_;  // used as a stack: a block just released is warm in the CPU's caches
  std::vector<uint8_t> is_owned_;
};

/// Returns the number of blocks that hold `tokens` tokens.
constexpr int64_t blocks_for(int64_t tokens, int64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace cohort::compute
