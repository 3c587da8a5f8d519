// Offload and onload of one residency object on the cpu platform, against memcpy between buffers
// that are there already; interleaved. One JSON line. Usage: residency_bench [MiB = 512] [repeats =
// 7]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/compute/resident_object.hpp"

namespace {

using namespace cohort;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 512) << 20;
  int repeats = argc > 2 ? std::atoi(argv[2]) : 7;
  compute::CardMemory card({0}, 2 * bytes);
  compute::ResidentObject object("bench", bytes);
  COHORT_CHECK(object.materialise().has_value(), "memory");
  std::memset(object.data(), 1, bytes);
  auto from = compute::allocate_host(bytes), to = compute::allocate_host(bytes);
  COHORT_CHECK(from.has_value() && to.has_value(), "memory");
  std::memset(from->get(), 1, bytes);
  std::memset(to->get(), 2, bytes);
  std::vector<double> copy, onload, offload;
  for (int i = 0; i < repeats + 1; ++i) {
    double begin = now_seconds();
    std::memcpy(to->get(), from->get(), bytes);
    double copied = now_seconds() - begin;
    auto on = object.onload(card);
    auto off = object.offload();
    COHORT_CHECK(on.has_value() && off.has_value(), "memory");
    if (i == 0) continue;  // warm up
    copy.push_back(copied);
    onload.push_back(on->seconds);
    offload.push_back(off->seconds);
  }
  auto rate = [&](const std::vector<double>& seconds) {
    return static_cast<double>(bytes) / median(seconds) * 1e-9;
  };
  fmt::print(
      "{{\"bench\": \"residency\", \"bytes\": {}, \"n\": {}, \"memcpy_gb_s\": {:.2f}, "
      "\"onload_gb_s\": {:.2f}, \"offload_gb_s\": {:.2f}, \"onload_share\": {:.3f}, "
      "\"offload_share\": {:.3f}}}\n",
      bytes, repeats, rate(copy), rate(onload), rate(offload), rate(onload) / rate(copy),
      rate(offload) / rate(copy));
  return 0;
}
