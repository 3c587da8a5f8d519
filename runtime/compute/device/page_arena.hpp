#pragma once
/// Pages of a virtual card that outlive the objects in them, as a real card's memory does: what an
/// object leaves behind goes to the next one without the kernel clearing it in between.
///
/// A block is a contiguous range of addresses. Its pages come first from what earlier blocks left
/// (moved there by mremap, so that no free page is ever in the wrong place: ARENA-2), then fresh
/// from the kernel. Pages are kept in chunks of 2 MiB, so that huge pages stay whole; a block's
/// tail below that is always fresh, and unmapped with it.
///
/// ARENA-1: idle_bytes() <= the limit last given to trim(). The owner gives the most bytes that
/// were ever in use less those in use now, so that resident memory never exceeds what was in use at
/// once, rounded to pages.
/// ARENA-2: take() uses every idle chunk it can before it asks for a fresh one.
/// Bound: k_extents_max mappings are kept idle, and as many go into one block.
/// Owner: a card's ledger, under its lock; not thread-safe. Linux.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace cohort::compute {

/// One mapping's worth of whole chunks; mremap moves no more at once.
struct PageExtent {
  std::byte* data = nullptr;
  uint64_t size_bytes = 0;
};

struct PageBlock {
  std::byte* data = nullptr;        // 2 MiB aligned; null: the OS has no memory or no addresses
  uint64_t mapped_bytes = 0;        // whole pages
  uint64_t used_before_bytes = 0;   // these come first and hold what was there; the rest is zero
  std::vector<PageExtent> extents;  // its whole chunks, in order
};

class PageArena {
 public:
  static constexpr uint64_t k_chunk_bytes = 2 << 20;
  static constexpr size_t k_extents_max = 4096;

  PageArena() = default;
  ~PageArena() { trim(0); }
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  /// REQUIRES: size_bytes > 0.
  PageBlock take(uint64_t size_bytes);
  /// Keeps the block's chunks idle and unmaps its tail.
  void give_back(PageBlock block);
  /// Unmaps idle chunks, the smallest extents first, until at most `limit_bytes` are left.
  void trim(uint64_t limit_bytes);

  uint64_t idle_bytes() const { return idle_bytes_; }

 private:
  PageExtent take_idle(uint64_t wanted_bytes);
  void keep(PageExtent extent);
  uint64_t fill_from_idle(PageBlock& block, uint64_t chunk_bytes);

  std::multimap<uint64_t, std::byte*> idle_;  // by size
  uint64_t idle_bytes_ = 0;
};

/// Returns fresh zero pages, 2 MiB aligned from 2 MiB on and advised to be huge from 4 MiB on;
/// nullptr if the OS refuses. To be given to unmap_pages with the same size.
std::byte* map_pages(uint64_t size_bytes);
void unmap_pages(std::byte* data, uint64_t size_bytes);

}  // namespace cohort::compute
