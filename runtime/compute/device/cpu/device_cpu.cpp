// The cpu backend of the device seam: host memory with an account.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include "runtime/base/check.hpp"
#include "runtime/compute/device/device_backends.hpp"

namespace cohort::compute {
namespace {

constexpr size_t k_alignment_bytes = 64;  // as DeviceBlock promises; one cache line

/// The value after "key:" in a file of /proc; empty if there is none.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

uint64_t memory_bytes(std::string_view key) {
  return std::strtoull(proc_value("/proc/meminfo", key).c_str(), nullptr, 10) << 10;
}

/// What a device's blocks take together; lives as long as the last block.
struct Account {
  std::mutex mutex;
  std::map<const std::byte*, uint64_t> blocks;
  uint64_t in_use_bytes = 0, peak_bytes = 0;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(DeviceInfo info) : Device(std::move(info)) {}
  std::string torch_device() const override { return "cpu"; }

  Expected<DeviceMemory> memory() const override {
    DeviceMemory out;
    out.total_bytes = info().total_bytes;
    out.free_bytes = memory_bytes("MemAvailable");
    std::lock_guard lock(account_->mutex);
    out.in_use_bytes = out.reserved_bytes = account_->in_use_bytes;
    out.peak_bytes = account_->peak_bytes;
    return out;
  }

  Expected<DeviceBlock> allocate(uint64_t size_bytes) override { return take(size_bytes, true); }
  Expected<DeviceBlock> allocate_pinned(uint64_t size_bytes) override {
    return take(size_bytes, false);
  }
  bool holds(const std::byte* address) const override {
    std::lock_guard lock(account_->mutex);
    auto at = account_->blocks.upper_bound(address);
    return at != account_->blocks.begin() && address < (--at)->first + at->second;
  }

  Expected<void> copy(std::byte* to, const std::byte* from, uint64_t size_bytes) override {
    if (size_bytes > 0) std::memcpy(to, from, size_bytes);
    return {};
  }
  Expected<void> finish() override { return {}; }

 private:
  /// Pinned blocks are host memory: not the device's, not in its account.
  Expected<DeviceBlock> take(uint64_t size_bytes, bool is_counted) {
    if (size_bytes == 0) return DeviceBlock();
    const uint64_t rounded =
        (size_bytes + k_alignment_bytes - 1) / k_alignment_bytes * k_alignment_bytes;
    auto* data = rounded < size_bytes
                     ? nullptr
                     : static_cast<std::byte*>(std::aligned_alloc(k_alignment_bytes, rounded));
    if (data == nullptr)
      return Error{Errc::capacity, fmt::format("cpu: no memory for {} bytes, {} are available",
                                               size_bytes, memory_bytes("MemAvailable"))};
    std::memset(data, 0, rounded);
    if (is_counted) {
      std::lock_guard lock(account_->mutex);
      account_->blocks[data] = size_bytes;
      account_->in_use_bytes += size_bytes;
      account_->peak_bytes = std::max(account_->peak_bytes, account_->in_use_bytes);
    }
    auto give_back = [account = account_, is_counted](std::byte* at) {
      if (is_counted) {
        std::lock_guard lock(account->mutex);
        auto block = account->blocks.find(at);
        account->in_use_bytes -= block->second;
        account->blocks.erase(block);
      }
      std::free(at);
    };
    return DeviceBlock(data, size_bytes, std::shared_ptr<std::byte>(data, give_back));
  }

  std::shared_ptr<Account> account_ = std::make_shared<Account>();
};

Expected<std::vector<DeviceInfo>> list() {
  std::string name = proc_value("/proc/cpuinfo", "model name");
  if (name.empty()) name = "cpu";
  return std::vector<DeviceInfo>{{DeviceKind::cpu, 0, std::move(name), memory_bytes("MemTotal")}};
}

Expected<std::shared_ptr<Device>> open(const DeviceInfo& info) {
  return std::shared_ptr<Device>(std::make_shared<CpuDevice>(info));
}

std::string none_text() { return "there is always a cpu"; }

}  // namespace

const DeviceBackend k_cpu_backend = {list, open, none_text};

}  // namespace cohort::compute
