#pragma once
/// The head's fake disk: a stream of records and a checkpoint, which outlive its processes. Appends
/// are written one after the other; one that a crash cuts short leaves some of its records and
/// perhaps a torn one, which open() cuts off. A checkpoint is there or not. One thread.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/run/events.hpp"
#include "tools/cohort-sim/audit.hpp"

namespace cohort::sim {

struct Checkpoint {
  plan::run::Cursor cursor;
  uint64_t parameters = 1;
  std::vector<Item> ahead = {};  // recorded trajectories of later steps
};

class Disk {
 public:
  Disk(World& world, Audit& audit) : world_(world), audit_(audit) {}

  /// A new life of its owner: cuts a torn tail, counts the attempt.
  uint64_t open() {
    if (std::exchange(has_torn_tail_, false)) world_.note("torn tail is cut");
    return ++attempt_;
  }
  /// The newest, and that of step 0.
  const std::optional<Checkpoint>& checkpoint() const { return checkpoint_; }
  const std::optional<Checkpoint>& first() const { return first_; }
  /// Calls back once the records are there, or with false if they do not fit.
  void append(Process& owner, std::vector<Item> items, std::function<void(bool)> then) {
    if (full_until > world_.now()) {
      world_.note("disk full");
      return world_.deliver(owner, next_end(), [then = std::move(then)] { then(false); });
    }
    writing_.push_back(std::move(items));
    world_.deliver(owner, next_end(), [this, then = std::move(then)] {
      for (const Item& item : writing_.front()) audit_.on_recorded(item);
      writing_.pop_front();
      then(true);
    });
  }
  void save(Process& owner, Checkpoint checkpoint, std::function<void(bool)> then) {
    bool fits = full_until <= world_.now();
    world_.deliver(owner, next_end() + world_.pick(1, 30),
                   [this, fits, checkpoint, then = std::move(then)] {
                     if (fits) checkpoint_ = checkpoint;
                     if (fits && !checkpoint.cursor.is_warm && checkpoint.cursor.step == 0)
                       first_ = checkpoint;
                     then(fits);
                   });
  }
  /// The owner dies: what is being written is cut short.
  void crash() {
    if (!writing_.empty()) {
      const std::vector<Item>& items = writing_.front();
      size_t whole = static_cast<size_t>(world_.pick(0, static_cast<int64_t>(items.size())));
      for (size_t i = 0; i < whole; ++i) audit_.on_recorded(items[i]);
      has_torn_tail_ = whole < items.size();
    }
    writing_.clear();
    busy_until_ = 0;
  }
  int64_t full_until = 0;
  std::map<std::string, uint64_t> quarantined;  // prompts: since which step

 private:
  int64_t next_end() {
    busy_until_ = std::max(busy_until_, world_.now()) + world_.pick(0, 2);
    return busy_until_;
  }
  World& world_;
  Audit& audit_;
  bool has_torn_tail_ = false;
  std::deque<std::vector<Item>> writing_;
  std::optional<Checkpoint> checkpoint_, first_;
  uint64_t attempt_ = 0;
  int64_t busy_until_ = 0;
};

}  // namespace cohort::sim
