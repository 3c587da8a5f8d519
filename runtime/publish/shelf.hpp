#pragma once
/// Shelf: chunks that are packed once and sent to all receivers of the same bytes. In the own
/// window where there is one, in buffers elsewhere. Owner and thread: the Session. Internal to
/// runtime/publish. Bound: `slots` chunks, which are few enough to stay in a core's cache.
///
/// A slot that is on its way (in_flight) keeps its bytes; one that is yet to be sent (wanted) keeps
/// them unless the destination that is furthest behind needs the room.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/publish/port.hpp"
#include "runtime/publish/program.hpp"

namespace cohort::publish {

class Shelf {
 public:
  struct Chunk {
    uint32_t group = k_none;  // Outgoing::group; none: empty
    uint64_t offset = 0;      // of the group's bytes
    Note note;                // bytes, checksum, place; the same for all
    tensor::Buffer body;
    uint32_t in_flight = 0, wanted = 0;
    uint64_t order = 0;
  };

  Shelf(Port& port, size_t slots, uint64_t slot_bytes)
      : port_(&port), slot_bytes_(slot_bytes), chunks_(slots) {}
  /// Returns the chunk if it is there.
  Chunk* find(uint32_t group, uint64_t offset) {
    for (Chunk& x : chunks_)
      if (x.group == group && x.offset == offset) return &x;
    return nullptr;
  }
  /// Returns an empty slot with room for `bytes`, or null while there is none.
  Chunk* take(uint64_t bytes, bool may_drop_wanted) {
    Chunk* best = nullptr;
    for (Chunk& x : chunks_) {
      if (x.in_flight > 0) continue;
      bool is_better = best == nullptr || (x.wanted == 0) > (best->wanted == 0) ||
                       ((x.wanted == 0) == (best->wanted == 0) && x.order < best->order);
      if (is_better) best = &x;
    }
    if (best == nullptr || (best->wanted > 0 && !may_drop_wanted)) return nullptr;
    clear(*best);
    best->order = next_order_++;
    best->note.bytes = bytes;
    best->note.place = index(*best) * slot_bytes_;
    if (!port_->has_windows()) best->body = tensor::Buffer::allocate(bytes);
    held_bytes_ += bytes;
    return best;
  }
  /// The bytes of a slot that has not been sent yet.
  std::span<std::byte> room(Chunk& chunk) {
    if (!port_->has_windows()) return chunk.body.mutable_bytes();
    return port_->window().subspan(chunk.note.place, chunk.note.bytes);
  }
  size_t index(const Chunk& chunk) const { return static_cast<size_t>(&chunk - chunks_.data()); }
  /// A receiver is through with it.
  void release(size_t index) {
    Chunk& chunk = chunks_[index];
    COHORT_CHECK(chunk.in_flight > 0, "PUBLISH: a chunk came back that was not sent");
    if (--chunk.in_flight == 0 && chunk.wanted == 0) clear(chunk);
  }
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  void clear(Chunk& chunk) {
    held_bytes_ -= chunk.note.bytes;
    chunk = Chunk{};
  }
  Port* port_;
  uint64_t slot_bytes_;
  std::vector<Chunk> chunks_;
  uint64_t next_order_ = 1, held_bytes_ = 0;
};

}  // namespace cohort::publish
