#include "tools/cohort-sim/disk.hpp"

#include <algorithm>
#include <utility>

namespace cohort::sim {

uint64_t Disk::open() {
  if (std::exchange(has_torn_tail_, false)) world_.note("torn tail is cut");
  return ++attempt_;
}

int64_t Disk::next_end() {
  busy_until_ = std::max(busy_until_, world_.now()) + world_.pick(0, 2);
  return busy_until_;
}

void Disk::append(Process& owner, std::vector<Item> items, std::function<void(bool)> then) {
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

void Disk::save(Process& owner, Checkpoint checkpoint, std::function<void(bool)> then) {
  bool fits = full_until <= world_.now();
  world_.deliver(owner, next_end() + world_.pick(1, 30),
                 [this, fits, checkpoint, then = std::move(then)] {
                   if (fits) checkpoint_ = checkpoint;
                   if (fits && !checkpoint.cursor.is_warm && checkpoint.cursor.step == 0)
                     first_ = checkpoint;
                   then(fits);
                 });
}

void Disk::crash() {
  if (!writing_.empty()) {
    const std::vector<Item>& items = writing_.front();
    size_t whole = static_cast<size_t>(world_.pick(0, static_cast<int64_t>(items.size())));
    for (size_t i = 0; i < whole; ++i) audit_.on_recorded(items[i]);
    has_torn_tail_ = whole < items.size();
  }
  writing_.clear();
  busy_until_ = 0;
}

}  // namespace cohort::sim
