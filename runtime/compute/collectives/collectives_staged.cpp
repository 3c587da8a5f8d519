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
    std::vector<std::span<const std::byte>> from(send.begin(), send.end());
    std::vector<std::span<std::byte>> to(receive.begin(), receive.end());
    std::vector<DeviceBlock> blocks;  // live until the exchange is done
    const auto own = static_cast<size_t>(rank());
    const auto is_in_place = [&](size_t r) {
      return r == own && r < send.size() && receive[r].data() == send[r].data();
    };
    for (size_t r = 0; r < send.size(); ++r) {
      if (is_right(send[r])) continue;
      const bool is_repeat = r > 0 && send[r].data() == send[r - 1].data() &&
                             send[r].size() == send[r - 1].size();  // all_gather
      if (!is_repeat) {
        COHORT_ASSIGN(const auto staged, take(send[r].size(), blocks));
        COHORT_TRY(device_->copy(staged.data(), send[r].data(), staged.size()));
        from[r] = staged;
      } else {
        from[r] = from[r - 1];
      }
    }
    for (size_t r = 0; r < receive.size(); ++r) {
      if (is_right(receive[r])) continue;
      if (is_in_place(r)) {
        to[r] = {const_cast<std::byte*>(from[r].data()), receive[r].size()};
      } else {
        COHORT_ASSIGN(to[r], take(receive[r].size(), blocks));
      }
    }
    COHORT_TRY(inner_->exchange(operation, from, to));
    for (size_t r = 0; r < receive.size(); ++r)
      if (to[r].data() != receive[r].data() && !is_in_place(r))
        COHORT_TRY(device_->copy(receive[r].data(), to[r].data(), to[r].size()));
    return {};
  }

 private:
  Expected<std::span<std::byte>> take(size_t size_bytes, std::vector<DeviceBlock>& blocks) {
    COHORT_ASSIGN(DeviceBlock block, takes_device_ ? device_->allocate(size_bytes)
                                                   : device_->allocate_pinned(size_bytes));
    blocks.push_back(std::move(block));
    return std::span<std::byte>(blocks.back().data(), size_bytes);
  }
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
