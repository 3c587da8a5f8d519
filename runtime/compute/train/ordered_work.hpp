#pragma once
/// Runs indexed pieces of work on several threads and hands their results to one consumer in index
/// order, so that a sum over them has one order (TRAIN-1). The calling thread is one of the
/// workers. Bound: at most 2 * threads results wait for an earlier one; a worker with a further
/// result blocks.
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/text.hpp"

namespace cohort::compute {

template <class Result>
class OrderedWork {
 public:
  OrderedWork(int threads, size_t count)
      : threads_(threads < 1 ? 1 : static_cast<size_t>(threads)), count_(count) {}

  /// work(index) -> Expected<Result> runs on any thread; commit(index, Result&&) runs under a lock,
  /// in order. Returns the error of the lowest failed index; later results are then not committed.
  template <class Work, class Commit>
  Expected<void> run(Work work, Commit commit) {
    {
      std::vector<std::jthread> workers;
      for (size_t i = 1; i < threads_ && i < count_; ++i)
        workers.emplace_back([&] { work_loop(work, commit); });
      work_loop(work, commit);
    }
    if (error_) return *error_;
    return {};
  }

 private:
  template <class Work, class Commit>
  void work_loop(Work& work, Commit& commit) {
    for (size_t index = next_work_++; index < count_; index = next_work_++) {
      Expected<Result> result = guarded(work, index);
      std::unique_lock lock(mutex_);
      if (!result) {
        if (!error_ || index < error_index_) {
          error_ = result.error();
          error_index_ = index;
        }
        next_work_ = count_;
        changed_.notify_all();
        return;
      }
      changed_.wait(lock, [&] {
        return index == next_commit_ || waiting_.size() < 2 * threads_ || error_.has_value();
      });
      if (error_) return;
      waiting_.emplace(index, std::move(*result));
      drain(commit);
    }
  }

  template <class Commit>
  void drain(Commit& commit) {
    for (auto it = waiting_.find(next_commit_); it != waiting_.end();
         it = waiting_.find(next_commit_)) {
      commit(it->first, std::move(it->second));
      waiting_.erase(it);
      ++next_commit_;
    }
    changed_.notify_all();
  }

  template <class Work>
  static Expected<Result> guarded(Work& work, size_t index) {
    try {
      return work(index);
    } catch (const std::exception& e) {
      return Error{Errc::compute, first_line(e.what())};
    }
  }

  const size_t threads_, count_;
  std::atomic<size_t> next_work_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<size_t, Result> waiting_;
  size_t next_commit_ = 0;
  std::optional<Error> error_;
  size_t error_index_ = 0;
};

}  // namespace cohort::compute
