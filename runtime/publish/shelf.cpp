#include "runtime/publish/shelf.hpp"

#include "runtime/base/check.hpp"

namespace cohort::publish {

Shelf::Shelf(Port& port, size_t slots, uint64_t slot_bytes)
    : port_(&port), slot_bytes_(slot_bytes), chunks_(slots) {}

Shelf::Chunk* Shelf::find(uint32_t group, uint64_t offset) {
  for (Chunk& x : chunks_)
    if (x.group == group && x.offset == offset) return &x;
  return nullptr;
}

Shelf::Chunk* Shelf::take(uint64_t bytes, bool may_drop_wanted) {
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

std::span<std::byte> Shelf::room(Chunk& chunk) {
  if (!port_->has_windows()) return chunk.body.mutable_bytes();
  return port_->window().subspan(chunk.note.place, chunk.note.bytes);
}

void Shelf::release(size_t index) {
  Chunk& chunk = chunks_[index];
  COHORT_CHECK(chunk.in_flight > 0, "PUBLISH: a chunk came back that was not sent");
  if (--chunk.in_flight == 0 && chunk.wanted == 0) clear(chunk);
}

void Shelf::clear(Chunk& chunk) {
  held_bytes_ -= chunk.note.bytes;
  chunk = Chunk{};
}

}  // namespace cohort::publish
