// Offload and onload of residency objects on the cpu platform, against memcpy between buffers that
// are there already; interleaved. Two cases: one object that comes and goes, and a turn of
// timeshare: params and optimizer leave, a cache of another size comes and goes, both come back.
// "released" is the same with cards that give every page back to the OS. One JSON line.
// Usage: residency_bench [MiB = 512] [repeats = 7]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/compute/device/resident_object.hpp"

namespace {

using namespace cohort;
using compute::CardPages;
using compute::ResidentObject;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  std::vector<double> copy, onload, offload;
};

double copy_seconds(std::byte* to, const std::byte* from, uint64_t bytes) {
  const double begin = now_seconds();
  std::memcpy(to, from, bytes);
  return now_seconds() - begin;
}

class Rig {
 public:
  Rig(uint64_t bytes, CardPages pages)
      : card_({0}, 3 * bytes, pages),
        small_("params", bytes / 3),
        big_("optimizer", bytes - bytes / 3) {
    for (ResidentObject* object : {&small_, &big_}) {
      COHORT_CHECK(object->materialise().has_value(), "memory");
      std::memset(object->data(), 1, object->size_bytes());
    }
  }

  /// Adds the seconds of one turn. `cache_bytes` 0: nobody takes the pages in between.
  void turn(uint64_t cache_bytes, Times& times) {
    times.onload.push_back(move(big_, true) + move(small_, true));
    times.offload.push_back(move(small_, false) + move(big_, false));
    if (cache_bytes == 0) return;
    auto cache = card_.allocate("kv_cache", cache_bytes);
    COHORT_CHECK(cache.has_value(), "memory");
    std::memset(cache->data(), 2, cache_bytes);
  }

 private:
  double move(ResidentObject& object, bool to_card) {
    auto done = to_card ? object.onload(card_) : object.offload();
    COHORT_CHECK(done.has_value(), "memory");
    return done->seconds;
  }

  compute::CardMemory card_;
  ResidentObject small_, big_;
};

std::string shares(const char* name, uint64_t bytes, const Times& times, double ceiling) {
  const double on = static_cast<double>(bytes) / median(times.onload) * 1e-9;
  const double off = static_cast<double>(bytes) / median(times.offload) * 1e-9;
  return fmt::format(
      ", \"{0}\": {{\"onload_gb_s\": {1:.2f}, \"offload_gb_s\": {2:.2f}, "
      "\"onload_share\": {3:.3f}, \"offload_share\": {4:.3f}}}",
      name, on, off, on / ceiling, off / ceiling);
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 512) << 20;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 7;
  auto from = compute::allocate_host(bytes), to = compute::allocate_host(bytes);
  COHORT_CHECK(from.has_value() && to.has_value(), "memory");
  std::memset(from->get(), 1, bytes);
  std::memset(to->get(), 2, bytes);
  Rig kept(bytes, CardPages::kept), turns(bytes, CardPages::kept),
      released(bytes, CardPages::released);
  std::vector<double> copy;
  Times alone, shared, fresh;
  for (int i = 0; i < repeats + 1; ++i) {
    if (i == 1) {  // the first round was to warm up
      alone = shared = fresh = {};
      copy.clear();
    }
    copy.push_back(copy_seconds(to->get(), from->get(), bytes));
    kept.turn(0, alone);
    turns.turn(bytes / 5 * 4, shared);
    released.turn(0, fresh);
  }
  const double ceiling = static_cast<double>(bytes) / median(copy) * 1e-9;
  fmt::print(
      "{{\"bench\": \"residency\", \"bytes\": {}, \"n\": {}, \"memcpy_gb_s\": {:.2f}{}{}{}}}\n",
      bytes, repeats, ceiling, shares("kept", bytes, alone, ceiling),
      shares("kept_in_turns", bytes, shared, ceiling), shares("released", bytes, fresh, ceiling));
  return 0;
}
