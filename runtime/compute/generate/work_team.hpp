#pragma once
/// The threads that share the arithmetic of one lane. A job is a range of items; members take
/// pieces of it as they come free, so that a member that the OS has put aside holds up only the
/// piece it has. What an item computes must not depend on the piece it is in: then results do not
/// depend on the number of threads either. Owner: one thread, which is member 0 and calls run().
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace cohort::compute {

class WorkTeam {
 public:
  /// Starts threads - 1 helpers. REQUIRES: threads > 0.
  explicit WorkTeam(uint32_t threads);
  ~WorkTeam();
  WorkTeam(const WorkTeam&) = delete;
  WorkTeam& operator=(const WorkTeam&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(helpers_.size()) + 1; }

  /// Calls work(begin, end, member) until the ranges cover 0 … count - 1 once; each but the last
  /// holds a multiple of `grain` items, and each member runs one at a time. Returns when all are
  /// done. `work` does not throw. REQUIRES: count < 2^31, grain > 0.
  template <class Work>
  void run(int64_t count, int64_t grain, const Work& work) {
    if (count <= 0) return;
    if (helpers_.empty() || count <= grain) return work(int64_t{0}, count, uint32_t{0});
    publish(&call<Work>, &work, count, grain);
  }

 private:
  using Function = void (*)(const void* work, int64_t begin, int64_t end, uint32_t member);
  template <class Work>
  static void call(const void* work, int64_t begin, int64_t end, uint32_t member) {
    (*static_cast<const Work*>(work))(begin, end, member);
  }
  void publish(Function function, const void* work, int64_t count, int64_t grain);
  void help(uint32_t member);
  void work_on(uint32_t job, uint32_t member);

  // The job. Written while claimed_ lets nobody claim; read before a piece is claimed: who reads
  // what is written then also sees that claimed_ has changed, so a claim that succeeds proves that
  // what was read is of its job.
  std::atomic<Function> function_{nullptr};
  std::atomic<const void*> work_{nullptr};
  std::atomic<int64_t> count_{0}, grain_{1};
  alignas(64) std::atomic<uint64_t> claimed_{0};  // job number << 32 | items that are claimed
  alignas(64) std::atomic<int64_t> done_{0};      // items of the job
  alignas(64) std::atomic<uint32_t> job_{0};      // number; helpers sleep on it
  std::atomic<bool> is_ending_{false};
  std::vector<std::thread> helpers_;
};

}  // namespace cohort::compute
