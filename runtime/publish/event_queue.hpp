#pragma once
/// EventQueue: values from any thread to one, with a file descriptor to wait on. Owner: a port;
/// shared with its pushers. Thread-safe. Bound: the pushers'. Internal to runtime/publish.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/check.hpp"

namespace cohort::publish {

template <class T>
class EventQueue {
 public:
  EventQueue() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    COHORT_CHECK(fd_ >= 0, "eventfd: out of file descriptors");
  }
  ~EventQueue() { ::close(fd_); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  void push(T value) {
    bool was_empty = false;
    {
      std::lock_guard lock(mutex_);
      was_empty = values_.empty();
      values_.push_back(std::move(value));
    }
    if (was_empty) wake();
  }
  /// Makes the descriptor readable without a value.
  void wake() {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(fd_, &one, sizeof(one));
  }
  /// When it returns nothing the descriptor has been reset: the next value makes it readable.
  std::optional<T> pop() {
    std::lock_guard lock(mutex_);
    if (values_.empty()) {
      uint64_t count = 0;
      [[maybe_unused]] ssize_t read_bytes = ::read(fd_, &count, sizeof(count));
      return std::nullopt;
    }
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  int fd() const { return fd_; }

 private:
  std::mutex mutex_;
  std::deque<T> values_;
  int fd_;
};

}  // namespace cohort::publish
