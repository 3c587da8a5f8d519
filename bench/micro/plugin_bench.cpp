// What the supervision and the sandbox of a Python reward cost, and how soon a slot is back.
// Call: one row of ~1 KiB scored by a trivial plugin, against a bare python3 behind two pipes that
// reads the same bytes and answers 32; interleaved, medians of rounds. Slot: the row of each worker
// hangs; milliseconds from the deadline until every slot has scored another row, which waited for
// it. With one worker the spare takes the slot, with two a child has to be started for one of them.
// One JSON line. Usage: plugin_bench [rounds = 15] [calls of a round = 400] [hangs = 15]
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/plugin/child/child_reward.hpp"
#include "runtime/plugin/child/plugin_frames.hpp"
#include "runtime/plugin/open_reward.hpp"

extern char** environ;

namespace {

using namespace cohort;

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

constexpr const char* k_plugin = R"(import time

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if solution_str == "hang":
        time.sleep(3600)
    return float(ground_truth in solution_str)
)";

constexpr const char* k_bare = R"(import os, struct
requests = open(0, "rb", buffering=1 << 16, closefd=False)
answer = b"x" * 32
while True:
    head = requests.read(4)
    if len(head) < 4:
        break
    requests.read(struct.unpack("<I", head)[0])
    os.write(1, answer)
)";

