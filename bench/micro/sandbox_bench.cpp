// Answers that code_sandbox scores a second, a fresh sandbox each; one JSON line per case.
//   sandbox_bench [--case=python|tests|cpp] [--repeats=7] [--rows=60] [--workers=2]
//   [--mode=bubblewrap]
// python: a program with one case of input. tests: a function with one assert, run by the judge.
// cpp: g++ -O1, one case. Ceiling of python and tests: as many bare `python3 -I -S -c pass` started
// and reaped by as many threads, in turns with the reward; of cpp: g++ of the same file, without
// sandbox.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/plugin/code/code_reward.hpp"

namespace {

using namespace cohort;

struct Settings {
  std::string only, mode = "bubblewrap";
  int repeats = 7;
  size_t rows = 60;
  uint32_t workers = 2;
};

struct Case {
  const char *name, *response, *columns;
};

constexpr Case k_cases[] = {
    {"python", "```python\na, b = map(int, input().split())\nprint(a + b)\n```",
     R"({"test_cases": [{"stdin": "1 2", "expected_stdout": "3"}]})"},
    {"tests", "```python\ndef add(a, b):\n    return a + b\n```",
     R"({"case_type": "assert", "test_cases": ["assert add(1, 2) == 3"]})"},
    {"cpp",
     "```cpp\n#include <iostream>\nint main() { int a, b; std::cin >> a >> b; "
     "std::cout << a + b; }\n```",
     R"({"test_cases": [{"stdin": "1 2", "expected_stdout": "3"}]})"},
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Runs the program `count` times from `workers` threads, "@" being the thread's number; every run
/// must succeed.
void run_bare(const std::vector<std::string>& program, size_t count, uint32_t workers) {
  std::atomic<size_t> next{0};
  std::vector<std::jthread> threads;
  for (uint32_t i = 0; i < workers; ++i)
    threads.emplace_back([&, i] {
      std::vector<std::string> words = program;
      std::vector<char*> argv;
      for (std::string& word : words) {
        if (size_t at = word.find('@'); at != std::string::npos)
          word[at] = static_cast<char>('0' + i);
        argv.push_back(word.data());
      }
      argv.push_back(nullptr);
      while (next.fetch_add(1) < count) {
        pid_t pid = 0;
        int status = 1;
        char* environment[] = {const_cast<char*>("PATH=/usr/bin:/bin"), nullptr};
        COHORT_CHECK(posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environment) == 0,
                     "bench: posix_spawn");
        ::waitpid(pid, &status, 0);
        COHORT_CHECK(status == 0, "bench: the bare program failed");
      }
    });
}

struct Figures {
  std::vector<double> rate;  // rows a second
  void add(size_t rows, const std::function<void()>& work) {
    double begin = now_seconds();
    work();
    rate.push_back(static_cast<double>(rows) / (now_seconds() - begin));
  }
};

void measure(const Case& x, const Settings& settings) {
  plugin::PluginSpec options;
  options.workers = settings.workers;
  options.mode =
      settings.mode == "rlimits" ? plugin::SandboxMode::rlimits : plugin::SandboxMode::bubblewrap;
  auto reward = plugin::make_code_reward("{}", options);
  if (!reward) {
    std::fprintf(stderr, "%s\n", reward.error().to_string().c_str());
    std::exit(1);
  }
  bool is_cpp = std::string(x.name) == "cpp";
  size_t count = is_cpp ? std::max<size_t>(settings.rows / 10, 2) : settings.rows;
  tasks::RewardRow row;
  row.id = "bench";
  row.response = x.response;
  row.columns = x.columns;
  std::vector<tasks::RewardRow> rows(count, row);
  std::string folder = "/tmp/cohort-bench-XXXXXX";
  COHORT_CHECK(::mkdtemp(folder.data()) != nullptr, "bench: mkdtemp");
  std::string source = folder + "/a.cpp", text = x.response;
  std::ofstream(source) << text.substr(7, text.size() - 10);
  std::vector<std::string> bare = {"/usr/bin/python3", "-I", "-S", "-c", "pass"};
  if (is_cpp) bare = {"/usr/bin/g++", "-O1", "-std=c++20", "-w", "-o", folder + "/a.out@", source};
  auto score = [&] {
    for (const tasks::RewardResult& result : (*reward)->score(rows))
      COHORT_CHECK(result.score == 1, result.detail + result.error);
  };
  Figures ours, ceiling;
  score();
  for (int i = 0; i < settings.repeats; ++i) {
    ours.add(count, score);
    ceiling.add(count, [&] { run_bare(bare, count, settings.workers); });
  }
  std::filesystem::remove_all(folder);
  fmt::print(
      "{{\"bench\":\"sandbox\",\"case\":\"{}\",\"mode\":\"{}\",\"workers\":{},\"rows\":{},"
      "\"repeats\":{},\"rows_per_s\":{:.1f},\"bare_per_s\":{:.1f},\"of_ceiling\":{:.3f}}}\n",
      x.name, settings.mode, settings.workers, count, settings.repeats, median(ours.rate),
      median(ceiling.rate), median(ours.rate) / median(ceiling.rate));
  std::fflush(stdout);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i], value = word.substr(word.find('=') + 1);
    if (word.starts_with("--case="))
      settings.only = value;
    else if (word.starts_with("--mode="))
      settings.mode = value;
    else if (word.starts_with("--repeats="))
      settings.repeats = std::atoi(value.c_str());
    else if (word.starts_with("--rows="))
      settings.rows = std::strtoul(value.c_str(), nullptr, 10);
    else if (word.starts_with("--workers="))
      settings.workers = static_cast<uint32_t>(std::atoi(value.c_str()));
    else {
      std::fprintf(stderr, "sandbox_bench: unknown option %s\n", argv[i]);
      std::exit(2);
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings = parse(argc, argv);
  for (const Case& x : k_cases)
    if (settings.only.empty() || settings.only == x.name) measure(x, settings);
}
