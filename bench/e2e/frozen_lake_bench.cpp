// frozen_lake_bench [CONFIG [key=value …]]: runs the whole node on the FrozenLake configuration and
// prints one JSON line: seconds per phase, tokens/s of generation and training as shares of the
// matrix-product ceiling measured in the same run (before and after, so that a noisy host shows),
// trajectories/s, the orchestrator's share of a step, and control_ms: what of a step is neither
// generation (to the last record in the stream), update nor evaluation, so that nothing but phases
// and the publish go on. Medians over the steps of the run (the first is warm-up). actor-node is
// the one beside this program, or in COHORT_BIN_DIR; "--processes 2" before key=value has the cards
// in processes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "tests/support/child_process.hpp"

namespace {

struct Quantiles {
  double median = 0, mad = 0, p99 = 0;
  size_t n = 0;
};

Quantiles quantiles(std::vector<double> x) {
  if (x.empty()) return {};
  std::sort(x.begin(), x.end());
  Quantiles q{x[x.size() / 2], 0, x[std::min(x.size() - 1, x.size() * 99 / 100)], x.size()};
  std::vector<double> deviations;
  for (double value : x) deviations.push_back(std::abs(value - q.median));
  std::sort(deviations.begin(), deviations.end());
  q.mad = deviations[deviations.size() / 2];
  return q;
}

nlohmann::json to_json(const Quantiles& q) {
  return {{"median", q.median}, {"mad", q.mad}, {"p99", q.p99}, {"n", q.n}};
}

double memcpy_gb_per_s() {
  std::vector<char> from(64 << 20, 1);
  std::vector<char> to(64 << 20, 2);
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    double start = cohort::now_seconds();
    std::memcpy(to.data(), from.data(), from.size());
    best = std::max(best, static_cast<double>(from.size()) / (cohort::now_seconds() - start) / 1e9);
  }
  return best;
}

// Weights that multiply each token once, for the default policy (d 64, 2 layers, ffn 192, GQA 8/4 x
// 16), without embedding look-up, attention scores and the output head: a floor of the work, so the
// shares are floors too.
constexpr double k_matrix_weights = 2 * (64 * 256 + 64 * 128 + 3 * 64 * 192);

std::vector<double> column(const std::vector<nlohmann::json>& rows, const char* name) {
  std::vector<double> values;
  for (const auto& row : rows)
    if (row.contains(name) && row[name].is_number()) values.push_back(row[name].get<double>());
  return values;
}

nlohmann::json summarise(const std::vector<nlohmann::json>& rows, double gflops) {
  nlohmann::json out;
  for (const char* name : {"time/generate_s", "time/update_s", "time/publish_s", "time/placement_s",
                           "time/evaluate_s", "time/step_s", "orchestrator_share",
                           "generate_tokens_per_s", "train_tokens_per_s", "tokens_per_s"})
    out[name] = to_json(quantiles(column(rows, name)));
  std::vector<double> rate, control;
  for (const auto& row : rows) {
    if (row.contains("val/success")) continue;
    auto seconds = [&row](const char* name) { return row.at(name).get<double>(); };
    rate.push_back(512 / seconds("time/step_s"));
    control.push_back(
        1e3 * (seconds("time/step_s") - seconds("time/generate_s") - seconds("time/update_s")));
  }
  out["trajectories_per_s"] = to_json(quantiles(rate));
  out["control_ms"] = to_json(quantiles(control));
  double cores = std::thread::hardware_concurrency();
  double ceiling = gflops * 1e9 * cores;
  out["generate_share_of_gemm"] =
      quantiles(column(rows, "generate_tokens_per_s")).median * 2 * k_matrix_weights / ceiling;
  out["train_share_of_gemm"] =
      quantiles(column(rows, "train_tokens_per_s")).median * 6 * k_matrix_weights / ceiling;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  using cohort::test::Process;
  cohort::test::TempFolder folder;
  std::vector<std::string> command = {cohort::test::binary("actor-node"), "run",
                                      argc > 1 ? argv[1] : "configs/frozen_lake.yaml", "--plain",
                                      "output_dir=" + folder.path().string()};
  for (int i = 2; i < argc; ++i) command.emplace_back(argv[i]);
  double before = cohort::compute::measured_gemm_gflops();
  double copy = memcpy_gb_per_s();
  double start = cohort::now_seconds();
  Process run(command, folder);
  int code = run.wait(600000);
  double seconds = cohort::now_seconds() - start;
  double after = cohort::compute::measured_gemm_gflops();
  if (code != 0) {
    std::fprintf(stderr, "actor-node exited with %d: %s\n", code, run.err().c_str());
    return 1;
  }
  std::string out = run.out();
  size_t at = out.rfind("run: ");
  std::string path = out.substr(at + 5, out.find('\n', at) - at - 5);
  std::ifstream in(path + "/metrics.jsonl");
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);)
    if (auto row = nlohmann::json::parse(line); row.at("step").get<uint64_t>() > 1)
      rows.push_back(row);
  nlohmann::json result = summarise(rows, std::max(before, after));
  result["bench"] = "e2e/frozen_lake";
  result["cores"] = std::thread::hardware_concurrency();
  result["gemm_gflops_one_thread"] = {before, after};
  result["memcpy_gb_per_s"] = copy;
  result["run_seconds"] = seconds;
  result["steps"] = rows.size();
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
