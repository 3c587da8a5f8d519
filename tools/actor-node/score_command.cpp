#include "tools/actor-node/score_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "runtime/base/clock.hpp"

namespace cohort {
namespace {

using tasks::RewardResult;
using tasks::RewardRow;

/// Takes portions of the rows until there are none left.
class Portions {
 public:
  Portions(tasks::Reward& reward, const std::vector<InputRow>& rows, size_t portion)
      : reward_(reward), portion_(portion), results_(rows.size()) {
    for (const InputRow& row : rows) rows_.push_back(row.row);
  }

  void work() {
    for (size_t first; (first = next_.fetch_add(portion_)) < rows_.size();) {
      size_t count = std::min(portion_, rows_.size() - first);
      auto found = reward_.score(std::span(rows_).subspan(first, count));
      std::move(found.begin(), found.end(), results_.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  std::vector<RewardResult> take() { return std::move(results_); }

 private:
  tasks::Reward& reward_;
  size_t portion_;
  std::vector<RewardRow> rows_;
  std::vector<RewardResult> results_;
  std::atomic<size_t> next_{0};
};

void print_summary(const std::vector<InputRow>& rows, const std::vector<RewardResult>& results,
                   double seconds) {
  double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
  size_t scored = 0;
  const RewardResult* first = nullptr;
  std::string where;
  for (size_t i = 0; i < results.size(); ++i) {
    const RewardResult& x = results[i];
    if (!x.error.empty()) {
      if (first == nullptr) first = &x, where = rows[i].row.id;
      continue;
    }
    ++scored;
    sum += x.score;
    low = std::min(low, x.score);
    high = std::max(high, x.score);
  }
  fmt::print(stderr, "rows {}, scored {}, without a score {}", results.size(), scored,
             results.size() - scored);
  if (scored > 0)
    fmt::print(stderr, "; mean {:.6g}, min {:g}, max {:g}", sum / static_cast<double>(scored), low,
               high);
  fmt::print(stderr, "; {:.2f} s, {:.0f} rows/s\n", seconds,
             static_cast<double>(results.size()) / std::max(seconds, 1e-9));
  if (first != nullptr) fmt::print(stderr, "first without a score: {}: {}\n", where, first->error);
}

bool write_lines(std::FILE* file, const std::vector<InputRow>& rows,
                 const std::vector<RewardResult>& results) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string line = score_line(rows[i], results[i]) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), file) != line.size()) return false;
  }
  return std::fflush(file) == 0;
}

Expected<void> write_out(const std::string& path, const std::vector<InputRow>& rows,
                         const std::vector<RewardResult>& results) {
  std::FILE* file = path.empty() ? stdout : std::fopen(path.c_str(), "w");
  bool is_written = file != nullptr && write_lines(file, rows, results);
  if (file != nullptr && file != stdout) is_written = std::fclose(file) == 0 && is_written;
  if (is_written) return {};
  return Error{Errc::io, fmt::format("{}: cannot be written", path.empty() ? "stdout" : path)};
}

Expected<int> score(const ScoreCommand& command) {
  COHORT_ASSIGN(plugin::PluginSpec spec, spec_of(command.words));
  COHORT_ASSIGN(std::vector<InputRow> rows, read_input_rows(command.rows));
  COHORT_ASSIGN(std::shared_ptr<tasks::Reward> reward, plugin::open_reward(spec));
  const double begin = now_seconds();
  auto results = score_rows(*reward, rows, command.portion);
  const double seconds = now_seconds() - begin;
  COHORT_TRY(write_out(command.out, rows, results));
  print_summary(rows, results, seconds);
  return std::all_of(results.begin(), results.end(), [](auto& x) { return x.error.empty(); }) ? 0
                                                                                              : 1;
}

}  // namespace

std::vector<RewardResult> score_rows(tasks::Reward& reward, const std::vector<InputRow>& rows,
                                     uint32_t portion) {
  Portions portions(reward, rows, std::max(portion, uint32_t{1}));
  std::vector<std::thread> helpers;
  for (uint32_t i = 1; i < reward.concurrency(); ++i)
    helpers.emplace_back([&] { portions.work(); });
  portions.work();
  for (std::thread& helper : helpers) helper.join();
  return portions.take();
}

std::string score_line(const InputRow& row, const RewardResult& result) {
  nlohmann::ordered_json line{{"row", row.line}, {"id", row.row.id}};
  line["score"] = nullptr;
  if (result.error.empty()) line["score"] = result.score;
  line["parts"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : result.parts) line["parts"][name] = value;
  line["detail"] = result.detail;
  line["error"] = result.error;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

CLI::App* add_score_command(CLI::App& app, ScoreCommand& command) {
  CLI::App* score = app.add_subcommand("score", "try a reward on rows, without a run");
  add_reward_options(*score, command.words, "reward");
  score->add_option("rows", command.rows, "JSON lines with response, ground_truth, further columns")
      ->required();
  score->add_option("--out", command.out, "file to write (default: stdout)");
  score->add_option("--batch", command.portion, "rows of one call to the reward")
      ->capture_default_str();
  score->footer("Exit codes: 0 each row has a score, 1 some have none, 2 nothing was scored.");
  return score;
}

int score_command(const ScoreCommand& command) {
  auto code = score(command);
  if (code) return *code;
  fmt::print(stderr, "error: {}\n", code.error().detail);
  return 2;
}

}  // namespace cohort
