// Groups of two ranks over loopback: links, links with keys (CURVE) and Gloo beside memcpy, by
// size; one JSON line a size. Ranks are threads, each with its own sockets. A repeat runs every
// engine once, one after the other; figures are medians over the repeats. An all_gather moves
// `bytes` each way; `ratio` is its rate over that of one memcpy of as many bytes on one core.
//   collectives_bench [repeats]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.hpp"
#include "tests/support/link_groups.hpp"

namespace cohort {
namespace {

using compute::CollectiveBackend;
using compute::Collectives;
using compute::GroupOptions;

struct Engine {
  const char* name;
  CollectiveBackend backend;
  bool has_keys;
};
constexpr Engine k_engines[] = {{"gloo", CollectiveBackend::gloo, false},
                                {"links", CollectiveBackend::links, false},
                                {"links_with_keys", CollectiveBackend::links, true}};

struct Case {
  size_t bytes;
  int rounds;
};
constexpr Case k_cases[] = {
    {1024, 300}, {65536, 200}, {size_t{1} << 20, 60}, {size_t{64} << 20, 3}};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const Engine& engine, const Case& x) {
  const auto rendezvous = compute::Rendezvous::in_process();
  const auto keys = engine.has_keys ? tests::curve_keys() : transport::CurveKeys();
  double seconds = 0;
  auto body = [&](int rank) {
    GroupOptions options;
    options.name = "bench";
    options.rank = rank;
    options.size = 2;
    options.rendezvous = rendezvous;
    options.backend = engine.backend;
    options.open = actors::link_groups(tests::link_group_options(keys));
    auto group = Collectives::join(options).value();
    std::vector<std::byte> all(2 * x.bytes, static_cast<std::byte>(rank));
    const std::vector<std::span<std::byte>> views = {std::span(all).first(x.bytes),
                                                     std::span(all).last(x.bytes)};
    auto gather = [&](int rounds) {
      for (int i = 0; i < rounds; ++i)
        group->all_gather(views[static_cast<size_t>(rank)], views).value();
    };
    gather(2);
    const double begin = now_seconds();
    gather(x.rounds);
    if (rank == 0) seconds = (now_seconds() - begin) / x.rounds;
    group->barrier().value();
  };
  std::jthread other([&] { body(1); });
  body(0);
  other.join();
  return seconds;
}

double copy_seconds(const Case& x) {
  std::vector<std::byte> from(x.bytes, std::byte{1}), to(x.bytes);
  std::memcpy(to.data(), from.data(), x.bytes);
  const double begin = now_seconds();
  for (int i = 0; i < x.rounds; ++i) {
    from[static_cast<size_t>(i) % x.bytes] = static_cast<std::byte>(i);
    std::memcpy(to.data(), from.data(), x.bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
  }
  return (now_seconds() - begin) / x.rounds;
}

void run(const Case& x, int repeats) {
  std::map<std::string, std::vector<double>> seconds, ratios;
  for (int i = 0; i < repeats; ++i) {
    const double copy = copy_seconds(x);
    for (const Engine& engine : k_engines) {
      seconds[engine.name].push_back(seconds_of(engine, x));
      ratios[engine.name].push_back(copy / seconds[engine.name].back());
    }
  }
  std::string line = fmt::format("{{\"bench\": \"collectives\", \"bytes\": {}", x.bytes);
  for (const Engine& engine : k_engines)
    line += fmt::format(", \"{0}_us\": {1:.1f}, \"{0}_ratio\": {2:.3f}", engine.name,
                        1e6 * median(seconds[engine.name]), median(ratios[engine.name]));
  fmt::print("{}}}\n", line);
  std::fflush(stdout);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  for (const cohort::Case& x : cohort::k_cases) cohort::run(x, repeats);
  return 0;
}
