// How long viewers of the dashboard wait for a page of a run with many trajectories a step. One
// JSON line per page (docs/bench.md).
//   pages_bench --config=configs/frozen_lake.yaml [--dir=FOLDER] [--trajectories=10000]
//               [--viewers=10] [--rounds=20] [--program=actor-node]
// `actor-node serve` shows the run. Each viewer opens a connection per request and walks: overview,
// steps, a step, the step with a query, a group, a trajectory, a token, timeline, flow. A writer
// appends 2000 trajectories a second to the next step all the while.
// healthz = a reply of three bytes, what a connection costs; step_cold = a step that nobody has
// looked at: the first answer, and until it is all there.
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/e2e/traj_stream.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/stream/writer.hpp"

namespace {

using namespace cohort;

constexpr uint64_t k_steps = 3;
constexpr double k_live_rate = 2000;  // [trajectories/s]
constexpr uint32_t k_group = 8;

struct Settings {
  std::filesystem::path folder = ".", config, program;
  uint32_t trajectories = 10000;  // a step
  int viewers = 10, rounds = 20;
};

/// Returns the reply's bytes, all of them.
std::string fetch(uint16_t port, const std::string& path) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  COHORT_CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
               "the dashboard does not take a connection");
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  COHORT_CHECK(
      ::send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()),
      "the dashboard does not take a request");
  std::string reply;
  char bytes[65536];
  for (ssize_t got = 0; (got = ::recv(fd, bytes, sizeof bytes, 0)) > 0;)
    reply.append(bytes, static_cast<size_t>(got));
  ::close(fd);
  COHORT_CHECK(reply.starts_with("HTTP/1.1 200 "), path + ": " + reply.substr(0, 200));
  return reply;
}

bool is_whole(const std::string& page) {
  return page.find("data-waiting=") == std::string::npos &&
         page.find("<progress value") == std::string::npos;
}

