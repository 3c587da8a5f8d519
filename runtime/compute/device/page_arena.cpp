#include "runtime/compute/device/page_arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace cohort::compute {
namespace {

constexpr uint64_t k_chunk = PageArena::k_chunk_bytes;

uint64_t whole_pages(uint64_t size_bytes) {
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return (size_bytes + page - 1) / page * page;
}

std::byte* map_at(std::byte* where, uint64_t size_bytes) {
  void* data = ::mmap(where, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (where != nullptr ? MAP_FIXED : 0), -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

/// Moves pages, not bytes. What was mapped at `to` is gone even if it fails.
bool move_pages(const PageExtent& from, std::byte* to) {
  return ::mremap(from.data, from.size_bytes, from.size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
         MAP_FAILED;
}

}  // namespace

std::byte* map_pages(uint64_t size_bytes) {
  const uint64_t wanted = whole_pages(size_bytes);
  if (wanted < k_chunk) return map_at(nullptr, wanted);
  std::byte* begin = map_at(nullptr, wanted + k_chunk);
  if (begin == nullptr) return nullptr;
  const uint64_t front = (k_chunk - reinterpret_cast<uintptr_t>(begin) % k_chunk) % k_chunk;
  if (front > 0) ::munmap(begin, front);
  ::munmap(begin + front + wanted, k_chunk - front);
  // Page faults of 4 KiB cost more than the copy that causes them. Only advice: may fail.
  if (wanted >= 2 * k_chunk) ::madvise(begin + front, wanted, MADV_HUGEPAGE);
  return begin + front;
}

void unmap_pages(std::byte* data, uint64_t size_bytes) {
  if (data != nullptr) ::munmap(data, whole_pages(size_bytes));
}

PageBlock PageArena::take(uint64_t size_bytes) {
  PageBlock block;
  block.data = map_pages(size_bytes);
  if (block.data == nullptr) return block;
  block.mapped_bytes = whole_pages(size_bytes);
  const uint64_t chunk_bytes = size_bytes / k_chunk * k_chunk;
  const uint64_t reached = fill_from_idle(block, chunk_bytes);
  if (block.data == nullptr) return block;
  if (reached < chunk_bytes) block.extents.push_back({block.data + reached, chunk_bytes - reached});
  return block;
}

/// Returns how far the block now holds extents; `used_before_bytes` may be less by a refused move.
/// The block is empty if the OS refused its pages.
uint64_t PageArena::fill_from_idle(PageBlock& block, uint64_t chunk_bytes) {
  uint64_t reached = 0;
  while (reached < chunk_bytes && idle_bytes_ > 0 && block.extents.size() + 1 < k_extents_max) {
    PageExtent extent = take_idle(chunk_bytes - reached);
    std::byte* to = block.data + reached;
    if (move_pages(extent, to)) {
      block.extents.push_back({to, extent.size_bytes});
      reached += extent.size_bytes;
      block.used_before_bytes = reached;
      continue;
    }
    unmap_pages(extent.data, extent.size_bytes);  // no mapping to spare: fresh pages must do
    if (map_at(to, extent.size_bytes) == nullptr) {
      unmap_pages(block.data, block.mapped_bytes);
      block = {};
      return 0;
    }
    block.extents.push_back({to, extent.size_bytes});
    return reached + extent.size_bytes;
  }
  return reached;
}

/// Returns the extent of this size, or what fits of the largest. REQUIRES: one is idle.
PageExtent PageArena::take_idle(uint64_t wanted_bytes) {
  auto it = idle_.find(wanted_bytes);
  if (it == idle_.end()) it = std::prev(idle_.end());
  const PageExtent found{it->second, it->first};
  idle_.erase(it);
  idle_bytes_ -= found.size_bytes;
  if (found.size_bytes <= wanted_bytes) return found;
  keep({found.data + wanted_bytes, found.size_bytes - wanted_bytes});
  return {found.data, wanted_bytes};
}

void PageArena::keep(PageExtent extent) {
  idle_.emplace(extent.size_bytes, extent.data);
  idle_bytes_ += extent.size_bytes;
}

void PageArena::give_back(PageBlock block) {
  uint64_t kept = 0;
  for (const PageExtent& extent : block.extents) {
    keep(extent);
    kept += extent.size_bytes;
  }
  if (kept < block.mapped_bytes) unmap_pages(block.data + kept, block.mapped_bytes - kept);
  while (idle_.size() > k_extents_max) trim(idle_bytes_ - idle_.begin()->first);
}

void PageArena::trim(uint64_t limit_bytes) {
  while (idle_bytes_ > limit_bytes) {
    auto it = idle_.begin();
    const uint64_t over = (idle_bytes_ - limit_bytes + k_chunk - 1) / k_chunk * k_chunk;
    const uint64_t gone = std::min(over, it->first);
    const PageExtent left{it->second, it->first - gone};
    unmap_pages(it->second + left.size_bytes, gone);
    idle_.erase(it);
    idle_bytes_ -= gone + left.size_bytes;
    if (left.size_bytes > 0) keep(left);
  }
}

}  // namespace cohort::compute
