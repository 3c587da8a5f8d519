#include "runtime/compute/device/resident_object.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"

namespace cohort::compute {

Expected<void> ResidentObject::materialise() {
  if (!is_absent()) return {};
  COHORT_ASSIGN(host_, allocate_host(size_bytes_));
  is_on_host_ = true;
  return {};
}

Expected<Residency> ResidentObject::onload(CardMemory& card) {
  if (is_on_card()) return Residency{size_bytes_, 0, 0};
  const double begin = now_seconds();
  CardStorage storage;
  if (is_on_host_) {
    COHORT_ASSIGN(storage, card.allocate_unfilled(object_, size_bytes_));
    COHORT_TRY(storage.fill_from(host_.get()));
  } else {
    COHORT_ASSIGN(storage, card.allocate(object_, size_bytes_));
  }
  const uint64_t moved = is_on_host_ ? size_bytes_ : 0;
  card_ = std::move(storage);
  is_on_host_ = false;
  device_ = card.device();
  if (!card.keeps_pages()) host_.reset();
  return Residency{size_bytes_, moved, now_seconds() - begin};
}

Expected<Residency> ResidentObject::offload() {
  if (!is_on_card()) return Residency{};
  const double begin = now_seconds();
  if (device_ != nullptr) {
    COHORT_TRY(offload_from_device());
  } else if (host_ == nullptr) {
    COHORT_ASSIGN(host_, allocate_host(size_bytes_));
    copy_to_fresh(host_.get(), card_.data(), size_bytes_);
  } else {
    copy_to_used(host_.get(), card_.data(), size_bytes_);
  }
  is_on_host_ = true;
  COHORT_CHECK(card_.use_count() == 1, "PLACE-2: offload while a tensor still holds card bytes");
  card_.reset();
  return Residency{0, size_bytes_, now_seconds() - begin};
}

/// A device copies by itself into pinned memory, which torch keeps for the next one that asks.
Expected<void> ResidentObject::offload_from_device() {
  if (host_ == nullptr) {
    COHORT_ASSIGN(const DeviceBlock pinned, device_->allocate_pinned(size_bytes_));
    host_ = std::shared_ptr<std::byte>(pinned.owner(), pinned.data());
  }
  return device_->copy(host_.get(), card_.data(), size_bytes_);
}

Residency ResidentObject::drop() {
  const double begin = now_seconds();
  COHORT_CHECK(card_.use_count() <= 1, "PLACE-2: drop while a tensor still holds card bytes");
  card_.reset();
  host_.reset();
  is_on_host_ = false;
  return Residency{0, 0, now_seconds() - begin};
}

}  // namespace cohort::compute
