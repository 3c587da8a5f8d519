// One conformance suite for every kind of device (DEV-1 … DEV-3); kinds without a device here are
// skipped with the reason. And what is said where a backend is not there.
#include "runtime/compute/device/device.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace cohort::compute {
namespace {

std::vector<std::byte> counting_bytes(size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) & 0xFF);
  return bytes;
}

class DeviceConformance : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    auto opened = open_device(GetParam(), 0);
    if (!opened && GetParam() != DeviceKind::cpu) GTEST_SKIP() << opened.error().detail;
    device = opened.value();
  }
  std::vector<std::byte> host_copy(const DeviceBlock& block) {
    std::vector<std::byte> bytes(block.size_bytes());
    device->copy(bytes.data(), block.data(), bytes.size()).value();
    return bytes;
  }
  std::shared_ptr<Device> device;
};

TEST_P(DeviceConformance, IsWhatWasListed) {
  const auto devices = list_devices(GetParam()).value();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(device->info().kind, GetParam());
  EXPECT_EQ(device->info().index, 0);
  EXPECT_EQ(device->info().name, devices[0].name);
  EXPECT_FALSE(device->info().name.empty());
  EXPECT_TRUE(device->torch_device().starts_with(to_string(GetParam())));
  const auto none = open_device(GetParam(), static_cast<int>(devices.size()));
  EXPECT_EQ(none.error().code, Errc::unsupported);
  EXPECT_NE(none.error().detail.find("may see"), std::string::npos) << none.error().detail;
}

TEST_P(DeviceConformance, BlocksAreZeroAlignedAndCounted) {
  constexpr uint64_t k_size = (1 << 20) + 3;
  const DeviceMemory before = device->memory().value();
  EXPECT_GT(before.total_bytes, 0u);
  {
    const DeviceBlock block = device->allocate(k_size).value();
    EXPECT_EQ(block.size_bytes(), k_size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % 64, 0u);
    EXPECT_EQ(host_copy(block), std::vector<std::byte>(k_size));
    const DeviceMemory now = device->memory().value();
    EXPECT_GE(now.in_use_bytes, before.in_use_bytes + k_size);
    EXPECT_GE(now.peak_bytes, now.in_use_bytes);
    EXPECT_GE(now.reserved_bytes, now.in_use_bytes);
    EXPECT_TRUE(device->holds(block.data()));  // DEV-3
    EXPECT_TRUE(device->holds(block.data() + k_size - 1));
    EXPECT_FALSE(device->holds(block.data() + k_size));
    std::byte elsewhere{};
    EXPECT_FALSE(device->holds(&elsewhere));
  }
  const DeviceMemory after = device->memory().value();
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
  EXPECT_GE(after.peak_bytes, before.in_use_bytes + k_size);
}

TEST_P(DeviceConformance, ABlockOutlivesTheHandleOfItsDevice) {
  DeviceBlock block = device->allocate(4096).value();
  Device* raw = device.get();
  std::shared_ptr<void> owner = block.owner();
  const std::byte* address = block.data();
  block = DeviceBlock();
  EXPECT_TRUE(raw->holds(address)) << "an owner keeps the bytes";
  owner.reset();
  EXPECT_FALSE(raw->holds(address));
  block = device->allocate(4096).value();
  device.reset();
  EXPECT_EQ(block.size_bytes(), 4096u);
}

TEST_P(DeviceConformance, RefusesWhatDoesNotFitAndGoesOn) {
  const auto huge = device->allocate(uint64_t{1} << 60);
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code, Errc::capacity) << huge.error().detail;
  EXPECT_NE(huge.error().detail.find("1152921504606846976"), std::string::npos);
  EXPECT_TRUE(device->allocate(0).value().empty());
  EXPECT_FALSE(device->allocate(64).value().empty());
}

TEST_P(DeviceConformance, CopiesThereAndBackFromAnyHostMemory) {
  constexpr size_t k_size = 300'001, k_at = 77;
  const auto sent = counting_bytes(k_size, 5);
  const DeviceBlock block = device->allocate(k_size + 2 * k_at).value();
  const DeviceBlock other = device->allocate(k_size).value();
  const DeviceBlock pinned = device->allocate_pinned(k_size).value();
  EXPECT_FALSE(device->holds(pinned.data())) << "pinned bytes are the host's";
  std::memcpy(pinned.data(), sent.data(), k_size);
  for (const std::byte* from : {sent.data(), static_cast<const std::byte*>(pinned.data())}) {
    device->copy(block.data() + k_at, from, k_size).value();
    device->copy(other.data(), block.data() + k_at, k_size).value();
    EXPECT_EQ(host_copy(other), sent);
    const auto whole = host_copy(block);
    EXPECT_EQ(whole[k_at - 1], std::byte{0});
    EXPECT_EQ(whole[k_at + k_size], std::byte{0});
  }
  device->copy(block.data(), nullptr, 0).value();
}

TEST_P(DeviceConformance, CopiesKeepTheirOrder) {  // DEV-2
  constexpr size_t k_size = 1 << 20, k_rounds = 20;
  const DeviceBlock block = device->allocate(k_size).value();
  const DeviceBlock out = device->allocate_pinned(k_size).value();
  for (size_t i = 0; i < k_rounds; ++i) {
    const DeviceBlock source = device->allocate_pinned(k_size).value();
    std::memset(source.data(), static_cast<int>(i + 1), k_size);
    device->copy(block.data(), source.data(), k_size / 2).value();
  }
  device->copy(out.data(), block.data(), k_size).value();
  device->finish().value();
  EXPECT_EQ(out.data()[0], std::byte{k_rounds});
  EXPECT_EQ(out.data()[k_size / 2 - 1], std::byte{k_rounds});
  EXPECT_EQ(out.data()[k_size / 2], std::byte{0});
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceConformance,
                         testing::Values(DeviceKind::cpu, DeviceKind::cuda, DeviceKind::npu),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST(Device, EachKindHasItsCollectives) {
  EXPECT_EQ(open_device(DeviceKind::cpu, 0).value()->collectives(), CollectiveBackend::gloo);
}

TEST(Device, CudaThatIsNotThereSaysWhatToDo) {
  const auto devices = list_devices(DeviceKind::cuda);
  if (devices && !devices->empty()) GTEST_SKIP() << "there is a cuda device";
  const auto opened = open_device(DeviceKind::cuda, 0);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::unsupported);
  const std::string& text = opened.error().detail;
  if (!devices) {
    EXPECT_NE(text.find("cmake_prefix_path"), std::string::npos) << text;
    EXPECT_NE(text.find("libtorch"), std::string::npos) << text;
  } else {
    EXPECT_NE(text.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << text;
    EXPECT_NE(text.find("driver"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace cohort::compute
