// Shared objects that play a libtorch_npu.so which cannot be used; npu_library_test loads them.
// None of them is torch_npu, and nothing is computed on them. The one compiled with
// COHORT_STAND_IN_SYMBOL wants a symbol that this process lacks; with COHORT_STAND_IN_GUARD it
// registers a device type that has no device; with neither it registers nothing.
#ifdef COHORT_STAND_IN_SYMBOL
extern "C" void COHORT_STAND_IN_SYMBOL();
extern "C" void cohort_stand_in_call() { COHORT_STAND_IN_SYMBOL(); }
#endif

#ifdef COHORT_STAND_IN_GUARD
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

/// A driver without cards.
struct EmptyGuard final : c10::impl::DeviceGuardImplInterface {
  EmptyGuard() = default;
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {c10::DeviceType::PrivateUse1, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 0; }
};

// as C10_REGISTER_GUARD_IMPL, whose macro does not compile without warnings
const c10::impl::DeviceGuardImplRegistrar k_registrar(c10::DeviceType::PrivateUse1, new EmptyGuard);

}  // namespace
#endif
