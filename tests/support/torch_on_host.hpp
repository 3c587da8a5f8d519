#pragma once
/// A device whose memory is the host's, for machines without an accelerator: blocks are torch
/// tensors of the cpu, found by address as those of a card are, and whatever an engine does to them
/// goes the way of a card that is a device (FlatMath, staging, tensor_at). Only streams, which the
/// cpu's guard of torch does not have, are a cpu Device's. Header only.
#include "runtime/compute/torch_device.hpp"

namespace cohort::tests {

class TorchOnHost final : public compute::TorchDevice {
 public:
  static std::shared_ptr<compute::Device> make() {
    return std::shared_ptr<compute::Device>(new TorchOnHost);
  }
  std::string torch_device() const override { return "cpu"; }
  Expected<compute::DeviceMemory> memory() const override {
    compute::DeviceMemory out;
    out.in_use_bytes = block_bytes().in_use;
    out.peak_bytes = block_bytes().peak;
    return out;
  }
  void reset_peak() override { reset_block_peak(); }
  void release_cached() override {}
  Expected<std::unique_ptr<compute::DeviceStream>> make_stream() override {
    return host_->make_stream();
  }
  Expected<std::unique_ptr<compute::DeviceStream>> current_stream() override {
    return host_->current_stream();
  }
  Expected<std::unique_ptr<compute::DeviceEvent>> make_event() override {
    return host_->make_event();
  }

 protected:
  at::Tensor pinned_bytes(int64_t size_bytes) const override {
    return at::empty({size_bytes}, at::dtype(at::kByte));
  }
  Expected<double> seconds_between(void*, void*) const override { return 0.0; }

 private:
  // not cpu: engines take the way of an accelerator
  TorchOnHost()
      : TorchDevice({compute::DeviceKind::cuda, 0, "torch on the host", 0}, at::Device(at::kCPU)) {}
  std::shared_ptr<compute::Device> host_ =
      compute::open_device(compute::DeviceKind::cpu, 0).value();
};

}  // namespace cohort::tests
