// NCCL as an engine of device_group.hpp: every exchange is one alltoall of c10d's, which sends and
// receives straight between the callers' device bytes and reduces nothing (COLL-1).
#define USE_C10D_NCCL
#include "runtime/compute/collectives/c10d_store.hpp"
// torch first: ivalue.h before any other header of ATen
#include <c10/core/DeviceGuard.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "runtime/base/text.hpp"
#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/collectives/device_group.hpp"
#include "runtime/compute/device/torch_device.hpp"

namespace cohort::compute {
namespace {

constexpr int k_watchdog_factor = 4;  // c10d's own time limit, behind ours

/// c10d reads these when a group is made: its watchdog would end the process when a peer is gone.
/// Someone who has set them keeps his.
void keep_the_process() {
  for (const char* name : {"NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                           "TORCH_NCCL_ENABLE_MONITORING"})
    ::setenv(name, "0", 0);
}

class NcclEngine final : public ExchangeEngine {
 public:
  explicit NcclEngine(const GroupOptions& options) : device_(options.device) {
    const std::chrono::milliseconds timeout(options.timeout_ms);
    const c10::DeviceGuard on(torch_device_of(device_.get()));
    auto nccl = c10d::ProcessGroupNCCL::Options::create();
    nccl->timeout = timeout * k_watchdog_factor;
    auto store =
        c10::make_intrusive<GroupStore>(options.rendezvous, options.name + "/nccl/", timeout);
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.size, nccl);
  }

  Expected<void> start(Sent send, Received receive) override {
    try {
      const c10::DeviceGuard on(torch_device_of(device_.get()));
      std::vector<at::Tensor> from, to;
      for (const auto& bytes : send) from.push_back(as_tensor(bytes));
      for (const auto& bytes : receive) to.push_back(as_tensor(bytes));
      work_ = group_->alltoall(to, from);
    } catch (const std::exception& e) {
      return Error{Errc::closed, first_line(e.what())};
    }
    return {};
  }

  Expected<bool> is_done() override {
    try {
      if (!work_->isCompleted()) return false;
      if (const auto failure = work_->exception()) std::rethrow_exception(failure);
      work_.reset();
      return true;
    } catch (const std::exception& e) {
      return Error{Errc::closed, first_line(e.what())};
    }
  }

  void abandon() override {
    auto stop = [](auto& group) {  // before torch 2 the destructor aborts, and there is no abort()
      if constexpr (requires { group.abort(); }) group.abort();
    };
    try {
      stop(*group_);
    } catch (const std::exception&) {  // the error that made the group useless says more
    }
  }

 private:
  at::Tensor as_tensor(std::span<const std::byte> bytes) const {
    const Device* device = device_.get();
    if (bytes.empty()) return at::empty({0}, at::dtype(at::kByte).device(torch_device_of(device)));
    return tensor_at(device, bytes.data(), static_cast<int64_t>(bytes.size()), at::kByte);
  }

  std::shared_ptr<Device> device_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
  c10::intrusive_ptr<c10d::Work> work_;
};

Expected<std::unique_ptr<ExchangeEngine>> make_engine(const GroupOptions& options) {
  keep_the_process();
  try {
    return std::unique_ptr<ExchangeEngine>(std::make_unique<NcclEngine>(options));
  } catch (const std::exception& e) {
    return Error{Errc::closed, first_line(e.what())};
  }
}

}  // namespace

Expected<std::unique_ptr<Collectives>> join_nccl(const GroupOptions& options) {
  return join_devices(options, make_engine);
}

}  // namespace cohort::compute
