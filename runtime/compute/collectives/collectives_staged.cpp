#include <cstring>

#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/device/device.hpp"

namespace cohort::compute {
namespace {

class StagedCollectives final : public Collectives {
 public:
  StagedCollectives(std::unique_ptr<Collectives> inner, std::shared_ptr<Device> device,
                    bool takes_device)
      : inner_(std::move(inner)), device_(std::move(device)), takes_device_(takes_device) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  uint64_t bytes_sent() const override { return inner_->bytes_sent(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  Expected<void> barrier() override { return inner_->barrier(); }

  Expected<void> exchange(Collective operation, Sent send, Received receive) override {
    Staging staging(*this);
    std::vector<std::span<const std::byte>> from;
    std::vector<std::span<std::byte>> to;
    for (const auto& bytes : send) {
      COHORT_ASSIGN(const auto staged, staging.in(bytes));
      from.push_back(staged);
    }
    for (size_t r = 0; r < receive.size(); ++r) {
      if (r == static_cast<size_t>(rank()) && r < send.size() &&
          receive[r].data() == send[r].data()) {  // in place: it is there already
        to.emplace_back(const_cast<std::byte*>(from[r].data()), receive[r].size());
        continue;
      }
      COHORT_ASSIGN(const auto staged, staging.out(receive[r]));
      to.push_back(staged);
    }
    COHORT_TRY(inner_->exchange(operation, from, to));
    return staging.deliver();
  }

 private:
  /// The blocks of one call, and what goes back to the caller after it.
  class Staging {
   public:
    explicit Staging(StagedCollectives& group) : group_(group) {}

    /// A copy of bytes that are sent; the same bytes are copied once (all_gather sends them to
    /// every rank).
    Expected<std::span<const std::byte>> in(std::span<const std::byte> bytes) {
      if (group_.is_right(bytes)) return bytes;
      for (const Pair& pair : sent_)
        if (pair.caller == bytes.data() && pair.size_bytes == bytes.size())
          return std::span<const std::byte>(pair.staged, pair.size_bytes);
      COHORT_ASSIGN(std::byte * staged, take(bytes.size()));
      COHORT_TRY(group_.device_->copy(staged, bytes.data(), bytes.size()));
      sent_.push_back({const_cast<std::byte*>(bytes.data()), staged, bytes.size()});
      return std::span<const std::byte>(staged, bytes.size());
    }
    /// Room for bytes that are received.
    Expected<std::span<std::byte>> out(std::span<std::byte> bytes) {
      if (group_.is_right(bytes)) return bytes;
      COHORT_ASSIGN(std::byte * staged, take(bytes.size()));
      received_.push_back({bytes.data(), staged, bytes.size()});
      return std::span<std::byte>(staged, bytes.size());
    }
    Expected<void> deliver() {
      for (const Pair& pair : received_)
        COHORT_TRY(group_.device_->copy(pair.caller, pair.staged, pair.size_bytes));
      return {};
    }

   private:
    struct Pair {
      std::byte *caller = nullptr, *staged = nullptr;
      size_t size_bytes = 0;
    };
    Expected<std::byte*> take(size_t size_bytes) {
      Device& device = *group_.device_;
      COHORT_ASSIGN(DeviceBlock block, group_.takes_device_ ? device.allocate(size_bytes)
                                                            : device.allocate_pinned(size_bytes));
      std::byte* data = block.data();
      blocks_.push_back(std::move(block));
      return data;
    }
    StagedCollectives& group_;
    std::vector<DeviceBlock> blocks_;
    std::vector<Pair> sent_, received_;
  };

  bool is_right(std::span<const std::byte> bytes) const {
    return bytes.empty() || device_->holds(bytes.data()) == takes_device_;
  }

  std::unique_ptr<Collectives> inner_;
  std::shared_ptr<Device> device_;
  bool takes_device_;
};

}  // namespace

std::unique_ptr<Collectives> stage_collectives(std::unique_ptr<Collectives> inner,
                                               std::shared_ptr<Device> device, bool takes_device) {
  return std::make_unique<StagedCollectives>(std::move(inner), std::move(device), takes_device);
}

}  // namespace cohort::compute
