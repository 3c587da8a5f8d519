#include "runtime/compute/card_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "runtime/base/check.hpp"

namespace cohort::compute {
namespace {

constexpr uint64_t k_map_threshold_bytes = 128 << 10;  // below it a page per block would be waste
constexpr size_t k_storage_alignment = 64;             // one cache line, one AVX-512 vector
constexpr uint64_t k_huge_page_bytes = 2 << 20;

void* allocate_bytes(uint64_t size_bytes) {
  if (size_bytes >= k_map_threshold_bytes) {
    void* data =
        ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    // Page faults of 4 KiB cost more than the copy that causes them. Only advice: may fail.
    if (size_bytes >= 2 * k_huge_page_bytes) ::madvise(data, size_bytes, MADV_HUGEPAGE);
    return data;
  }
  uint64_t rounded =
      (size_bytes + k_storage_alignment - 1) / k_storage_alignment * k_storage_alignment;
  void* data = std::aligned_alloc(k_storage_alignment, rounded);
  if (data != nullptr) std::memset(data, 0, rounded);
  return data;
}

void free_bytes(void* data, uint64_t size_bytes) {
  if (data == nullptr) return;
  if (size_bytes >= k_map_threshold_bytes)
    ::munmap(data, size_bytes);
  else
    std::free(data);
}

}  // namespace

namespace detail {

struct CardLedger {
  CardId card;
  uint64_t budget_bytes = 0;
  mutable std::mutex mutex;
  uint64_t bytes_in_use = 0, peak_bytes = 0;
  std::map<std::string, uint64_t> bytes_by_object;

  void give_back(const std::string& object, uint64_t size_bytes) {
    std::lock_guard lock(mutex);
    COHORT_CHECK(bytes_in_use >= size_bytes, "PLACE-2: more bytes freed than taken");
    bytes_in_use -= size_bytes;
    auto it = bytes_by_object.find(object);
    it->second -= size_bytes;
    if (it->second == 0) bytes_by_object.erase(it);
  }
};

struct CardBlock {
  std::shared_ptr<CardLedger> ledger;
  std::string object;
  void* data = nullptr;
  uint64_t size_bytes = 0;

  CardBlock() = default;
  CardBlock(const CardBlock&) = delete;
  CardBlock& operator=(const CardBlock&) = delete;
  ~CardBlock() {
    free_bytes(data, size_bytes);
    if (ledger) ledger->give_back(object, size_bytes);
  }
};

}  // namespace detail

std::byte* CardStorage::data() const {
  return block_ ? static_cast<std::byte*>(block_->data) : nullptr;
}

uint64_t CardStorage::size_bytes() const { return block_ ? block_->size_bytes : 0; }

std::shared_ptr<void> CardStorage::owner() const { return block_; }

CardMemory::CardMemory(CardId card, uint64_t budget_bytes)
    : ledger_(std::make_shared<detail::CardLedger>()) {
  ledger_->card = card;
  ledger_->budget_bytes = budget_bytes;
}

Expected<CardStorage> CardMemory::allocate(const std::string& object, uint64_t size_bytes) {
  CardStorage storage;
  if (size_bytes == 0) return storage;
  {
    std::lock_guard lock(ledger_->mutex);
    if (size_bytes > ledger_->budget_bytes - ledger_->bytes_in_use)
      return Error{
          Errc::capacity,
          fmt::format("card {}: {} needs {} bytes, {} of {} bytes are in use", ledger_->card.value,
                      object, size_bytes, ledger_->bytes_in_use, ledger_->budget_bytes)};
    ledger_->bytes_in_use += size_bytes;
    ledger_->peak_bytes = std::max(ledger_->peak_bytes, ledger_->bytes_in_use);
    ledger_->bytes_by_object[object] += size_bytes;
  }
  auto block = std::make_shared<detail::CardBlock>();
  block->ledger = ledger_;
  block->object = object;
  block->size_bytes = size_bytes;
  block->data = allocate_bytes(size_bytes);
  if (block->data == nullptr)
    return Error{Errc::compute, fmt::format("card {}: the host has no {} bytes for {}",
                                            ledger_->card.value, size_bytes, object)};
  storage.block_ = std::move(block);
  return storage;
}

CardId CardMemory::card() const { return ledger_->card; }

uint64_t CardMemory::budget_bytes() const { return ledger_->budget_bytes; }

uint64_t CardMemory::bytes_in_use() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->bytes_in_use;
}

uint64_t CardMemory::peak_bytes() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->peak_bytes;
}

void CardMemory::reset_peak() {
  std::lock_guard lock(ledger_->mutex);
  ledger_->peak_bytes = ledger_->bytes_in_use;
}

std::map<std::string, uint64_t> CardMemory::bytes_by_object() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->bytes_by_object;
}

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

}  // namespace cohort::compute
