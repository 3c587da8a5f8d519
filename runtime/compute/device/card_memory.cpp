#include "runtime/compute/device/card_memory.hpp"

#include <fmt/format.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/compute/device/page_arena.hpp"

namespace cohort::compute {
namespace {

constexpr uint64_t k_map_threshold_bytes = 128 << 10;  // below it a page per block would be waste
constexpr size_t k_storage_alignment = 64;             // one cache line, one AVX-512 vector

void* allocate_bytes(uint64_t size_bytes) {
  if (size_bytes >= k_map_threshold_bytes) return map_pages(size_bytes);
  uint64_t rounded =
      (size_bytes + k_storage_alignment - 1) / k_storage_alignment * k_storage_alignment;
  void* data = std::aligned_alloc(k_storage_alignment, rounded);
  if (data != nullptr) std::memset(data, 0, rounded);
  return data;
}

void free_bytes(void* data, uint64_t size_bytes) {
  if (size_bytes >= k_map_threshold_bytes)
    unmap_pages(static_cast<std::byte*>(data), size_bytes);
  else
    std::free(data);
}

}  // namespace

namespace detail {

struct CardLedger {
  CardId card;
  uint64_t budget_bytes = 0;
  CardPages pages = CardPages::released;
  std::shared_ptr<Device> device;  // null: the host plays the card
  std::mutex mutex;
  uint64_t bytes_in_use = 0, peak_bytes = 0;
  PageArena arena;

  /// REQUIRES: the lock. ARENA-1.
  void trim() { arena.trim(pages == CardPages::kept ? peak_bytes - bytes_in_use : 0); }

  /// REQUIRES: the lock.
  Expected<void> book(const std::string& object, uint64_t size_bytes) {
    if (size_bytes > budget_bytes - bytes_in_use)
      return Error{Errc::capacity,
                   fmt::format("card {}: {} needs {} bytes, {} of {} bytes are in use", card.value,
                               object, size_bytes, bytes_in_use, budget_bytes)};
    bytes_in_use += size_bytes;
    peak_bytes = std::max(peak_bytes, bytes_in_use);
    return {};
  }
};

struct CardBlock {
  std::shared_ptr<CardLedger> ledger;
  uint64_t size_bytes = 0;
  void* small = nullptr;  // of the heap, or
  PageBlock pages;        // of the arena, or
  DeviceBlock on_device;

  CardBlock() = default;
  CardBlock(const CardBlock&) = delete;
  CardBlock& operator=(const CardBlock&) = delete;
  ~CardBlock() {
    if (ledger == nullptr) return;  // refused
    std::free(small);
    on_device = DeviceBlock();
    std::lock_guard lock(ledger->mutex);
    if (pages.data != nullptr) ledger->arena.give_back(std::move(pages));
    COHORT_CHECK(ledger->bytes_in_use >= size_bytes, "PLACE-2: more bytes freed than taken");
    ledger->bytes_in_use -= size_bytes;
    ledger->trim();
  }

