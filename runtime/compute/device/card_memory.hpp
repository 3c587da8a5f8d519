#pragma once
/// The virtual card of the `cpu` platform: a byte budget and the storage that objects take from it.
/// Owner: the card's actor (or a test); engines borrow a pointer. Thread-safe.
/// Bound: bytes_in_use() <= budget_bytes() at every moment (PLACE-2: an allocation that would break
/// it is refused with Errc::capacity and changes nothing). Storage of 128 KiB and more is mapped
/// from the OS, smaller storage comes from the heap.
///
/// Where objects stay (`released`, the default), what an object leaves is unmapped when its last
/// handle dies: the process's resident memory falls at once. Where objects take turns (`kept`), a
/// card is what a real one is: memory of its own, whose pages stay for the next object, uncleared.
/// Then the process holds up to the most bytes that were ever in use at once, rounded to pages, and
/// no more (ARENA-1, page_arena.hpp). bytes_in_use() and peak_bytes() do not count idle pages.
///
/// A card that is a device (device.hpp): the same budget and names, over blocks of the device's
/// memory, whose addresses the host must not follow: Device::copy and FlatMath do.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/compute/device/device.hpp"

namespace cohort::compute {

namespace detail {
struct CardLedger;
struct CardBlock;
}  // namespace detail

/// What an onload, offload, init_cache or free_cache did: measured, for the ledger.
struct Residency {
  uint64_t bytes_on_card = 0;  // of this object, after the command
  uint64_t bytes_moved = 0;    // between host and card (0 for a cache: nothing is copied)
  double seconds = 0;
};

/// What becomes of the pages that an object leaves.
enum class CardPages : uint8_t { released = 0, kept = 1 };

/// Shared handle of 64-byte aligned card bytes. The bytes return to the card when the
/// last copy of the handle (a tensor made over it holds one) is gone. A default handle is empty.
class CardStorage {
 public:
  CardStorage() = default;
  std::byte* data() const;
  uint64_t size_bytes() const;
  bool empty() const { return block_ == nullptr; }
  /// Drops this handle.
  void reset() { block_.reset(); }
  /// Returns the number of handles that keep the bytes on the card (0 if empty).
  int64_t use_count() const { return block_.use_count(); }
  /// Returns an owner to be held by whatever refers to data().
  std::shared_ptr<void> owner() const;
  /// Copies size_bytes() bytes of the host in, each page in the way that suits it (used before, or
  /// fresh). Errc::compute if a device cannot copy.
  Expected<void> fill_from(const std::byte* from);

 private:
  friend class CardMemory;
  std::shared_ptr<detail::CardBlock> block_;
};

class CardMemory {
 public:
  CardMemory(CardId card, uint64_t budget_bytes, CardPages pages = CardPages::released);
  /// A card that is a device; a cpu Device is as none. Its allocator keeps what objects leave.
  CardMemory(CardId card, uint64_t budget_bytes, std::shared_ptr<Device> device);

  /// Returns zero-filled storage for `object`, a name for messages.
  /// Returns Errc::capacity naming card, object, bytes asked, bytes in use and budget if it does
  /// not fit; Errc::compute if the OS has no memory.
  Expected<CardStorage> allocate(const std::string& object, uint64_t size_bytes);
  /// The same, but the bytes are what they were: for storage that will be written whole.
  Expected<CardStorage> allocate_unfilled(const std::string& object, uint64_t size_bytes);

  CardId card() const;
  /// Returns the device the card is, null for a virtual card of the host.
  const std::shared_ptr<Device>& device() const;
  uint64_t budget_bytes() const;
  /// True where objects take turns: pages stay on the card, and host buffers with their objects.
  bool keeps_pages() const;
  uint64_t bytes_in_use() const;
  /// Returns the bytes of pages that wait for the next object.
  uint64_t idle_bytes() const;
  /// Returns the most bytes that were ever in use at once.
  uint64_t peak_bytes() const;

 private:
  std::shared_ptr<detail::CardLedger> ledger_;
};

/// Copies between pages that are there already, both 64-byte aligned; large objects past the
/// caches, where they would be gone before they are read again.
void copy_to_used(std::byte* to, const std::byte* from, uint64_t size_bytes);

/// Copies into storage that has not been touched yet: page by page, while what the kernel has just
/// cleared is in the cache.
void copy_to_fresh(std::byte* to, const std::byte* from, uint64_t size_bytes);

/// Host memory outside any card: mapped and unmapped in the same way, no budget. Never null unless
/// `size_bytes` is 0 (then an empty handle); Errc::compute if the OS has no memory.
Expected<std::shared_ptr<std::byte>> allocate_host(uint64_t size_bytes);

/// Lets the OS take the pages inside `bytes`, of allocate_host(), when it is short of memory; what
/// they hold is lost. A page that is written to first is kept, and need not be cleared again.
void offer_pages(std::span<std::byte> bytes);

}  // namespace cohort::compute
