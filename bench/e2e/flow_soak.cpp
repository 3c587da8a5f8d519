// Backpressure: a trainer that is `--slowdown` times slower than the flow can be, for `--seconds`.
// Prints the most that each process held before and after half of the time, and reads the stream
// back: nothing was dropped, nothing is there twice, every column as it was sent. Ends with 1 if a
// process grew by more than `--growth-mb` or if the stream is wrong. One JSON line.
//   flow_soak [--seconds=600] [--slowdown=100] [--growth-mb=16] [--folder=/tmp]
// A run without delay comes first: it says how fast the flow can be. The first tenth of the samples
// is the time in which the links fill up.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/e2e/flow_rig.hpp"

namespace {

using namespace cohort;
using Bytes = std::array<uint64_t, bench::k_flow_processes>;

struct Settings {
  double seconds = 600, slowdown = 100, growth_mb = 16;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string key = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (key == "--seconds") settings.seconds = std::atof(value.c_str());
    if (key == "--slowdown") settings.slowdown = std::atof(value.c_str());
    if (key == "--growth-mb") settings.growth_mb = std::atof(value.c_str());
    if (key == "--folder") settings.folder = value;
  }
  return settings;
}

template <class T>
T must(Expected<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "flow_soak: %s\n", result.error().to_string().c_str());
  std::exit(1);
}

std::string megabytes(const Bytes& bytes) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < bytes.size(); ++i)
    parts.push_back(fmt::format("\"{}\": {:.1f}", bench::k_flow_names[i],
                                static_cast<double>(bytes[i]) / (1 << 20)));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  bench::FlowOptions options;
  options.credit_bytes = size_t{8} << 20;
  const double rate = must(bench::flow(options)).rate();
  const double slow_rate = rate / settings.slowdown;
  options.record_delay_s = 1 / slow_rate;
  options.warm_up_steps = 0;
  options.steps = static_cast<uint64_t>(std::max(
      3.0,
      std::ceil(settings.seconds * slow_rate / static_cast<double>(options.step_trajectories()))));
  options.limit_s = 3 * settings.seconds + 120;
  options.stream = (settings.folder / fmt::format("cohort-soak-{}", ::getpid())).string();
  Bytes early{}, late{};
  options.on_sample = [&](double seconds, const Bytes& now) {
    if (seconds < settings.seconds / 10) return;
    Bytes& most = seconds < settings.seconds / 2 ? early : late;
    for (size_t i = 0; i < now.size(); ++i) most[i] = std::max(most[i], now[i]);
  };
  const bench::FlowResult result = must(bench::flow(options));
  const uint64_t checked = must(bench::check_stream(options));
  std::filesystem::remove_all(options.stream);
  double growth = 0;
  for (size_t i = 0; i < late.size(); ++i)
    growth = std::max(growth,
                      (static_cast<double>(late[i]) - static_cast<double>(early[i])) / (1 << 20));
  fmt::print(
      "{{\"bench\": \"flow_soak\", \"seconds\": {:.0f}, \"unthrottled_per_s\": {:.0f}, "
      "\"trajectories_per_s\": {:.1f}, \"trajectories\": {}, \"checked\": {}, "
      "\"early_mb\": {}, \"late_mb\": {}, \"growth_mb\": {:.1f}}}\n",
      result.seconds, rate, result.rate(), result.trajectories, checked, megabytes(early),
      megabytes(late), growth);
  return growth <= settings.growth_mb ? 0 : 1;
}
