// MEMBER-1 … 5 over random lives of processes: they start, join, fall silent, die, lose their
// nodes, are judged and told to leave; then the faults cease.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/base/rng.hpp"
#include "tests/support/member_rig.hpp"

namespace cohort::plan::membership_test {
namespace {

using namespace member;

/// The processes that the machine has started, as they live.
class World {
 public:
  explicit World(uint64_t seed)
      : rng_(seed),
        specs_(rng_.below(2) == 0 ? test::unit_slots() : test::single_slots(3, true)),
        machine_(options(), specs_) {
    for (uint32_t slot = 0; slot < specs_.size(); ++slot)
      processes_[{slot, 0}] = {absent_.contains(slot) ? Life::waiting : Life::starting, 0};
    feed(Open{});
  }

  void run() {
    const double calm_at = now_ + 200;
    while (now_ < calm_at && !is_over_) {
      now_ += 0.1 * static_cast<double>(1 + rng_.below(5));
      tick();
      if (rng_.below(4) == 0) strike();
    }
    is_calm_ = true;
    for (int i = 0; i < 1500 && !is_over_; ++i) {
      now_ += 0.1;
      tick();
    }
    if (!is_over_) expect_all_there();
  }

 private:
  /// waiting: the order waits for a node; hung: it lives and says nothing.
  enum class Life : uint8_t { waiting, starting, up, hung, dying };
  struct Process {
    Life life = Life::starting;
    double since = 0;
    bool is_admitted = false;
  };
  using Key = std::pair<uint32_t, uint32_t>;  // slot, attempt

  MembershipOptions options() {
    if (rng_.below(3) == 0) absent_.insert(rng_.below(2) == 0 ? 1 : 3);
    return test::startable(absent_);
  }

  void feed(const Event& event) {
    const bool was_over = is_over_;
    for (const member::Command& command : machine_.on(event, now_)) {
      const bool is_answer =
          std::holds_alternative<Refuse>(command) || std::holds_alternative<AnswerLeave>(command);
      ASSERT_TRUE(!was_over || is_answer) << "MEMBER-4: " << to_text(command);
      std::visit([this](const auto& each) { obey(each); }, command);
    }
    machine_.assert_invariants();
  }

  template <class Other>
  void obey(const Other&) {}
  void obey(const Welcome& x) {
    EXPECT_EQ(x.attempt, machine_.attempt(x.slot)) << "MEMBER-1";
    welcomed_.insert({x.slot, x.attempt});
  }
  void obey(const Admit& x) {
    EXPECT_TRUE(processes_.contains({x.slot, x.attempt})) << "MEMBER-1";
    EXPECT_FALSE(over_.contains({x.slot, x.attempt})) << "MEMBER-1: fenced, then admitted";
  }
  void obey(const Start& x) {
    EXPECT_TRUE(processes_.emplace(Key{x.slot, x.attempt}, Process{Life::starting, now_}).second)
        << "an attempt is started once";
    for (uint32_t older = 0; older < x.attempt; ++older) over_.insert({x.slot, older});
    if (machine_.standing(x.slot) == Standing::absent)
      processes_[{x.slot, x.attempt}].life = Life::waiting;
  }
  void obey(const Kill& x) { end(x); }
  void obey(const Stop& x) { end(x); }
  void obey(const Forget& x) { over_.insert({x.slot, x.attempt}); }
  void obey(const TellLost& x) { lost_.insert(x.slots.begin(), x.slots.end()); }
  void obey(const TellBack& x) {
    for (uint32_t slot : x.slots) {
      EXPECT_EQ(lost_.erase(slot), 1U) << "MEMBER-3: back, and was not lost";
      EXPECT_EQ(machine_.standing(slot), Standing::here) << "MEMBER-2";
    }
  }
  void obey(const AskLeave& x) { questions_.push_back(x.id); }
  void obey(const EndRun&) { is_over_ = true; }
  void obey(const WakeAt& x) { wake_ = wake_ > now_ ? std::min(wake_, x.time) : x.time; }
  template <class Order>
  void end(const Order& x) {
    auto found = processes_.find({x.slot, x.attempt});
    if (found == processes_.end()) return;
    if (found->second.life == Life::waiting)
      processes_.erase(found);  // its order is taken back
    else
      found->second = {Life::dying, now_};
  }

