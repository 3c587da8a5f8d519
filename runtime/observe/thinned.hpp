#pragma once
/// A history that never grows: every n-th value pushed, n doubling whenever the room is full, and
/// always the last. Value type, not thread-safe.
///   THIN-1 it keeps the first value pushed, then every stride-th after it, then the last; never
///          more than `max` and, once full, never less than half of it.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"

namespace cohort::observe {

template <class T>
class Thinned {
 public:
  explicit Thinned(size_t max) : max_(max) {
    COHORT_CHECK(max >= 4, "THIN-1: room for the first, the last and some between");
  }
  void push(T value) {
    // The last stays only if its turn had come.
    if (!kept_.empty() && (pushed_ - 1) % stride_ != 0) kept_.pop_back();
    if (kept_.size() + 1 > max_) {
      size_t to = 0;
      for (size_t from = 0; from < kept_.size(); from += 2) kept_[to++] = std::move(kept_[from]);
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(to), kept_.end());
      stride_ *= 2;
    }
    kept_.push_back(std::move(value));
    ++pushed_;
  }
  const std::vector<T>& values() const { return kept_; }
  uint64_t pushed() const { return pushed_; }
  uint64_t stride() const { return stride_; }

 private:
  size_t max_;
  std::vector<T> kept_;
  uint64_t pushed_ = 0;
  uint64_t stride_ = 1;
};

}  // namespace cohort::observe
