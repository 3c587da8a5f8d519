#pragma once
/// What node, placement and driver of the simulated head stand on. One thread.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "runtime/plan/run/run.hpp"
#include "tools/cohort-sim/disk.hpp"
#include "tools/cohort-sim/sim_card.hpp"
#include "tools/cohort-sim/sim_trainer.hpp"

namespace cohort::sim {

/// A process of a slot, as who got a message from it knows it.
struct SlotHandle {
  uint32_t slot = 0;
  uint64_t life = 0;
};

/// What the head needs of the cluster.
class Surroundings {
 public:
  virtual void start_process(uint32_t slot, uint32_t attempt) = 0;
  virtual void kill_process(uint32_t slot, uint32_t attempt) = 0;
  virtual void stop_process(const SlotHandle& to) = 0;
  /// It may join: it loads what it needs, and says that it is ready.
  virtual void welcome(const SlotHandle& to, uint32_t attempt) = 0;
  /// Runs `what` in that process once the message is there; `refused` in the head, if it can be
  /// known that the process is gone.
  virtual void to_card(
      const SlotHandle& to, std::function<void(SimCard&)> what,
      std::function<void()> refused = [] {}) = 0;
  /// A message that has no answer: others may overtake it.
  virtual void cancel(const SlotHandle& to, const plan::run::Cancel& cancel) = 0;
  /// Runs `what` in the head, unless it has another life by then. Called in the slot's process.
  virtual void to_head(uint32_t slot, uint64_t head_life, std::function<void()> what) = 0;
  virtual void run_over(const plan::run::End& end, uint64_t parameters) = 0;

 protected:
  ~Surroundings() = default;
};

/// The actors of the head.
enum class Actor : uint8_t { node, placement, driver, trainer };

/// What node, placement and driver stand on.
struct HeadParts {
  Stage& stage;
  Surroundings& cluster;
  const Job& job;
  Process& self;
  Disk& disk;
  PublishWires& wires;
  std::array<int64_t, 4> last = {};  // by actor: when the last message is read

  double now() const { return static_cast<double>(stage.world.now()) * 1e-3; }
  // A message is in its receiver's mailbox when the call returns: what one sends because of another
  // comes after it.
  void mail(Actor to, std::function<void()> what) {
    int64_t& arrives = last.at(static_cast<size_t>(to));
    arrives = std::max(arrives, stage.world.now() + stage.world.pick(0, 1));
    stage.world.deliver(self, arrives, std::move(what));
  }
  /// Runs `what` in the process of a card. What that tells runs here, unless the head is another by
  /// then.
  using Tell = std::function<void(std::function<void()>)>;
  void ask(
      const SlotHandle& to, std::function<void(SimCard&, const Tell&)> what,
      std::function<void()> refused = [] {}) {
    auto tell = [&cluster = cluster, slot = to.slot, life = self.life](std::function<void()> told) {
      cluster.to_head(slot, life, std::move(told));
    };
    cluster.to_card(
        to, [what = std::move(what), tell](SimCard& card) { what(card, tell); },
        std::move(refused));
  }
  /// Runs `what` once the machine's time `at` [s] has passed.
  void wake(double at, std::function<void()> what) {
    const int64_t time = static_cast<int64_t>(std::floor(at * 1e3)) + 1;
    stage.world.deliver(self, std::max(time, stage.world.now() + 1), std::move(what));
  }
};

}  // namespace cohort::sim