/// The ceiling: no sandbox, no deadline, no rows.
class BareWorker {
 public:
  BareWorker() {
    int to[2], from[2];
    COHORT_CHECK(::pipe(to) == 0 && ::pipe(from) == 0, "pipes");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    for (int fd : {to[0], to[1], from[0], from[1]}) posix_spawn_file_actions_addclose(&actions, fd);
    std::array<const char*, 4> argv{"/usr/bin/python3", "-c", k_bare, nullptr};
    COHORT_CHECK(::posix_spawn(&pid_, argv[0], &actions, nullptr,
                               const_cast<char* const*>(argv.data()), environ) == 0,
                 "python3");
    posix_spawn_file_actions_destroy(&actions);
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1], out_ = from[0];
  }
  ~BareWorker() {
    ::close(in_);
    ::close(out_);
    ::waitpid(pid_, nullptr, 0);
  }
  void call(const std::string& payload) {
    auto size = static_cast<uint32_t>(payload.size());
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += payload;
    COHORT_CHECK(::write(in_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
                 "write");
    std::array<char, 32> answer;
    for (size_t got = 0; got < answer.size();) {
      ssize_t n = ::read(out_, answer.data() + got, answer.size() - got);
      COHORT_CHECK(n > 0, "read");
      got += static_cast<size_t>(n);
    }
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1, out_ = -1;
};

tasks::RewardRow row_of_a_kilobyte() {
  tasks::RewardRow row;
  row.id = "bench";
  row.prompt = std::string(200, 'p');
  row.ground_truth = "42";
  row.data_source = "openai/gsm8k";
  row.response = std::string(800, 'r') + "#### 42";
  return row;
}

std::shared_ptr<tasks::Reward> open(const std::string& path, double timeout_s, uint32_t workers) {
  plugin::PluginSpec spec;
  spec.plugin = path;
  spec.timeout_s = timeout_s;
  spec.workers = workers;
  auto reward = plugin::open_reward(spec);
  COHORT_CHECK(reward.has_value(), reward.error().to_string());
  return *reward;
}

struct CallTimes {
  std::vector<double> plugin, bare;  // medians of rounds [us]
};

CallTimes time_calls(const std::string& path, int rounds, int calls) {
  auto reward = open(path, 10, 1);
  BareWorker bare;
  const tasks::RewardRow row = row_of_a_kilobyte();
  const tasks::RewardRow* rows[] = {&row};
  const std::string payload = plugin::rows_payload(rows);
  CallTimes times;
  for (int round = -1; round < rounds; ++round) {
    std::vector<double> ours, theirs;
    for (int i = 0; i < calls; ++i) {
      double begin = now_seconds();
      COHORT_CHECK(reward->score({&row, 1}).front().score == 1, "score");
      double middle = now_seconds();
      bare.call(payload);
      ours.push_back((middle - begin) * 1e6);
      theirs.push_back((now_seconds() - middle) * 1e6);
    }
    if (round < 0) continue;  // warm-up
    times.plugin.push_back(quantile(ours, 0.5));
    times.bare.push_back(quantile(theirs, 0.5));
  }
  return times;
}

double rows_per_second(const std::string& path) {
  auto reward = open(path, 10, 1);
  std::vector<tasks::RewardRow> rows(64, row_of_a_kilobyte());
  std::vector<double> rates;
  for (int i = 0; i < 20; ++i) {
    const double begin = now_seconds();
    COHORT_CHECK(reward->score(rows).back().score == 1, "score");
    rates.push_back(64 / (now_seconds() - begin));
  }
  return quantile(rates, 0.5);
}

/// All workers hang at once. Returns the milliseconds from each deadline until every slot had
/// scored another row.
std::vector<double> time_slots(const std::string& path, int hangs, uint32_t workers) {
  constexpr double timeout_s = 0.3;
  auto reward = open(path, timeout_s, workers);
  const tasks::RewardRow good = row_of_a_kilobyte();
  tasks::RewardRow hanging = good;
  hanging.response = "hang";
  std::vector<double> times;
  const plugin::PluginPool& pool = dynamic_cast<plugin::ChildReward&>(*reward).pool();
  auto wait_for_idle = [&](size_t count) {
    const double end = now_seconds() + 30;
    while (pool.idle() != count) {
      if (now_seconds() > end) {
        std::fprintf(stderr, "plugin_bench: %zu of %zu children idle after 30 s\n", pool.idle(),
                     count);
        std::exit(1);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  for (int i = 0; i < hangs; ++i) {
    wait_for_idle(workers + 1);  // the retries of the last turn hung too
    const double begin = now_seconds();
    std::vector<std::thread> others, next;
    for (uint32_t k = 0; k < workers; ++k)
      others.emplace_back([&] { reward->score({&hanging, 1}); });
    wait_for_idle(1);  // they have the slots
    for (uint32_t k = 0; k < workers; ++k)
      next.emplace_back([&] {
        COHORT_CHECK(reward->score({&good, 1}).front().score == 1, "score");
      });
    for (std::thread& thread : next) thread.join();
    times.push_back((now_seconds() - begin - timeout_s) * 1e3);
    for (std::thread& thread : others) thread.join();
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const int calls = argc > 2 ? std::atoi(argv[2]) : 400;
  const int hangs = argc > 3 ? std::atoi(argv[3]) : 15;
  std::string folder = (std::filesystem::temp_directory_path() / "plugin_bench_XXXXXX").string();
  COHORT_CHECK(::mkdtemp(folder.data()) != nullptr, folder);
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  const std::string path = folder + "/bench_reward.py";
  std::ofstream(path) << k_plugin;
  const CallTimes calls_us = time_calls(path, rounds, calls);
  const double rate = rows_per_second(path);
  const std::vector<double> one = time_slots(path, hangs, 1), two = time_slots(path, hangs, 2);
  std::filesystem::remove_all(folder);
  const double plugin_us = quantile(calls_us.plugin, 0.5), bare_us = quantile(calls_us.bare, 0.5);
  fmt::print(
      "{{\"bench\": \"plugin\", \"call_us_p50\": {:.1f}, \"bare_us_p50\": {:.1f}, "
      "\"overhead_us_p50\": {:.1f}, \"rows_per_s_batch_64\": {:.0f}, \"slot_back_ms_p50\": {:.1f}, "
      "\"slot_back_ms_max\": {:.1f}, \"both_slots_back_ms_p50\": {:.1f}, "
      "\"both_slots_back_ms_max\": {:.1f}, \"rounds\": {}, \"calls\": {}, \"hangs\": {}}}\n",
      plugin_us, bare_us, plugin_us - bare_us, rate, quantile(one, 0.5), quantile(one, 1),
      quantile(two, 0.5), quantile(two, 1), rounds, calls, hangs);
  return 0;
}
