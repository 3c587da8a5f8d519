// Trajectories from rollout through rewards and reference to the trainer: four processes over tcp
// on loopback, acknowledged end to end, checked at every hop and recorded; beside it the same bytes
// over as many hops with bare ZeroMQ. One JSON line.
//   flow_bench [--steps=12] [--repeats=7] [--tokens=4096] [--frame=8] [--folder=/tmp] [--curve]
//   flow_bench --latency [--steps=400] …   one trajectory at a time: from its score to the
//                                          collector's word that it is recorded
// A repeat runs raw, ours, and ours without recording, one after the other; figures are medians.
// The stream of every run is read back: each trajectory is there once, with the bytes that were
// sent.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/e2e/flow_rig.hpp"

namespace {

using namespace cohort;
using bench::FlowOptions;
using bench::FlowResult;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

FlowResult must(Expected<FlowResult> result, const char* what) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "flow_bench, %s: %s\n", what, result.error().to_string().c_str());
  std::exit(1);
}

struct Series {
  std::vector<double> rates;
  std::array<std::vector<double>, bench::k_flow_processes> cpu_ms;  // per 1,000 trajectories
  void add(const FlowResult& result) {
    rates.push_back(result.rate());
    for (size_t i = 0; i < cpu_ms.size(); ++i)
      cpu_ms[i].push_back(1e6 * result.cpu_seconds[i] / static_cast<double>(result.trajectories));
  }
  std::string cpu() const {
    std::vector<std::string> parts;
    for (size_t i = 0; i < cpu_ms.size(); ++i)
      parts.push_back(fmt::format("\"{}\": {:.0f}", bench::k_flow_names[i], median(cpu_ms[i])));
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
};

struct Settings {
  int repeats = 7;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  FlowOptions flow;
  bool is_latency = false;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string key = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    const auto number = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (key == "--steps") settings.flow.steps = number;
    if (key == "--repeats") settings.repeats = static_cast<int>(number);
    if (key == "--tokens") settings.flow.tokens = number;
    if (key == "--frame") settings.flow.frame_trajectories = number;
    if (key == "--folder") settings.folder = value;
    if (key == "--latency") settings.is_latency = true;
    if (key == "--curve") {
      std::array<char, 41> open{}, secret{};
      zmq_curve_keypair(open.data(), secret.data());
      settings.flow.keys = {open.data(), secret.data(), open.data()};
    }
  }
  return settings;
}

/// Two hops between processes, the reference's turn, the stream and the collector.
int measure_latency(const Settings& settings) {
  FlowOptions options = settings.flow;
  options.groups = options.group_size = options.steps_ahead = options.frame_trajectories = 1;
  options.stream = (settings.folder / fmt::format("cohort-flow-{}", ::getpid())).string();
  const uint64_t steps = options.warm_up_steps + options.steps;
  const size_t bytes = 2 * (steps + 1) * sizeof(double);
  void* shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  options.scored_at = static_cast<double*>(shared);
  options.recorded_at = options.scored_at + steps + 1;
  must(bench::flow(options), "latency");
  std::filesystem::remove_all(options.stream);
  std::vector<double> waits;
  for (uint64_t step = options.warm_up_steps + 1; step <= steps; ++step)
    waits.push_back(1e3 * (options.recorded_at[step] - options.scored_at[step]));
  ::munmap(shared, bytes);
  std::sort(waits.begin(), waits.end());
  fmt::print(
      "{{\"bench\": \"flow_latency\", \"tokens\": {}, \"n\": {}, \"median_ms\": {:.3f}, "
      "\"p99_ms\": {:.3f}, \"worst_ms\": {:.3f}}}\n",
      options.tokens, waits.size(), median(waits), waits[waits.size() * 99 / 100], waits.back());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  if (settings.is_latency) return measure_latency(settings);
  const FlowOptions& plain = settings.flow;
  Series raw, ours, unrecorded;
  uint64_t checked = 0;
  double bytes_each = 0;
  for (int repeat = 0; repeat < settings.repeats; ++repeat) {
    raw.add(must(bench::raw_flow(plain), "raw"));
    FlowOptions recorded = plain;
    recorded.stream = (settings.folder / fmt::format("cohort-flow-{}", ::getpid())).string();
    const FlowResult result = must(bench::flow(recorded), "ours");
    ours.add(result);
    bytes_each = static_cast<double>(result.bytes) / static_cast<double>(result.trajectories);
    auto found = bench::check_stream(recorded);
    std::filesystem::remove_all(recorded.stream);
    if (!found) {
      std::fprintf(stderr, "flow_bench: %s\n", found.error().to_string().c_str());
      return 1;
    }
    checked += *found;
    unrecorded.add(must(bench::flow(plain), "unrecorded"));
  }
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.rates.size(); ++i) ratios.push_back(ours.rates[i] / raw.rates[i]);
  fmt::print(
      "{{\"bench\": \"flow\", \"tokens\": {}, \"frame\": {}, \"keys\": {}, \"repeats\": {}, "
      "\"trajectories_per_s\": {:.0f}, \"worst\": {:.0f}, \"mb_per_s\": {:.0f}, "
      "\"raw_per_s\": {:.0f}, \"ratio\": {:.3f}, \"unrecorded_per_s\": {:.0f}, "
      "\"cpu_ms_per_1000\": {}, \"raw_cpu_ms_per_1000\": {}, \"checked\": {}}}\n",
      plain.tokens, plain.frame_trajectories, !plain.keys.empty(), settings.repeats,
      median(ours.rates), *std::min_element(ours.rates.begin(), ours.rates.end()),
      1e-6 * bytes_each * median(ours.rates), median(raw.rates), median(ratios),
      median(unrecorded.rates), ours.cpu(), raw.cpu(), checked);
  return 0;
}
