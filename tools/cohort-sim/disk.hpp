#pragma once
/// The head's fake disk: a stream of records and a checkpoint, which outlive its processes. Appends
/// are written one after the other; one that a crash cuts short leaves some of its records and
/// perhaps a torn one, which open() cuts off. A checkpoint is there or not. One thread.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/run/events.hpp"
#include "tools/cohort-sim/audit.hpp"

namespace cohort::sim {

struct Checkpoint {
  plan::run::Cursor cursor;
  uint64_t parameters = 1;
};

class Disk {
 public:
  Disk(World& world, Audit& audit) : world_(world), audit_(audit) {}

  /// A new life of its owner: cuts a torn tail, counts the attempt.
  uint64_t open();
  /// The newest, and that of step 0.
  const std::optional<Checkpoint>& checkpoint() const { return checkpoint_; }
  const std::optional<Checkpoint>& first() const { return first_; }
  /// Calls back once the records are there, or with false if they do not fit.
  void append(Process& owner, std::vector<Item> items, std::function<void(bool)> then);
  void save(Process& owner, Checkpoint checkpoint, std::function<void(bool)> then);
  /// The owner dies: what is being written is cut short.
  void crash();
  int64_t full_until = 0;
  std::map<std::string, uint64_t> quarantined;  // prompts: since which step

 private:
  int64_t next_end();
  World& world_;
  Audit& audit_;
  bool has_torn_tail_ = false;
  std::deque<std::vector<Item>> writing_;
  std::optional<Checkpoint> checkpoint_, first_;
  uint64_t attempt_ = 0;
  int64_t busy_until_ = 0;
};

}  // namespace cohort::sim