  void tick() {
    if (wake_ <= now_) feed(TimePassed{});
    EXPECT_TRUE(is_over_ || wake_ > now_) << "MEMBER-5: nothing wakes it";
    const auto all = processes_;  // what is fed changes them
    for (const auto& [key, process] : all) live(key, process);
    if (!questions_.empty() && rng_.below(4) == 0) {
      const uint64_t id = questions_.back();
      questions_.pop_back();
      feed(LeaveAnswered{id, rng_.below(2) == 0 ? std::optional<std::string>() : "no"});
    }
  }

  void live(const Key& key, const Process& process) {
    const auto [slot, attempt] = key;
    if (process.life == Life::up) {
      feed(Beat{slot, attempt});
    } else if (process.life == Life::dying && now_ - process.since > 0.2) {
      processes_.erase(key);
      feed(Exited{slot, attempt, "was killed", false});
    } else if (process.life == Life::waiting && (is_calm_ || rng_.below(50) == 0)) {
      processes_[key] = {Life::starting, now_};
    } else if (process.life == Life::starting && now_ - process.since > 0.5) {
      feed(Hello{slot, attempt});
      if (welcomed_.contains(key)) {
        if (processes_.contains(key)) processes_[key].life = Life::up;
        feed(Ready{slot, attempt});
      } else {
        processes_[key] = {Life::dying, now_};  // turned away
      }
    }
  }

  void strike() {
    if (processes_.empty()) return;
    auto victim = processes_.begin();
    std::advance(victim, static_cast<long>(rng_.below(processes_.size())));
    const auto [slot, attempt] = victim->first;
    if (specs_[slot].duty == Duty::needed && rng_.below(20) != 0) return;
    switch (rng_.below(8)) {
      case 0:
      case 1:
        if (victim->second.life != Life::waiting) victim->second = {Life::dying, now_};
        return;
      case 2:
        if (victim->second.life == Life::up) victim->second.life = Life::hung;
        return;
      case 3:
        if (victim->second.life == Life::waiting) return;
        processes_.erase(victim);
        return feed(Exited{slot, attempt, "is lost with its node", true});
      case 4:
        return feed(Judged{slot, static_cast<Judgement>(rng_.below(4)), "hangs"});
      case 5:
        return feed(LeaveAsked{++asked_, {slot}, 1000});
      case 6:
        return feed(FirstPolicySaved{});
      default:  // what a link says of a process that has been lost
        if (attempt < machine_.attempt(slot)) feed(LinkFailed{"rewards", "x", slot, attempt});
    }
  }

  void expect_all_there() {
    for (uint32_t slot = 0; slot < specs_.size(); ++slot) {
      const Standing standing = machine_.standing(slot);
      EXPECT_TRUE(standing == Standing::here || standing == Standing::leaving ||
                  standing == Standing::gone)
          << "MEMBER-5: slot " << slot << " is " << to_string(standing) << " at the end";
      EXPECT_EQ(lost_.contains(slot), standing == Standing::gone) << slot;
    }
  }

  Rng rng_;
  std::set<uint32_t> absent_;
  std::vector<SlotSpec> specs_;
  Membership machine_;
  double now_ = 0, wake_ = 0;
  bool is_over_ = false, is_calm_ = false;
  std::map<Key, Process> processes_;
  std::set<Key> welcomed_, over_;
  std::set<uint32_t> lost_;  // told, and not back
  std::vector<uint64_t> questions_;
  uint64_t asked_ = 0;
};

TEST(Membership, RandomLivesKeepTheInvariantsAndEndWell) {
  const char* replay = std::getenv("COHORT_SEED");
  const uint64_t first = replay != nullptr ? std::strtoull(replay, nullptr, 10) : 1;
  const uint64_t last = replay != nullptr ? first : 3000;
  for (uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    SCOPED_TRACE("COHORT_SEED=" + std::to_string(seed));
    World(seed).run();
  }
}

}  // namespace
}  // namespace cohort::plan::membership_test
