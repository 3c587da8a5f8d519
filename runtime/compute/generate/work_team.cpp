#include "runtime/compute/generate/work_team.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace cohort::compute {
namespace {

/// About 20 microseconds: a token has a hundred jobs, and waking a thread costs more than that.
constexpr int k_spins = 1000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

WorkTeam::WorkTeam(uint32_t threads) {
  COHORT_CHECK(threads > 0, "a team has a thread");
  for (uint32_t member = 1; member < threads; ++member)
    helpers_.emplace_back([this, member] { help(member); });
}

WorkTeam::~WorkTeam() {
  is_ending_.store(true);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void WorkTeam::publish(Function function, const void* work, int64_t count, int64_t grain) {
  COHORT_CHECK(count < INT32_MAX && grain > 0, "a job has less than 2^31 items");
  const uint32_t job = job_.load(std::memory_order_relaxed) + 1;
  // First no claim of the last job can succeed any more: a late member may read the new count.
  claimed_.store(uint64_t{job} << 32 | UINT32_MAX, std::memory_order_relaxed);
  function_.store(function, std::memory_order_release);
  work_.store(work, std::memory_order_release);
  count_.store(count, std::memory_order_release);
  grain_.store(grain, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  claimed_.store(uint64_t{job} << 32, std::memory_order_release);
  job_.store(job, std::memory_order_release);
  job_.notify_all();
  work_on(job, 0);
  for (int spins = 0; done_.load(std::memory_order_acquire) < count; ++spins) {
    if (spins < k_spins)
      relax();
    else
      std::this_thread::yield();
  }
}

void WorkTeam::help(uint32_t member) {
  uint32_t seen = 0;
  while (true) {
    for (int spins = 0; spins < k_spins && job_.load(std::memory_order_relaxed) == seen; ++spins)
      relax();
    job_.wait(seen, std::memory_order_acquire);
    seen = job_.load(std::memory_order_acquire);
    if (is_ending_.load()) return;
    work_on(seen, member);
  }
}

/// Claims pieces of the job until none is left: half of what would be an even share of the rest.
void WorkTeam::work_on(uint32_t job, uint32_t member) {
  uint64_t claimed = claimed_.load(std::memory_order_acquire);
  while (claimed >> 32 == job) {
    const Function function = function_.load(std::memory_order_acquire);
    const void* work = work_.load(std::memory_order_acquire);
    const int64_t count = count_.load(std::memory_order_acquire);
    const int64_t grain = grain_.load(std::memory_order_acquire);
    const auto begin = static_cast<int64_t>(claimed & UINT32_MAX);
    const int64_t rest = count - begin;
    if (rest <= 0) return;
    const int64_t share = rest / (2 * static_cast<int64_t>(size())) / grain * grain;
    const int64_t taken = std::min(rest, std::max(grain, share));
    if (!claimed_.compare_exchange_weak(claimed, claimed + static_cast<uint64_t>(taken),
                                        std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    function(work, begin, begin + taken, member);
    done_.fetch_add(taken, std::memory_order_release);
    claimed = claimed_.load(std::memory_order_acquire);
  }
}

}  // namespace cohort::compute
