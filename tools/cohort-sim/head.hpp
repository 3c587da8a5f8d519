#pragma once
/// The head's process: node, placement and driver execute the commands of plan::Membership,
/// plan::PhaseMachine and plan::run::Run, and tell each the outcome; they decide nothing. The
/// trainer is theirs. Each reads its messages in the order in which they were sent, a moment later.
/// One thread. Bound: what the machines have asked for.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/membership/membership.hpp"
#include "runtime/plan/place/phase_machine.hpp"
#include "runtime/plan/run/run.hpp"
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
  virtual void to_card(const SlotHandle& to, std::function<void(SimCard&)> what,
                       std::function<void()> refused) = 0;
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
  void mail(Actor to, std::function<void()> what);
  /// Runs `what` once the machine's time `at` [s] has passed.
  void wake(double at, std::function<void()> what);
};

class SimDriver;
class SimPlacement;

class Head {
 public:
  Head(Stage& stage, Surroundings& cluster, const Job& job, Process& self, Disk& disk,
       PublishWires& wires, uint32_t attempt);
  ~Head();
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// What the node hears.
  void on_member(const plan::member::Event& event);
  void on_hello(const SlotHandle& process, uint32_t attempt);
  void on_ready(const SlotHandle& process, uint32_t attempt);
  void on_peer_lost(const std::string& role, const std::string& peer, const Error& error);
  void ask_stop();
  void ask_leave(std::vector<uint32_t> slots, uint32_t wait_ms);

 private:
  friend class SimDriver;
  friend class SimPlacement;
  void begin_run();
  void say(const plan::member::Welcome& welcome);
  void say(const plan::member::Refuse& refuse);
  void say(const plan::member::Admit& admit);
  void say(const plan::member::BeginRun&);
  void say(const plan::member::Start& start);
  void say(const plan::member::Kill& kill);
  void say(const plan::member::Stop& stop);
  void say(const plan::member::Ping& ping);
  void say(const plan::member::Forget& forget);
  void say(const plan::member::TellLost& lost);
  void say(const plan::member::TellBack& back);
  void say(const plan::member::StartRun&);
  void say(const plan::member::AskLeave& leave);
  void say(const plan::member::AnswerLeave& answer);
  void say(const plan::member::Notice&) {}
  void say(const plan::member::EndRun& end);
  void say(const plan::member::WakeAt& wake);
  std::vector<uint32_t> cards_of(const std::vector<uint32_t>& slots) const;

  HeadParts parts_;
  const uint32_t attempt_;
  plan::PlacementPlan plan_;
  plan::Membership membership_;
  std::vector<SlotHandle> ready_;    // by slot: whose roles count
  std::vector<SlotHandle> joining_;  // by slot: who said last that it is ready
  std::vector<SlotHandle> asked_;    // by slot: who said hello last
  uint64_t questions_ = 0;
  std::unique_ptr<SimTrainer> trainer_;
  std::unique_ptr<SimPlacement> placement_;
  std::unique_ptr<SimDriver> driver_;
};

}  // namespace cohort::sim
