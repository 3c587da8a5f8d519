#pragma once
/// Buffer: ref-counted host bytes that cross threads and links without a copy.
/// Owner: each copy; the last one returns the block to a process-wide pool of size classes (the
/// default malloc gives big blocks back to the kernel and pays for them again in page faults).
/// Thread-safety: distinct Buffers may share bytes across threads; one Buffer object belongs to one
/// thread at a time. Bytes are written only while one Buffer holds them. Bound: the pool keeps at
/// most k_pool_bytes idle; blocks above k_pooled_block_bytes are never kept.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace cohort::tensor {

inline constexpr size_t k_buffer_alignment = 64;                  // a cache line, an AVX-512 load
inline constexpr size_t k_pool_bytes = size_t{128} << 20;         // idle bytes kept by the pool
inline constexpr size_t k_pooled_block_bytes = size_t{32} << 20;  // bigger blocks go back at once

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other) noexcept;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer other) noexcept;
  ~Buffer();

  /// Returns uninitialised bytes, 64-byte aligned. Aborts when the machine is out of memory.
  static Buffer allocate(size_t size_bytes);
  static Buffer copy_of(std::span<const std::byte> bytes);
  /// Returns a view of foreign bytes that keeps `owner` alive; alignment is the owner's.
  static Buffer adopt(const std::byte* data, size_t size_bytes, std::shared_ptr<const void> owner);

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  /// Returns the bytes for writing. Aborts if another Buffer shares them or they were adopted.
  std::span<std::byte> mutable_bytes();
  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  /// Returns [offset, offset + size_bytes) sharing ownership. Aborts if it is out of range.
  Buffer slice(size_t offset, size_t size_bytes) const;

 private:
  friend struct BufferPool;
  struct Block;
  Buffer(const std::byte* data, size_t size_bytes, Block* block)
      : data_(data), size_bytes_(size_bytes), block_(block) {}
  void release() noexcept;

  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  Block* block_ = nullptr;
};

struct PoolStats {
  uint64_t allocated = 0;   // blocks taken from the system
  uint64_t reused = 0;      // blocks served from the pool
  uint64_t idle_bytes = 0;  // held by the pool, owned by no Buffer
  uint64_t live_bytes = 0;  // owned by Buffers (adopted bytes not counted)
};
PoolStats pool_stats();

/// Returns all idle blocks to the system, e.g. before a phase that needs the memory.
void trim_pool();

}  // namespace cohort::tensor
