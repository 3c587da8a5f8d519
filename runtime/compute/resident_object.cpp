#include "runtime/compute/resident_object.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"

namespace cohort::compute {

Expected<void> ResidentObject::materialise() {
  if (!is_absent()) return {};
  COHORT_ASSIGN(host_, allocate_host(size_bytes_));
  return {};
}

Expected<Residency> ResidentObject::onload(CardMemory& card) {
  if (is_on_card()) return Residency{size_bytes_, 0, 0};
  const double begin = now_seconds();
  COHORT_ASSIGN(CardStorage storage, card.allocate(object_, size_bytes_));
  const uint64_t moved = host_ != nullptr ? size_bytes_ : 0;
  if (moved > 0) copy_to_fresh(storage.data(), host_.get(), size_bytes_);
  card_ = std::move(storage);
  host_.reset();
  return Residency{size_bytes_, moved, now_seconds() - begin};
}

Expected<Residency> ResidentObject::offload() {
  if (!is_on_card()) return Residency{};
  const double begin = now_seconds();
  COHORT_ASSIGN(std::shared_ptr<std::byte> host, allocate_host(size_bytes_));
  copy_to_fresh(host.get(), card_.data(), size_bytes_);
  host_ = std::move(host);
  COHORT_CHECK(card_.use_count() == 1, "PLACE-2: offload while a tensor still holds card bytes");
  card_.reset();
  return Residency{0, size_bytes_, now_seconds() - begin};
}

Residency ResidentObject::drop() {
  const double begin = now_seconds();
  COHORT_CHECK(card_.use_count() <= 1, "PLACE-2: drop while a tensor still holds card bytes");
  card_.reset();
  host_.reset();
  return Residency{0, 0, now_seconds() - begin};
}

}  // namespace cohort::compute
