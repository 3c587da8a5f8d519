#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/plan/membership/membership.hpp"

namespace cohort::plan {

std::string_view to_string(Standing standing) {
  constexpr std::array<std::string_view, k_standings.size()> k_names = {
      "starting", "absent", "joined", "here", "leaving", "fenced", "parted", "ended", "gone"};
  return k_names.at(static_cast<size_t>(standing));
}

namespace member {
namespace {

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

}  // namespace

std::string to_text(const Command& command) {
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
}  // namespace cohort::plan
