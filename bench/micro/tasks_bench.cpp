// Rooms and rows on one core: a Sokoban room of each tag, and a row of a data file beside the JSON
// parser's pass over the same text that keeps nothing (the ceiling). One JSON line per case.
//   tasks_bench [--repeats=7]
// Time is the processor's.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/tasks/dataset.hpp"
#include "runtime/tasks/sokoban_map.hpp"

namespace {

using namespace cohort;
/// Processor time of this thread.
double micros() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double micros_since(double begin) { return micros() - begin; }

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

void measure_rooms(const char* name, const tasks::SokobanRoomOptions& options, int repeats) {
  constexpr uint64_t k_seeds = 1000;
  std::vector<double> means;
  double slowest = 0;
  for (int repeat = 0; repeat <= repeats; ++repeat) {  // the first warms up
    const auto begin = micros();
    for (uint64_t seed = 0; seed < k_seeds; ++seed) {
      const auto room_begin = micros();
      tasks::generate_room(seed, options);
      if (repeat > 0) slowest = std::max(slowest, micros_since(room_begin));
    }
    if (repeat > 0) means.push_back(micros_since(begin) / k_seeds);
  }
  fmt::print("{{\"case\":\"sokoban_{}\",\"mean_us\":{:.2f},\"slowest_us\":{:.1f},\"rooms\":{}}}\n",
             name, median(means), slowest, k_seeds);
}

std::vector<std::string> verl_lines(size_t count) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < count; ++i) {
    const std::string question = fmt::format(
        "A shop sells {} pens a day for {} cents each. How much is that in a week? "
        "Let's think step by step and output the final answer after \"####\".",
        i, i % 97);
    lines.push_back(nlohmann::json{
        {"data_source", "openai/gsm8k"},
        {"prompt", {{{"role", "user"}, {"content", question}}}},
        {"ability", "math"},
        {"reward_model", {{"style", "rule"}, {"ground_truth", std::to_string(7 * i * (i % 97))}}},
        {"extra_info", {{"split", "train"}, {"index", i}, {"question", question}}}}
                        .dump());
  }
  return lines;
}

void measure_rows(int repeats) {
  const std::vector<std::string> lines = verl_lines(20'000);
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("rows.{}.jsonl", ::getpid());
  {
    std::ofstream file(path);
    for (const std::string& line : lines) file << line << '\n';
  }
  tasks::DatasetOptions options;
  options.files = {path.string()};
  std::vector<double> loads, parses;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    auto begin = micros();
    auto data = tasks::Dataset::load(options);
    const double load = micros_since(begin) / static_cast<double>(lines.size());
    COHORT_CHECK(data && (*data)->size() == lines.size(), "every row is read");
    begin = micros();
    for (const std::string& line : lines)
      COHORT_CHECK(nlohmann::json::accept(line), "every row is JSON");
    const double parse = micros_since(begin) / static_cast<double>(lines.size());
    if (repeat == 0) continue;
    loads.push_back(load);
    parses.push_back(parse);
  }
  std::filesystem::remove(path);
  fmt::print(
      "{{\"case\":\"dataset_row\",\"us\":{:.2f},\"parser_us\":{:.2f},\"of_parser\":{:.2f}}}\n",
      median(loads), median(parses), median(parses) / median(loads));
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 7;
  if (argc > 1 && std::strncmp(argv[1], "--repeats=", 10) == 0) repeats = std::atoi(argv[1] + 10);
  measure_rooms("simple", {6, 6, 1, 300}, repeats);
  measure_rooms("larger", {10, 10, 2, 10}, repeats);
  measure_rooms("vocab", {6, 6, 1, 30}, repeats);
  measure_rooms("larger_deep", {10, 10, 2, 300}, repeats);
  measure_rows(repeats);
}
