#include "tests/support/run_script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

namespace cohort::tests {

using namespace plan::run;

namespace {

std::string name(RoundKey round) { return fmt::format("{} {}", to_string(round.kind), round.step); }

std::string numbers(const std::vector<plan::Refill::Next>& groups) {
  std::vector<uint32_t> all;
  for (const plan::Refill::Next& each : groups) all.push_back(each.group);
  return fmt::format("{}", fmt::join(all, " "));
}

struct Text {
  std::string operator()(const BeginPhase& x) {
    return fmt::format("begin {}, step {}, version {}", plan::to_string(x.kind), x.step, x.version);
  }
  std::string operator()(const AskTasks& x) {
    if (!x.in_place.empty())
      return fmt::format("ask tasks of {} for groups {}", name(x.round), numbers(x.in_place));
    return fmt::format("ask tasks of {}{}", name(x.round),
                       x.count > 0 ? fmt::format(", {} groups", x.count) : "");
  }
  std::string operator()(const OpenRound& x) {
    if (!x.in_place.empty())
      return fmt::format("open {} for groups {} too", name(x.round), fmt::join(x.in_place, " "));
    return fmt::format("open {}: {} groups of {}", name(x.round), x.groups, x.group_size);
  }
  std::string operator()(const Lease& x) {
    std::string text = fmt::format("lease {} to {}: {}, groups {}, version {}", x.number, x.replica,
                                   name(x.round), fmt::join(x.groups, " "), x.version);
    if (x.attempt > 0) text += fmt::format(", attempt {}", x.attempt);
    for (const auto& indices : x.indices) text += fmt::format(", only {}", fmt::join(indices, " "));
    return text;
  }
  std::string operator()(const Cancel& x) {
    return fmt::format("cancel lease {} at {}", x.number, x.replica);
  }
  std::string operator()(const Ping& x) { return fmt::format("ping {}", x.replica); }
  std::string operator()(const Collect& x) { return "collect " + name(x.round); }
  std::string operator()(const Sift& x) {
    return fmt::format("sift {}, {} known", name(x.round), x.known);
  }
  std::string operator()(const AskRecorded& x) {
    return fmt::format("ask what is recorded of {}", name(x.round));
  }
  std::string operator()(const Mask& x) {
    return fmt::format("mask group {} of {}: {}", x.group, name(x.round), x.reason);
  }
  std::string operator()(const Update& x) {
    return fmt::format("update on {}, to version {}", name(x.round), x.next_version);
  }
  std::string operator()(const Flush&) { return "flush"; }
  std::string operator()(const Save& x) { return "save " + x.name; }
  std::string operator()(const Load& x) { return x.is_first ? "load the first" : "load the last"; }
  std::string operator()(const Prune&) { return "prune"; }
  std::string operator()(const Judge& x) {
    static constexpr std::string_view k_names[] = {"shared", "alone", "pardon", "hung"};
    return fmt::format("judge card {}: {}", x.card, k_names[static_cast<size_t>(x.judgement)]);
  }
  std::string operator()(const Quarantine& x) { return "quarantine " + x.task.prompt; }
  std::string operator()(const Note& x) { return "note " + x.kind; }
  std::string operator()(const Published& x) { return fmt::format("published {}", x.version); }
  std::string operator()(const BeginRow& x) { return fmt::format("row {} begins", x.step); }
  std::string operator()(const RoundOver& x) { return name(x.round) + " is over"; }
  std::string operator()(const EndRow& x) { return fmt::format("row {} ends", x.step); }
  std::string operator()(const WakeAt& x) { return fmt::format("wake at {:.2f}", x.at); }
  std::string operator()(const AnswerLeave& x) {
    return fmt::format("answer leave {}: {}", x.number, to_string(x.error.code));
  }
  std::string operator()(const End& x) {
    static constexpr std::string_view k_how[] = {"finished", "stopped", "failed"};
    return fmt::format("end: {} after {} steps{}", k_how[static_cast<size_t>(x.how)], x.steps,
                       x.error.empty() ? "" : ": " + x.error);
  }
};

struct Answer {
  uint32_t groups;
  using Result = std::optional<Event>;
  Result operator()(const BeginPhase& x) {
    const bool is_publish = x.kind == plan::PhaseKind::publish;
    return PhaseDone{x.kind, is_publish ? std::vector<uint32_t>{1, 2} : std::vector<uint32_t>{}};
  }
  Result operator()(const AskTasks& x) {
    TasksReady ready{x.round, {}};
    for (const plan::Refill::Next& next : x.in_place) {
      ready.tasks.push_back({"Lake", next.group, fmt::format("Lake/{}", next.group), next.lane});
      ready.in_place.push_back(next.group);
    }
    if (!x.in_place.empty()) return ready;
    for (uint32_t i = 0; i < (x.count > 0 ? x.count : groups); ++i)
      ready.tasks.push_back({"Lake", i, fmt::format("Lake/{}", i)});
    return ready;
  }
  Result operator()(const OpenRound& x) { return RoundOpened{x.round}; }
  Result operator()(const Lease& x) { return LeaseEnded{x.number, 2, 20}; }
  Result operator()(const Ping& x) { return Pong{x.number, x.number}; }
  Result operator()(const Collect& x) { return Collected{x.round, 0}; }
  Result operator()(const AskRecorded& x) { return Recorded{x.question, false, {}}; }
  Result operator()(const Mask& x) { return Masked{x.round, x.group}; }
  Result operator()(const Update& x) { return Updated{x.round}; }
  Result operator()(const Flush&) { return Flushed{}; }
  Result operator()(const Save&) { return Saved{}; }
  Result operator()(const Load& x) {
    return Loaded{x.is_first ? Cursor{} : Cursor{false, 1, 1, 0}};
  }
  template <class Other>
  Result operator()(const Other&) {
    return std::nullopt;
  }
};

}  // namespace

std::string_view name_of(StepState state) {
  static constexpr std::string_view k_names[] = {
      "admitted",  "ready",    "opening",    "generating", "referring", "collecting", "closing",
      "collected", "updating", "publishing", "evaluating", "flushing",  "saving"};
  return k_names[static_cast<size_t>(state)];
}

std::string_view name_of(Stage stage) {
  static constexpr std::string_view k_names[] = {
      "created",   "starting",     "restoring_frozen", "publishing_frozen",
      "restoring", "republishing", "warming",          "stepping",
      "ending",    "over"};
  return k_names[static_cast<size_t>(stage)];
}

std::string to_text(const Command& command) { return std::visit(Text{}, command); }

std::string state_of(const Run& run) {
  std::string text(name_of(run.stage()));
  if (run.stage() != Stage::warming && run.stage() != Stage::stepping) return text;
  if (auto front = run.front()) text += fmt::format(", {}", name_of(*front));
  if (auto evaluation = run.evaluation()) text += fmt::format(" ({})", name_of(*evaluation));
  return text;
}

testing::AssertionResult fits(const std::string& line, const std::string& pattern) {
  std::string_view rest = pattern;
  const bool is_open_left = rest.starts_with('*'), is_open_right = rest.ends_with('*');
  if (is_open_left) rest.remove_prefix(1);
  if (is_open_right) rest.remove_suffix(1);
  const bool does_fit = is_open_left && is_open_right ? line.find(rest) != std::string::npos
                        : is_open_left                ? line.ends_with(rest)
                        : is_open_right               ? line.starts_with(rest)
                                                      : line == rest;
  return does_fit ? testing::AssertionSuccess()
                  : testing::AssertionFailure() << "\"" << line << "\" is not " << pattern;
}

testing::AssertionResult are(const Lines& lines, const Lines& patterns) {
  bool do_fit = lines.size() == patterns.size();
  for (size_t i = 0; do_fit && i < lines.size(); ++i) do_fit = bool{fits(lines[i], patterns[i])};
  return do_fit ? testing::AssertionSuccess()
                : testing::AssertionFailure() << fmt::format("{}", fmt::join(lines, "\n"));
}

testing::AssertionResult contains(const Lines& lines, const std::string& pattern) {
  for (const std::string& line : lines)
    if (fits(line, pattern)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << pattern << " is not in:\n"
                                     << fmt::format("{}", fmt::join(lines, "\n"));
}

RunOptions RunScript::options(uint64_t steps) {
  RunOptions options;
  options.steps = steps;
  options.save_steps = 1;
  options.group_size = options.val_group_size = options.greedy_group_size = 2;
  options.cards = {1, 2};
  options.stragglers.factor = 0;
  return options;
}

RunScript::RunScript(RunOptions options) : options_(options), run_(std::move(options)) {}

Lines RunScript::tell(const Event& event) {
  Lines told;
  for (Command& command : run_.on(event, now_)) {
    told.push_back(to_text(command));
    if (const auto* end = std::get_if<End>(&command)) {
      end_ = *end;
      has_ended_ = true;
    }
    all.push_back(command);
    if (std::visit(Answer{groups}, command)) waiting_.push_back(std::move(command));
  }
  lines_.insert(lines_.end(), told.begin(), told.end());
  run_.assert_invariants();
  return told;
}

Event RunScript::answer_to(const Command& command, uint32_t groups) {
  return *std::visit(Answer{groups}, command);
}

bool RunScript::answer() {
  if (waiting_.empty()) return false;
  const Command command = std::move(waiting_.front());
  waiting_.pop_front();
  now_ += 1;
  tell(answer_to(command, groups));
  return true;
}

bool RunScript::answer_until(const std::function<bool()>& is_reached) {
  while (!is_reached())
    if (!answer()) return false;
  return true;
}

bool RunScript::answer_until_state(const std::string& state) {
  return answer_until([&] { return state_of(run_) == state; });
}

}  // namespace cohort::tests
