#pragma once
/// Where a card's weights lie: a card's part of each tensor is one contiguous row-major block in
/// an engine's buffers (a TP rank's o_proj is its own [hidden, q / tp]), found by family, layer and
/// expert. Value types. A Source or Target is called at the begin of each publish, on the member's
/// thread, once for each part that the layout gives the card; its memory must stay in place, and a
/// source unchanged, until that publish has ended.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/reshard/reshard.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"
#include "runtime/tensor/dtype.hpp"

namespace cohort::publish {

/// A card's part of one tensor.
struct PartName {
  uint32_t family = 0;  // index of ModelTensors::tensors
  uint64_t layer = 0;   // of the model; 0 for a family at an end of it
  uint32_t expert = 0;  // of the model; 0 for a family without experts
  auto operator<=>(const PartName&) const = default;
};

using Source = std::function<std::span<const std::byte>(const PartName&)>;
using Target = std::function<std::span<std::byte>(const PartName&)>;

/// The parts of one card in one layout, with their sizes as planned and, once resolved, addresses.
class PartTable {
 public:
  struct Part {
    PartName name;
    uint64_t bytes = 0;   // as planned: in the plan's element size
    uint64_t offset = 0;  // in a buffer of all parts in the layout's order
  };
  /// `shards` must outlive the table. A card outside the layout has no parts.
  PartTable(const plan::Shards& shards, CardId card);
  const std::vector<Part>& parts() const { return parts_; }
  /// Aborts if the card does not hold the part.
  const Part& part(const PartName& name) const;
  uint64_t bytes() const { return bytes_; }

  /// Asks for each part's address; an element in memory is `widen` times as wide as planned.
  /// Returns Errc::invalid_argument naming the first part of another size.
  Expected<void> resolve(const Source& source, uint64_t widen);
  Expected<void> resolve(const Target& target);
  /// Returns the part's address; a part of a Source is only read. Aborts if the card does not hold
  /// it or it is not resolved.
  std::byte* at(const PartName& name) const;
  /// xxh3 over all parts in the layout's order: equal for equal shards.
  uint64_t checksum() const;

 private:
  size_t slot(const PartName& name) const;
  Expected<void> check(const Part& part, uint64_t bytes, uint64_t widen) const;
  const plan::Shards* shards_;
  std::vector<Part> parts_;
  std::vector<size_t> first_slot_;     // by family
  std::vector<uint32_t> part_of_;      // by slot: index of parts_
  std::vector<std::byte*> addresses_;  // by slot; null: not held, or not resolved
  uint64_t bytes_ = 0;
};

/// Parts one after another in one buffer, in the layout's order. `widen`: bytes of an element in
/// memory over those of a planned one. The table must outlive the result.
Source flat_source(const PartTable& table, std::span<const std::byte> buffer, uint64_t widen = 1);
Target flat_target(const PartTable& table, std::span<std::byte> buffer);

}  // namespace cohort::publish