  bool is_small() const { return size_bytes < k_map_threshold_bytes; }
  std::byte* data() const {
    if (ledger->device) return on_device.data();
    return is_small() ? static_cast<std::byte*>(small) : pages.data;
  }
};

}  // namespace detail

std::byte* CardStorage::data() const { return block_ ? block_->data() : nullptr; }
uint64_t CardStorage::size_bytes() const { return block_ ? block_->size_bytes : 0; }
std::shared_ptr<void> CardStorage::owner() const { return block_; }

Expected<void> CardStorage::fill_from(const std::byte* from) {
  if (empty()) return {};
  if (Device* device = block_->ledger->device.get())
    return device->copy(data(), from, size_bytes());
  const uint64_t ready = std::min(block_->pages.used_before_bytes, size_bytes());
  copy_to_used(data(), from, ready);
  copy_to_fresh(data() + ready, from + ready, size_bytes() - ready);
  return {};
}

CardMemory::CardMemory(CardId card, uint64_t budget_bytes, CardPages pages)
    : ledger_(std::make_shared<detail::CardLedger>()) {
  ledger_->card = card;
  ledger_->budget_bytes = budget_bytes;
  ledger_->pages = pages;
}

CardMemory::CardMemory(CardId card, uint64_t budget_bytes, std::shared_ptr<Device> device)
    : CardMemory(card, budget_bytes) {
  if (device != nullptr && !device->is_cpu()) ledger_->device = std::move(device);
}

Expected<CardStorage> CardMemory::allocate(const std::string& object, uint64_t size_bytes) {
  COHORT_ASSIGN(CardStorage storage, allocate_unfilled(object, size_bytes));
  if (!storage.empty() && ledger_->device == nullptr)  // a device's blocks come cleared
    std::memset(storage.data(), 0, std::min(storage.block_->pages.used_before_bytes, size_bytes));
  return storage;
}

Expected<CardStorage> CardMemory::allocate_unfilled(const std::string& object,
                                                    uint64_t size_bytes) {
  CardStorage storage;
  if (size_bytes == 0) return storage;
  auto block = std::make_shared<detail::CardBlock>();
  block->size_bytes = size_bytes;
  std::unique_lock lock(ledger_->mutex);
  COHORT_TRY(ledger_->book(object, size_bytes));
  block->ledger = ledger_;
  if (ledger_->device) {
    lock.unlock();
    auto taken = ledger_->device->allocate(size_bytes);
    if (!taken)
      return taken.error().with_context(fmt::format("card {}: {}", ledger_->card.value, object));
    block->on_device = std::move(*taken);
  } else {
    if (block->is_small())
      block->small = allocate_bytes(size_bytes);
    else
      block->pages = ledger_->arena.take(size_bytes);
    ledger_->trim();
    lock.unlock();
    if (block->data() == nullptr)
      return Error{Errc::compute, fmt::format("card {}: the host has no {} bytes for {}",
                                              ledger_->card.value, size_bytes, object)};
  }
  storage.block_ = std::move(block);
  return storage;
}

CardId CardMemory::card() const { return ledger_->card; }
const std::shared_ptr<Device>& CardMemory::device() const { return ledger_->device; }
uint64_t CardMemory::budget_bytes() const { return ledger_->budget_bytes; }
bool CardMemory::keeps_pages() const { return ledger_->pages == CardPages::kept; }

uint64_t CardMemory::bytes_in_use() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->bytes_in_use;
}

uint64_t CardMemory::idle_bytes() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->arena.idle_bytes();
}

uint64_t CardMemory::peak_bytes() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->peak_bytes;
}

#ifdef __SSE2__
// memcpy does this, too, but only above three quarters of the last cache's size, which on a large
// shared machine is more than a process ever has of it: half the speed for hundreds of MiB.
void copy_to_used(std::byte* to, const std::byte* from, uint64_t size_bytes) {
  constexpr uint64_t k_least_bytes = 8 << 20, k_line_bytes = 64;
  const uint64_t lines = size_bytes < k_least_bytes ? 0 : size_bytes / k_line_bytes;
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  for (uint64_t i = 0; i < lines; ++i, source += 4, target += 4) {
    const __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1);
    const __m128i c = _mm_load_si128(source + 2), d = _mm_load_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  if (lines > 0) _mm_sfence();
  const uint64_t done = lines * k_line_bytes;
  if (done < size_bytes) std::memcpy(to + done, from + done, size_bytes - done);
}
#else
void copy_to_used(std::byte* to, const std::byte* from, uint64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);
}
#endif

void copy_to_fresh(std::byte* to, const std::byte* from, uint64_t size_bytes) {
  // Below the size from which memcpy writes past the cache: there the page lies, just cleared.
  constexpr uint64_t k_piece_bytes = 256 << 10;
  for (uint64_t at = 0; at < size_bytes; at += k_piece_bytes)
    std::memcpy(to + at, from + at, std::min(k_piece_bytes, size_bytes - at));
}

Expected<std::shared_ptr<std::byte>> allocate_host(uint64_t size_bytes) {
  if (size_bytes == 0) return std::shared_ptr<std::byte>();
  void* data = allocate_bytes(size_bytes);
  if (data == nullptr)
    return Error{Errc::compute, fmt::format("the host has no {} bytes", size_bytes)};
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(data),
                                    [size_bytes](std::byte* p) { free_bytes(p, size_bytes); });
}

void offer_pages([[maybe_unused]] std::span<std::byte> bytes) {
#if defined(MADV_FREE)
  if (bytes.size() < k_map_threshold_bytes) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  // Fails where the OS cannot: then the pages stay.
  ::madvise(bytes.data(), bytes.size() / page * page, MADV_FREE);
#endif
}

}  // namespace cohort::compute
