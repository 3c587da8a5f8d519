#include "runtime/tensor/buffer.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"

namespace cohort::tensor {

/// Lives in the 64 bytes in front of pooled data, or alone for adopted bytes.
struct alignas(k_buffer_alignment) Buffer::Block {
  std::atomic<uint32_t> refs{1};
  uint32_t size_class = 0;
  size_t capacity = 0;  // data bytes; 0 = adopted
  std::shared_ptr<const void> owner;
};

namespace {

constexpr size_t k_steps = 4;  // classes per power of two: at most 25 % of a block is unused
constexpr size_t k_smallest_bits = 8;  // 256 B
constexpr size_t k_largest_bits = 25;  // 32 MiB
constexpr size_t k_classes = (k_largest_bits - k_smallest_bits) * k_steps + 1;
constexpr uint32_t k_not_pooled = ~uint32_t{0};
static_assert(size_t{1} << k_largest_bits == k_pooled_block_bytes);

struct SizeClass {
  size_t index;
  size_t capacity;
};

/// Returns the smallest class that holds `size_bytes` (at most k_pooled_block_bytes).
SizeClass class_of(size_t size_bytes) {
  size_t size =
      size_bytes < (size_t{1} << k_smallest_bits) ? size_t{1} << k_smallest_bits : size_bytes;
  auto bits = static_cast<size_t>(std::bit_width(size - 1));  // 2^(bits-1) < size <= 2^bits
  if (bits <= k_smallest_bits) return {0, size_t{1} << k_smallest_bits};
  size_t lower = size_t{1} << (bits - 1);
  size_t step = lower / k_steps;
  size_t steps = (size - lower + step - 1) / step;  // 1..k_steps
  return {(bits - 1 - k_smallest_bits) * k_steps + steps, lower + steps * step};
}

void free_block(void* block) { ::operator delete (block, std::align_val_t{k_buffer_alignment}); }

}  // namespace

struct BufferPool {
  using Block = Buffer::Block;
  struct Shelf {
    std::mutex mutex;
    std::vector<Block*> blocks;
  };
  std::array<Shelf, k_classes> shelves;
  std::atomic<uint64_t> allocated{0}, reused{0}, idle_bytes{0}, live_bytes{0};

  // Never destroyed: Buffers in static objects may outlive any destructor order.
  static BufferPool& instance() {
    static BufferPool* pool = new BufferPool;
    return *pool;
  }

  Block* take(size_t size_bytes) {
    if (size_bytes > k_pooled_block_bytes) return make(size_bytes, k_not_pooled);
    SizeClass size_class = class_of(size_bytes);
    Shelf& shelf = shelves[size_class.index];
    {
      std::lock_guard lock(shelf.mutex);
      if (!shelf.blocks.empty()) {
        Block* block = shelf.blocks.back();
        shelf.blocks.pop_back();
        idle_bytes -= block->capacity;
        live_bytes += block->capacity;
        ++reused;
        block->refs.store(1, std::memory_order_relaxed);
        return block;
      }
    }
    return make(size_class.capacity, static_cast<uint32_t>(size_class.index));
  }

  Block* make(size_t capacity, uint32_t size_class) {
    void* memory = ::operator new (sizeof(Block) + capacity, std::align_val_t{k_buffer_alignment},
                                   std::nothrow);
    COHORT_CHECK(memory != nullptr,
                 "out of memory: Buffer of " + std::to_string(capacity) + " bytes");
    auto* block = new (memory) Block;
    block->size_class = size_class;
    block->capacity = capacity;
    ++allocated;
    live_bytes += capacity;
    return block;
  }

  void give(Block* block) {
    live_bytes -= block->capacity;
    if (block->size_class != k_not_pooled) {
      if (idle_bytes.fetch_add(block->capacity) + block->capacity <= k_pool_bytes) {
        Shelf& shelf = shelves[block->size_class];
        std::lock_guard lock(shelf.mutex);
        shelf.blocks.push_back(block);
        return;
      }
      idle_bytes -= block->capacity;
    }
    block->~Block();
    free_block(block);
  }

  void trim() {
    for (Shelf& shelf : shelves) {
      std::lock_guard lock(shelf.mutex);
      for (Block* block : shelf.blocks) {
        idle_bytes -= block->capacity;
        block->~Block();
        free_block(block);
      }
      shelf.blocks.clear();
    }
  }
};

Buffer::Buffer(const Buffer& other) noexcept
    : data_(other.data_), size_bytes_(other.size_bytes_), block_(other.block_) {
  if (block_ != nullptr) block_->refs.fetch_add(1, std::memory_order_relaxed);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      block_(std::exchange(other.block_, nullptr)) {}

Buffer& Buffer::operator=(Buffer other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(block_, other.block_);
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
  Block* block = std::exchange(block_, nullptr);
  if (block == nullptr || block->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (block->capacity == 0)
    delete block;
  else
    BufferPool::instance().give(block);
}

Buffer Buffer::allocate(size_t size_bytes) {
  if (size_bytes == 0) return {};
  Block* block = BufferPool::instance().take(size_bytes);
  return {reinterpret_cast<const std::byte*>(block + 1), size_bytes, block};
}

Buffer Buffer::copy_of(std::span<const std::byte> bytes) {
  Buffer buffer = allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.mutable_bytes().data(), bytes.data(), bytes.size());
  return buffer;
}

Buffer Buffer::adopt(const std::byte* data, size_t size_bytes, std::shared_ptr<const void> owner) {
  if (size_bytes == 0) return {};
  auto* block = new Block;
  block->owner = std::move(owner);
  return {data, size_bytes, block};
}

std::span<std::byte> Buffer::mutable_bytes() {
  if (block_ == nullptr) return {};
  COHORT_CHECK(block_->capacity != 0, "Buffer: adopted bytes are read-only");
  COHORT_CHECK(block_->refs.load(std::memory_order_acquire) == 1,
               "Buffer: bytes are shared and may not be written");
  return {const_cast<std::byte*>(data_), size_bytes_};
}

Buffer Buffer::slice(size_t offset, size_t size_bytes) const {
  COHORT_CHECK(offset <= size_bytes_ && size_bytes <= size_bytes_ - offset,
               "Buffer: slice out of range");
  if (size_bytes == 0) return {};
  Buffer part(*this);
  part.data_ += offset;
  part.size_bytes_ = size_bytes;
  return part;
}

PoolStats pool_stats() {
  BufferPool& pool = BufferPool::instance();
  return {pool.allocated, pool.reused, pool.idle_bytes, pool.live_bytes};
}

void trim_pool() { BufferPool::instance().trim(); }

}  // namespace cohort::tensor
