#pragma once
/// One object of a role (parameters, moments, …) whose bytes live on the host, on the card, or
/// nowhere. Owner: an engine; not thread-safe. One place holds the bytes, but for the copy itself.
/// On a card that keeps its pages the object keeps its host buffer too (as a pinned one is kept:
/// paged in once): size_bytes() more of host memory from the first offload on, without meaning
/// while the object is on the card.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/compute/device/card_memory.hpp"

namespace cohort::compute {

class ResidentObject {
 public:
  ResidentObject() = default;
  /// `object` is the name on the card. Starts absent.
  ResidentObject(std::string object, uint64_t size_bytes)
      : object_(std::move(object)), size_bytes_(size_bytes) {}

  uint64_t size_bytes() const { return size_bytes_; }
  bool is_on_card() const { return !card_.empty(); }
  bool is_absent() const { return card_.empty() && !is_on_host_; }
  /// Returns the bytes where they are, nullptr if absent.
  std::byte* data() const { return is_on_card() ? card_.data() : host_.get(); }
  /// Returns an owner of data() for tensors made over card bytes.
  std::shared_ptr<void> card_owner() const { return card_.owner(); }

  /// Makes an absent object a host object of zeros.
  Expected<void> materialise();
  /// Host or absent (then zeros) -> card. Errc::capacity changes nothing.
  Expected<Residency> onload(CardMemory& card);
  /// Card -> host; card bytes are freed. COHORT_CHECKs that nobody else holds them (PLACE-2).
  /// Errc::compute (the host has no memory) changes nothing.
  Expected<Residency> offload();
  /// Card or host -> absent; a kept host buffer goes too.
  Residency drop();

 private:
  Expected<void> offload_from_device();

  std::string object_;
  uint64_t size_bytes_ = 0;
  CardStorage card_;
  std::shared_ptr<std::byte> host_;
  std::shared_ptr<Device> device_;  // that the card is, if it is one
  bool is_on_host_ = false;         // host_ holds the object's bytes
};

}  // namespace cohort::compute
