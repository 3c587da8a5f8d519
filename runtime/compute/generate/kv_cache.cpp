#include "runtime/compute/generate/kv_cache.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace cohort::compute {

BlockPool::BlockPool(int32_t block_count) : is_owned_(static_cast<size_t>(block_count), 0) {
  free_.reserve(is_owned_.size());
  for (int32_t id = block_count; id > 0; --id) free_.push_back(id - 1);
}

std::optional<int32_t> BlockPool::take() {
  if (free_.empty()) return std::nullopt;
  const int32_t id = free_.back();
  free_.pop_back();
  COHORT_CHECK(is_owned_[static_cast<size_t>(id)] == 0, "KV-1: a free block is owned");
  is_owned_[static_cast<size_t>(id)] = 1;
  return id;
}

void BlockPool::give_back(std::span<const int32_t> blocks) {
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    COHORT_CHECK(*it >= 0 && *it < block_count(), "KV-1: a block id is out of range");
    COHORT_CHECK(is_owned_[static_cast<size_t>(*it)] == 1, "KV-1: a block is given back twice");
    is_owned_[static_cast<size_t>(*it)] = 0;
    free_.push_back(*it);
  }
}

void BlockPool::assert_invariants() const {
  const auto owned = std::count(is_owned_.begin(), is_owned_.end(), 1);
  COHORT_CHECK(static_cast<size_t>(owned) + free_.size() == is_owned_.size(),
               "KV-2: free and owned blocks do not add up");
  for (int32_t id : free_)
    COHORT_CHECK(is_owned_[static_cast<size_t>(id)] == 0, "KV-1: a free block is owned");
}

}  // namespace cohort::compute
