#include "runtime/publish/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/tensor/checksum.hpp"

namespace cohort::publish {
namespace {

constexpr uint32_t k_not_held = std::numeric_limits<uint32_t>::max();

}  // namespace

PartTable::PartTable(const plan::Shards& shards, CardId card) : shards_(&shards) {
  const auto& families = shards.model().tensors;
  size_t slots = 0;
  for (const plan::TensorSpec& spec : families) {
    first_slot_.push_back(slots);
    slots += plan::family_layers(spec).size() * plan::family_experts(spec);
  }
  addresses_.assign(slots, nullptr);
  part_of_.assign(slots, k_not_held);
  const auto& ranks = shards.layout().ranks;
  auto rank = std::ranges::find(ranks, card);
  if (rank == ranks.end()) return;
  auto position = static_cast<uint32_t>(rank - ranks.begin());
  plan::Shards::Place place = shards.place(position);
  bytes_ = shards.bytes(position);
  for (uint32_t family = 0; family < families.size(); ++family) {
    const plan::TensorSpec& spec = families[family];
    uint64_t bytes = shards.cut(spec, shards.cut_of(spec, place)).size() * spec.element_bytes;
    plan::Interval layers = shards.layers(spec, place.stage);
    const uint32_t none = 0;
    std::span<const uint32_t> experts{&none, 1};
    if (spec.experts > 0) experts = shards.experts(place.replica, place.ep);
    for (uint64_t layer = layers.begin; layer < layers.end; ++layer)
      for (uint32_t expert : experts) {
        PartName name{family, layer, expert};
        part_of_[slot(name)] = static_cast<uint32_t>(parts_.size());
        parts_.push_back({name, bytes, shards.offset(position, family, layer, expert)});
      }
  }
}

size_t PartTable::slot(const PartName& name) const {
  const plan::TensorSpec& spec = shards_->model().tensors[name.family];
  return first_slot_[name.family] +
         (name.layer - plan::family_layers(spec).begin) * plan::family_experts(spec) + name.expert;
}

const PartTable::Part& PartTable::part(const PartName& name) const {
  uint32_t index = part_of_[slot(name)];
  COHORT_CHECK(index != k_not_held, "RESHARD-4: a part that the card does not hold");
  return parts_[index];
}

Expected<void> PartTable::check(const Part& part, uint64_t bytes, uint64_t widen) const {
  if (bytes == part.bytes * widen) return {};
  const plan::TensorSpec& spec = shards_->model().tensors[part.name.family];
  return Error{Errc::invalid_argument,
               fmt::format("publish: layout {}: {} of layer {}{}: the engine's part has {} bytes, "
                           "the plan says {}: engine and plan cut this tensor differently",
                           shards_->layout().name, spec.name, part.name.layer,
                           spec.experts > 0 ? fmt::format(", expert {}", part.name.expert) : "",
                           bytes, part.bytes * widen)};
}

Expected<void> PartTable::resolve(const Source& source, uint64_t widen) {
  for (const Part& part : parts_) {
    std::span<const std::byte> block = source(part.name);
    COHORT_TRY(check(part, block.size(), widen));
    addresses_[slot(part.name)] = const_cast<std::byte*>(block.data());
  }
  return {};
}

Expected<void> PartTable::resolve(const Target& target) {
  for (const Part& part : parts_) {
    std::span<std::byte> block = target(part.name);
    COHORT_TRY(check(part, block.size(), 1));
    addresses_[slot(part.name)] = block.data();
  }
  return {};
}

std::byte* PartTable::at(const PartName& name) const {
  std::byte* address = addresses_[slot(name)];
  COHORT_CHECK(address != nullptr || part(name).bytes == 0,
               "RESHARD-4: a part that has no address");
  return address;
}

uint64_t PartTable::checksum() const {
  tensor::Checksum sum;
  for (const Part& part : parts_) sum.update({addresses_[slot(part.name)], part.bytes});
  return sum.digest();
}

Source flat_source(const PartTable& table, std::span<const std::byte> buffer, uint64_t widen) {
  return [&table, buffer, widen](const PartName& name) {
    const PartTable::Part& part = table.part(name);
    return buffer.subspan(part.offset * widen, part.bytes * widen);
  };
}

Target flat_target(const PartTable& table, std::span<std::byte> buffer) {
  return [&table, buffer](const PartName& name) {
    const PartTable::Part& part = table.part(name);
    return buffer.subspan(part.offset, part.bytes);
  };
}

}  // namespace cohort::publish