/// `actor-node serve`, until the end of the object.
class Server {
 public:
  Server(const std::filesystem::path& program, const std::filesystem::path& run) {
    int out[2];
    COHORT_CHECK(::pipe(out) == 0, "no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::execl(program.c_str(), "actor-node", "serve", run.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    std::string line;
    for (char c = 0; line.find('\n') == std::string::npos && ::read(out[0], &c, 1) == 1;) line += c;
    ::close(out[0]);
    const size_t colon = line.rfind(':');
    COHORT_CHECK(line.starts_with("dashboard: ") && colon != std::string::npos,
                 program.string() + " serve says: " + line);
    port_ = static_cast<uint16_t>(std::stoi(line.substr(colon + 1)));
  }
  ~Server() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  uint16_t port() const { return port_; }

 private:
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

double percentile(std::vector<double> x, double p) {
  std::ranges::sort(x);
  return x[static_cast<size_t>(p * static_cast<double>(x.size() - 1))];
}

std::vector<std::pair<std::string, std::string>> walk(uint64_t step, uint32_t group) {
  const std::string place = fmt::format("step={}&kind=train&group={}", step, group);
  return {{"healthz", "/healthz"},
          {"overview", "/"},
          {"parts", "/live?rows=0"},
          {"steps", "/steps"},
          {"step", fmt::format("/step?step={}", step)},
          {"step_where", fmt::format("/step?step={}&where=score+%3E+0", step)},
          {"group", "/group?" + place},
          {"trajectory", "/trajectory?" + place + "&index=1"},
          {"token", "/token?" + place + "&index=1&at=7"},
          {"timeline", "/timeline"},
          {"flow", "/flow"}};
}

void write_steps(stream::Writer& writer, const Settings& settings) {
  for (uint64_t step = 1; step <= k_steps; ++step) {
    for (uint32_t i = 0; i < settings.trajectories; ++i)
      writer.append_trajectory(bench::sample_trajectory(step, i / k_group, i % k_group)).value();
    writer
        .append_json(stream::RecordType::step_result,
                     fmt::format(R"({{"step":{},"reward/mean":0.5,"loss":0.1}})", step))
        .value();
    writer.sync().value();
  }
}

/// Appends to the step that comes next, at a steady rate.
void write_on(const std::stop_token& stop, stream::Writer& writer) {
  const double begin = now_seconds();
  for (uint32_t i = 0; !stop.stop_requested(); ++i) {
    while (now_seconds() < begin + i / k_live_rate && !stop.stop_requested())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    writer.append_trajectory(bench::sample_trajectory(k_steps + 1, i / k_group, i % k_group))
        .value();
  }
}

void show(const Settings& settings, const std::string& page, const std::vector<double>& seconds) {
  fmt::print(
      "{{\"bench\":\"pages\",\"page\":\"{}\",\"trajectories\":{},\"viewers\":{},\"n\":{},"
      "\"median_ms\":{:.2f},\"p99_ms\":{:.2f},\"max_ms\":{:.2f}}}\n",
      page, settings.trajectories, settings.viewers, seconds.size(), 1e3 * percentile(seconds, 0.5),
      1e3 * percentile(seconds, 0.99), 1e3 * percentile(seconds, 1));
}

Settings read_settings(int argc, char** argv) {
  Settings settings;
  settings.program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "actor-node";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(std::min(word.size(), word.find('=') + 1));
    if (word.starts_with("--dir=")) settings.folder = value;
    if (word.starts_with("--config=")) settings.config = value;
    if (word.starts_with("--program=")) settings.program = value;
    if (word.starts_with("--trajectories="))
      settings.trajectories = static_cast<uint32_t>(std::stoul(value));
    if (word.starts_with("--viewers=")) settings.viewers = std::stoi(value);
    if (word.starts_with("--rounds=")) settings.rounds = std::stoi(value);
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = read_settings(argc, argv);
  const std::filesystem::path run = settings.folder / "pages_bench_run";
  std::filesystem::remove_all(run);
  std::filesystem::create_directories(run);
  std::filesystem::copy_file(settings.config, run / "config.yaml");
  std::ofstream(run / "metrics.jsonl") << "{\"step\":1,\"loss\":0.5}\n";
  stream::Writer writer = stream::Writer::open(run / "stream", {.run_id = "bench"}).value();
  write_steps(writer, settings);
  const Server server(settings.program, run);
  const uint16_t port = server.port();

  const double begin = now_seconds();
  std::string page = fetch(port, "/step?step=1");
  const double first = now_seconds() - begin;
  while (!is_whole(page)) page = fetch(port, "/step?step=1");
  fmt::print(
      "{{\"bench\":\"pages\",\"page\":\"step_cold\",\"trajectories\":{},\"first_ms\":{:.1f},"
      "\"whole_ms\":{:.1f}}}\n",
      settings.trajectories, 1e3 * first, 1e3 * (now_seconds() - begin));

  std::jthread live([&](const std::stop_token& stop) { write_on(stop, writer); });
  std::mutex mutex;
  std::map<std::string, std::vector<double>> taken;
  std::vector<double> all;
  std::vector<std::jthread> viewers;
  for (int viewer = 0; viewer < settings.viewers; ++viewer)
    viewers.emplace_back([&, viewer] {
      for (int round = 0; round < settings.rounds; ++round) {
        const auto at = static_cast<uint32_t>(viewer * settings.rounds + round);
        for (const auto& [name, path] :
             walk(1 + at % (k_steps + 1), at % (settings.trajectories / k_group))) {
          const double asked = now_seconds();
          fetch(port, path);
          std::lock_guard lock(mutex);
          taken[name].push_back(now_seconds() - asked);
          all.push_back(taken[name].back());
        }
      }
    });
  viewers.clear();  // joins them
  live.request_stop();
  live.join();
  for (const auto& [name, seconds] : taken) show(settings, name, seconds);
  show(settings, "all", all);
  writer.close().value();
  std::filesystem::remove_all(run);
  return 0;
}
