// Kills in every role at every point of the protocols, in short runs: nothing is lost, nothing is
// used twice, and the parameters are those of the run that nobody disturbed.
//   run_chaos_test [--kills 6] [--seed 1] [--mode fully_async]
// Each kill is a run of its own, under --restarts: a process ends (or stands still) at a failpoint,
// and either the run goes on without it, or its supervisor starts it again from its last
// checkpoint. Exit code 1 and the run's output if anything differs. A run that is fully_async has
// no parameters to compare with: its stream says that every step had all its trajectories, none of
// them too old.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "tests/support/recovery.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

constexpr uint64_t k_steps = 4;
constexpr uint32_t k_groups = 8, k_group_size = 4;

constexpr uint64_t k_depth = 2;  // fully_async

enum class Cards : uint8_t { one_rollout, two_rollouts, reference };

/// A point, and in which configuration it is passed how often at least.
struct Point {
  const char* name;
  const char* role;
  Cards cards;
  uint32_t passes;
  bool is_survived;  // the run goes on; the reference's from its first checkpoint on
};

constexpr Point k_points[] = {
    {"rollout.turn", "actor_infer", Cards::two_rollouts, 300, true},
    {"trainer.update", "actor_train", Cards::one_rollout, 7, false},
    {"publish.arrived", "actor_infer", Cards::two_rollouts, 5, true},
    {"trainer.recorded", "head", Cards::one_rollout, 20, false},
    {"rollout.sent", "actor_infer", Cards::one_rollout, 8, true},
    {"checkpoint.saved", "actor_train", Cards::one_rollout, 5, false},
    {"rollout.lease", "actor_infer", Cards::two_rollouts, 30, true},
    {"reward.delivery", "head", Cards::two_rollouts, 20, false},
    {"publish.commit", "actor_infer", Cards::two_rollouts, 5, true},
    {"publish.offer", "actor_train", Cards::two_rollouts, 5, false},
    {"rollout.reported", "actor_infer", Cards::two_rollouts, 30, true},
    {"placement.exchanged", "head", Cards::two_rollouts, 5, false},
    {"publish.accept", "actor_infer", Cards::one_rollout, 5, true},
    {"checkpoint.begin", "actor_train", Cards::one_rollout, 5, false},
    {"rollout.init_cache", "actor_infer", Cards::one_rollout, 5, true},
    {"recorder.append", "head", Cards::one_rollout, 200, false},
    {"rollout.turn", "actor_infer", Cards::one_rollout, 300, true},
    {"checkpoint.named", "actor_train", Cards::one_rollout, 5, false},
    {"publish.arrived", "actor_infer", Cards::one_rollout, 5, true},
    {"placement.command", "head", Cards::one_rollout, 40, false},
    {"rollout.sent", "actor_infer", Cards::two_rollouts, 16, true},
    {"reference.delivery", "reference", Cards::reference, 8, false},
    {"publish.commit", "actor_infer", Cards::one_rollout, 5, true},
    {"reward.scored", "head", Cards::one_rollout, 20, false},
    {"rollout.lease", "actor_infer", Cards::one_rollout, 8, true},
    {"trainer.delivery", "head", Cards::two_rollouts, 20, false},
    {"reference.computed", "reference", Cards::reference, 8, false},
    {"rollout.reported", "actor_infer", Cards::one_rollout, 8, true},
};

std::vector<std::string> command_of(Cards cards, const TempFolder& folder, bool is_flowing) {
  if (is_flowing) {
    auto command = command_of(cards, folder, false);
    for (const std::string& word :
         {std::string("placement.offload=never"), std::string("async.mode=fully_async"),
          "async.depth=" + std::to_string(k_depth), std::string("max_running_requests=2")})
      command.push_back(word);
    return command;
  }
  switch (cards) {
    case Cards::one_rollout:
      return test::in_processes(test::tiny_run(folder), 2);
    case Cards::two_rollouts:
      return test::in_processes(
          test::tiny_run(folder,
                         {"num_gpus_per_node=3", "actor_infer.device_mapping=list(range(1,3))",
                          "max_running_requests=4"}),
          3);
    case Cards::reference:
      return test::in_processes(
          test::tiny_run(folder, {"use_kl_loss=true", "kl_loss_coef=0.1", "num_gpus_per_node=3",
                                  "reference.device_mapping=list(range(2,3))"}),
          3);
  }
  return {};
}

struct Totals {
  int kills = 0, stops = 0, missed = 0, resumes = 0, failures = 0;
  std::map<std::string, int> roles;
  std::vector<double> dead_ms, silent_ms;  // from the blow to the event
};

class Chaos {
 public:
  Chaos(uint64_t seed, bool is_flowing) : rng_(seed), is_flowing_(is_flowing) {}

