#include "bench/e2e/flow_rig.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include "bench/e2e/flow_roles.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/stream/reader.hpp"

namespace cohort::bench {
namespace {

double cpu_seconds_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(in, text);
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

uint64_t rss_bytes_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/statm", pid));
  uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

class Pipe {
 public:
  Pipe() {
    int ends[2] = {};
    COHORT_CHECK(::pipe(ends) == 0, "flow: out of file descriptors");
    in = ends[0];
    out = ends[1];
  }
  ~Pipe() {
    ::close(in);
    ::close(out);
  }
  Pipe(const Pipe&) = delete;
  int in = -1, out = -1;
};

/// The four processes of one flow.
class Processes {
 public:
  ~Processes() {
    for (pid_t pid : pids_) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  /// The last one first: each needs to know where the next one listens.
  Expected<void> start(const FlowOptions& options,
                       const std::array<FlowRole, k_flow_processes>& roles) {
    std::string next;
    for (size_t place = k_flow_processes; place-- > 0;) {
      Pipe endpoint;
      pids_[place] = spawn([&] {
        roles[place](options, {leases_.in, leases_.out, marks_.out, endpoint.out}, next);
      });
      if (place == 0) return {};
      COHORT_ASSIGN(next, read_line(endpoint.in, 20));
    }
    return {};
  }

  /// Returns the next mark; calls `idle` meanwhile.
  Expected<char> next_mark(double end, double pause_s, const std::function<void()>& idle) {
    for (;;) {
      pollfd watched{marks_.in, POLLIN, 0};
      if (::poll(&watched, 1, static_cast<int>(pause_s * 1e3)) > 0) {
        char what = 0;
        if (::read(marks_.in, &what, 1) == 1) return what;
      }
      idle();
      COHORT_TRY(check());
      if (now_seconds() > end) return Error{Errc::timeout, "flow: it is not done in time"};
    }
  }

  std::array<double, k_flow_processes> cpu_seconds() const {
    std::array<double, k_flow_processes> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = cpu_seconds_of(pids_[i]);
    return all;
  }
  std::array<uint64_t, k_flow_processes> rss_bytes() const {
    std::array<uint64_t, k_flow_processes> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = rss_bytes_of(pids_[i]);
    return all;
  }

 private:
  static pid_t spawn(const std::function<void()>& body) {
    std::fflush(nullptr);
    const pid_t parent = ::getpid(), pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(98);
    body();
    for (;;) ::pause();
  }

  Expected<std::string> read_line(int fd, double limit_s) {
    std::string line;
    for (const double end = now_seconds() + limit_s; now_seconds() < end;) {
      pollfd watched{fd, POLLIN, 0};
      char one = 0;
      if (::poll(&watched, 1, 100) > 0 && ::read(fd, &one, 1) == 1) {
        if (one == '\n') return line;
        line += one;
      } else {
        COHORT_TRY(check());
      }
    }
    return Error{Errc::timeout, "flow: a process does not listen"};
  }

  Expected<void> check() {
    for (size_t i = 0; i < pids_.size(); ++i)
      if (pids_[i] > 0 && ::waitpid(pids_[i], nullptr, WNOHANG) == pids_[i]) {
        pids_[i] = -1;
        return Error{Errc::closed, fmt::format("flow: process {} has ended", k_flow_names[i])};
      }
    return {};
  }

  Pipe leases_, marks_;
  std::array<pid_t, k_flow_processes> pids_ = {-1, -1, -1, -1};
};

Expected<FlowResult> run(const FlowOptions& options,
                         const std::array<FlowRole, k_flow_processes>& roles) {
  const double begin = now_seconds(), end = begin + options.limit_s;
  Processes processes;
  COHORT_TRY(processes.start(options, roles));
  auto sample = [&] {
    if (options.on_sample) options.on_sample(now_seconds() - begin, processes.rss_bytes());
  };
  FlowResult result;
  double warm = 0;
  std::array<double, k_flow_processes> used{};
  for (char what = 0; what != 'C';) {
    COHORT_ASSIGN(what, processes.next_mark(end, options.sample_s, sample));
    if (what == 'B') {
      warm = now_seconds();
      used = processes.cpu_seconds();
    } else if (what == 'E') {
      result.seconds = now_seconds() - warm;
      result.cpu_seconds = processes.cpu_seconds();
      for (size_t i = 0; i < used.size(); ++i) result.cpu_seconds[i] -= used[i];
    }
  }
  result.trajectories = options.steps * options.step_trajectories();
  for (size_t bytes : frame_bytes(options))
    result.bytes += bytes * (result.trajectories / options.frame_trajectories);
  return result;
}

Error wrong(const proto::TrajectoryKey& key, const char* what) {
  return {Errc::corrupt, fmt::format("{}: {}", proto::to_string(key), what)};
}

}  // namespace

Expected<FlowResult> flow(const FlowOptions& options) { return run(options, k_flow_roles); }
Expected<FlowResult> raw_flow(const FlowOptions& options) { return run(options, k_raw_roles); }

proto::Trajectory make_trajectory(const FlowOptions& options, const proto::TrajectoryKey& key) {
  proto::Trajectory t;
  t.run_id = "flow";
  t.key = key;
  t.tag = "Synthetic";
  t.seed = key.step * 1000 + key.group;
  t.weight_version_min = t.weight_version_max = key.step;
  t.stop_reason = "goal";
  t.metrics = {{"success", 1.0}, {"num_actions", 1.0}};
  const size_t count = options.tokens, prompt = count / 8;
  const auto salt = static_cast<uint32_t>(t.seed * 2654435761U + key.index * 40503U);
  t.tokens.resize(count);
  t.behavior_logp.resize(count);
  t.response_mask.assign(count, 1);
  std::fill_n(t.response_mask.begin(), prompt, uint8_t{0});
  t.token_versions.assign(count, static_cast<uint32_t>(key.step));
  for (size_t i = 0; i < count; ++i) {
    const uint32_t mixed = (static_cast<uint32_t>(i) + salt) * 2246822519U;
    t.tokens[i] = static_cast<int32_t>(mixed >> 15);
    t.behavior_logp[i] = -1e-9F * static_cast<float>(mixed);
  }
  t.turns.push_back({static_cast<uint32_t>(prompt), static_cast<uint32_t>(count), 1.F, true, true,
                     "a synthetic question", "a synthetic answer"});
  return t;
}

double score_of(const proto::Trajectory& t) {
  uint32_t odd = 0;
  for (int32_t token : t.tokens) odd += static_cast<uint32_t>(token) & 1U;
  return static_cast<double>(odd) / static_cast<double>(t.tokens.size());
}

void fill_reference(proto::Trajectory& t) {
  t.ref_logp.resize(t.behavior_logp.size());
  for (size_t i = 0; i < t.ref_logp.size(); ++i) t.ref_logp[i] = t.behavior_logp[i] - 0.125F;
}

Expected<uint64_t> check_stream(const FlowOptions& options) {
  COHORT_ASSIGN(stream::Reader reader, stream::Reader::open(options.stream));
  std::set<proto::TrajectoryKey> seen;
  for (;;) {
    COHORT_ASSIGN(auto record, reader.next());
    if (!record) break;
    if (record->info.type != stream::RecordType::trajectory) continue;
    COHORT_ASSIGN(const proto::Trajectory found, record->trajectory());
    proto::Trajectory sent = make_trajectory(options, found.key);
    fill_reference(sent);
    if (!seen.insert(found.key).second) return wrong(found.key, "is there twice");
    if (found.tokens != sent.tokens || found.response_mask != sent.response_mask ||
        found.behavior_logp != sent.behavior_logp || found.token_versions != sent.token_versions)
      return wrong(found.key, "has other columns than were sent");
    if (found.score != score_of(sent)) return wrong(found.key, "has another score");
    if (found.ref_logp != sent.ref_logp) return wrong(found.key, "has other reference log-probs");
  }
  const uint64_t expected = (options.warm_up_steps + options.steps) * options.step_trajectories();
  if (seen.size() != expected)
    return Error{Errc::corrupt,
                 fmt::format("{} trajectories of {} are in the stream", seen.size(), expected)};
  return expected;
}

}  // namespace cohort::bench
