#pragma once
/// A Membership of a train card's slot and rollouts, spoken to in short words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runtime/plan/membership/membership.hpp"

namespace cohort::plan {

inline constexpr std::array k_standings = {Standing::starting, Standing::absent,  Standing::joined,
                                           Standing::here,     Standing::leaving, Standing::fenced,
                                           Standing::parted,   Standing::ended,   Standing::gone};

inline std::string_view to_string(Standing standing) {
  constexpr std::array<std::string_view, k_standings.size()> k_names = {
      "starting", "absent", "joined", "here", "leaving", "fenced", "parted", "ended", "gone"};
  return k_names.at(static_cast<size_t>(standing));
}

namespace member {
template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;

template <class Process>
std::string say(std::string_view word, const Process& x) {
  return fmt::format("{} {}/{}", word, x.slot, x.attempt);
}

/// Returns e.g. "kill 1/0", "tell lost [1]: process 1 (…) was silent for 2.6 s".
inline std::string to_text(const Command& command) {
  return std::visit(
      Match{[](const Welcome& x) { return say("welcome", x); },
            [](const Refuse& x) { return say("refuse", x) + ": " + x.why; },
            [](const Admit& x) { return say("admit", x); },
            [](const BeginRun&) { return std::string("begin the run"); },
            [](const Start& x) { return say("start", x); },
            [](const Kill& x) { return say("kill", x); },
            [](const Stop& x) { return say("stop", x); },
            [](const Ping& x) { return say("ping", x); },
            [](const Forget& x) { return say(x.is_fenced ? "fence" : "forget", x); },
            [](const TellLost& x) {
              return fmt::format("tell {} {}: {}", x.is_away ? "away" : "lost", x.slots, x.text);
            },
            [](const TellBack& x) { return fmt::format("tell back {}", x.slots); },
            [](const StartRun&) { return std::string("start the driver"); },
            [](const AskLeave& x) {
              return fmt::format("ask the driver to let {} leave within {} ms", x.slots, x.wait_ms);
            },
            [](const AnswerLeave& x) {
              return x.refusal ? "refuse the leave: " + *x.refusal : "agree to the leave";
            },
            [](const Notice& x) { return fmt::format("notice: {}: {}", x.role, x.text); },
            [](const EndRun& x) {
              return fmt::format("end the run{}: {} in phase {}: {}", x.is_loss ? " as a loss" : "",
                                 x.role, x.phase, x.text);
            },
            [](const WakeAt& x) { return fmt::format("wake at {:g} s", x.time); }},
      command);
}

}  // namespace member

namespace test {

/// Slot 0 trains; slots 1 and 2 are one rollout's (a unit); slot 3 is another's.
inline std::vector<SlotSpec> unit_slots() {
  PlacementPlan plan;
  plan.roles = {{"actor_train", {{0}}, {}}, {"actor_infer", {{1}, {2}, {3}, {4}}, {}}};
  return slots_of(plan, {{1}, {2}, {3}, {4}}, 2, {{{0}}, {{1}}, {{2}}, {{3}, {4}}});
}

/// Slot 0 trains; slots 1 … `rollouts` are one replica each.
inline std::vector<SlotSpec> single_slots(uint32_t rollouts, bool has_reference = false) {
  PlacementPlan plan;
  plan.roles = {{"actor_train", {{0}}, {}}, {"actor_infer", {}, {}}};
  std::vector<std::vector<CardId>> processes = {{{0}}};
  for (uint32_t card = 1; card <= rollouts; ++card) {
    plan.roles[1].cards.push_back({card});
    processes.push_back({{card}});
  }
  if (has_reference) {
    plan.roles.push_back({"reference", {{rollouts + 1}}, {}});
    processes.push_back({{rollouts + 1}});
  }
  return slots_of(plan, plan.roles[1].cards, 1, processes);
}

inline MembershipOptions startable(std::set<uint32_t> absent = {}) {
  MembershipOptions options;
  options.can_start = true;
  options.absent = std::move(absent);
  return options;
}

class MemberRig {
 public:
  explicit MemberRig(std::vector<SlotSpec> slots, MembershipOptions options = startable())
      : machine(std::move(options), std::move(slots)) {}

  /// Returns the texts of what is commanded, wakes and pings left out.
  std::vector<std::string> feed(const member::Event& event) {
    std::vector<std::string> texts;
    for (const member::Command& command : machine.on(event, now)) {
      if (!std::holds_alternative<member::WakeAt>(command) &&
          !std::holds_alternative<member::Ping>(command))
        texts.push_back(member::to_text(command));
      all.push_back(command);
    }
    machine.assert_invariants();
    return texts;
  }
  std::vector<std::string> ready(uint32_t slot) {
    return feed(member::Ready{slot, machine.attempt(slot)});
  }
  std::vector<std::string> exit(uint32_t slot, bool is_node_gone = false) {
    return feed(member::Exited{slot, machine.attempt(slot), "was killed", is_node_gone});
  }
  /// Half seconds pass; all that are up answer pings, but for `silent`.
  std::vector<std::string> pass(double seconds, const std::vector<uint32_t>& silent = {}) {
    std::vector<std::string> texts;
    for (const double end = now + seconds; now < end - 1e-9;) {
      now += std::min(0.5, end - now);
      for (std::string& text : feed(member::TimePassed{})) texts.push_back(std::move(text));
      for (uint32_t slot = 0; slot < machine.slots(); ++slot)
        if (std::ranges::find(silent, slot) == silent.end())
          feed(member::Beat{slot, machine.attempt(slot)});
    }
    return texts;
  }
  /// The run begins, with all that are not absent.
  void begin() {
    feed(member::Open{});
    for (uint32_t slot = 0; slot < machine.slots(); ++slot)
      if (machine.standing(slot) == Standing::starting) ready(slot);
  }
  template <class Command>
  size_t count() const {
    return static_cast<size_t>(std::ranges::count_if(
        all, [](const member::Command& x) { return std::holds_alternative<Command>(x); }));
  }

  double now = 100;
  Membership machine;
  member::Commands all;
};

}  // namespace test
}  // namespace cohort::plan