  bool calm_runs() {
    if (is_flowing_) return true;
    for (Cards cards : {Cards::one_rollout, Cards::reference}) {
      TempFolder folder;
      Process run(command_of(cards, folder, false), folder);
      if (run.wait(120000) != 0) {
        std::printf("the calm run failed: %s\n", run.err().c_str());
        return false;
      }
      calm_[cards] = test::hashes(test::run_folder(run));
    }
    calm_[Cards::two_rollouts] = calm_[Cards::one_rollout];  // no layout changes them
    return true;
  }

  void strike(size_t number) {
    const Point& point = k_points[number % std::size(k_points)];
    const bool is_stop = point.is_survived && number / 2 % 5 == 4;  // these have even numbers
    const uint64_t count = 1 + rng_.below(point.passes);
    std::string blow =
        std::string(point.name) + ":" + std::to_string(count) + (is_stop ? ":stop" : ":kill");
    TempFolder folder;
    const std::filesystem::path claim = folder.path() / "claim";
    auto command = command_of(point.cards, folder, is_flowing_);
    command.insert(command.begin() + 2, {"--restarts", "5"});
    Process run(test::with_failpoint(command, blow, claim), folder);
    const int code = run.wait(120000);
    const auto struck = test::claimed_at(claim);
    int resumes = 0;
    const std::string said = run.err();
    for (size_t at = 0; (at = said.find(": starting again ", at)) != std::string::npos; ++at)
      ++resumes;
    const test::StreamFacts facts = test::read_stream(test::run_folder(run));
    std::string wrong = "it ends with " + std::to_string(code) + ": " + said;
    if (code == 0)
      wrong = is_flowing_ ? test::flowing_error(test::run_folder(run), k_steps,
                                                size_t{k_groups} * k_group_size, k_depth)
                          : test::flow_1(facts, k_steps, k_groups, k_group_size);
    if (wrong.empty() && !is_flowing_ &&
        test::hashes(test::run_folder(run)) != calm_.at(point.cards))
      wrong = "other parameters than the undisturbed run";
    if (wrong.empty() && point.is_survived && resumes > 0) wrong = "the run did not survive it";
    count_in(point, is_stop, struck, facts, resumes);
    std::printf("%3zu %-28s %-12s %s%s\n", number, blow.c_str(), point.role,
                !struck       ? "not passed"
                : resumes > 0 ? "resumed"
                              : "survived",
                wrong.empty() ? "" : (": WRONG: " + wrong).c_str());
    std::fflush(stdout);
    if (!wrong.empty()) ++totals_.failures;
  }

  int report() const {
    const Totals& t = totals_;
    std::printf("%d kills, %d stops, %d points not passed, %d resumes;", t.kills, t.stops, t.missed,
                t.resumes);
    for (const auto& [role, count] : t.roles) std::printf(" %s %d", role.c_str(), count);
    std::printf("\n");
    print("a dead rollout was known after", t.dead_ms);
    print("a silent rollout was known after", t.silent_ms);
    std::printf("trajectories lost, used twice, or parameters that differ: %d runs\n", t.failures);
    return t.failures == 0 && t.kills + t.stops > 0 ? 0 : 1;
  }

 private:
  void count_in(const Point& point, bool is_stop, const std::optional<int64_t>& struck,
                const test::StreamFacts& facts, int resumes) {
    totals_.resumes += resumes;
    if (!struck) {
      ++totals_.missed;
      return;
    }
    ++(is_stop ? totals_.stops : totals_.kills);
    ++totals_.roles[point.role];
    const auto lost = facts.of_kind("lost");
    if (lost.empty()) return;
    const auto took_us = lost.front()["time_us"].get<int64_t>() - *struck;
    (is_stop ? totals_.silent_ms : totals_.dead_ms).push_back(static_cast<double>(took_us) * 1e-3);
  }
  static void print(const char* what, std::vector<double> values) {
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    std::printf("%s: median %.1f ms, longest %.1f ms (%zu)\n", what, values[values.size() / 2],
                values.back(), values.size());
  }

  Rng rng_;
  const bool is_flowing_;
  std::map<Cards, std::map<uint64_t, std::string>> calm_;
  Totals totals_;
};

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  uint64_t kills = 6, seed = 1;
  bool is_flowing = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--kills") == 0) kills = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--mode") == 0)
      is_flowing = std::strcmp(argv[i + 1], "fully_async") == 0;
  }
  cohort::Chaos chaos(seed, is_flowing);
  if (!chaos.calm_runs()) return 1;
  for (uint64_t number = 0; number < kills; ++number) chaos.strike(number);
  return chaos.report();
}
