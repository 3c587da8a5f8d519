// math_rule and gsm8k on one core: scores a second on answers as a policy writes them (a page of
// reasoning, then \boxed{} or ####), beside a plain comparison of the last characters with the
// ground truth and a read of every byte (memchr), in the same run.
//   scorer_bench [--repeats=9] [--rows=20000]
// Time is the processor's. One JSON line per case.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/tasks/rule_rewards.hpp"

namespace {

using namespace cohort;
using tasks::RewardRow;

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

struct Pair {
  const char* gold;
  const char* answer;
};

/// The mix of ROLL's math data: mostly numbers, then fractions and roots, some expressions.
constexpr Pair k_pairs[] = {{"204", "204"},
                            {"18", "\\$18"},
                            {"70000", "70,000"},
                            {"13535", "13536"},
                            {"-50", "-50"},
                            {"B", "\\text{B}"},
                            {"Yes", "No"},
                            {"\\frac{14}{3}", "\\dfrac{14}{3}"},
                            {"\\frac{3}{2}", "1.5"},
                            {"3\\sqrt{13}", "\\sqrt{117}"},
                            {"\\frac{3\\sqrt{3}}{4}", "\\frac{3\\sqrt{3}}{2}"},
                            {"\\left( 3, \\frac{\\pi}{2} \\right)", "(3, \\pi/2)"},
                            {"1 \\pm \\sqrt{19}", "1-\\sqrt{19}, 1+\\sqrt{19}"},
                            {"x^3+3x-6", "x(x^2+3)-6"},
                            {"90^\\circ", "90"},
                            {"[0, \\infty)", "x \\ge 0"}};

std::vector<RewardRow> rows_of(size_t count, bool is_boxed) {
  std::vector<RewardRow> rows;
  for (size_t i = 0; i < count; ++i) {
    const Pair& pair = k_pairs[i % std::size(k_pairs)];
    RewardRow row;
    row.response = "<think>\n";
    for (size_t k = 0; k < 12; ++k)
      row.response += fmt::format(
          "Step {}: from $x_{{{}}} = \\frac{{{}}}{{{}}}$ we see that the sum grows, so we go on.\n",
          k, k, i + k, k + 2);
    row.response += is_boxed ? fmt::format("</think>\nThe answer is $\\boxed{{{}}}$.", pair.answer)
                             : fmt::format("</think>\n#### {}", i % 1000);
    row.ground_truth = is_boxed ? pair.gold : std::to_string(i % 1000);
    rows.push_back(std::move(row));
  }
  return rows;
}

template <class Work>
double seconds(Work&& work) {
  std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

size_t compare_plainly(const std::vector<RewardRow>& rows) {
  size_t right = 0;
  for (const RewardRow& row : rows) right += row.response.ends_with(row.ground_truth) ? 1 : 0;
  return right;
}

size_t read_all(const std::vector<RewardRow>& rows) {
  size_t found = 0;
  for (const RewardRow& row : rows)
    found += std::memchr(row.response.data(), '\x01', row.response.size()) != nullptr ? 1 : 0;
  return found;
}

void measure(const char* rule, const std::vector<RewardRow>& rows, int repeats) {
  auto reward = tasks::make_rule_reward(rule);
  COHORT_CHECK(reward.has_value(), reward.error().to_string());
  std::vector<double> scoring, reading, comparing;
  double right = 0;
  size_t bytes = 0, sink = 0;
  for (const RewardRow& row : rows) bytes += row.response.size();
  for (int i = 0; i <= repeats; ++i) {  // the first is to warm up
    double s = seconds([&] {
      right = 0;
      for (const auto& result : (*reward)->score(rows)) right += result.score;
    });
    double r = seconds([&] { sink += read_all(rows); });
    double c = seconds([&] { sink += compare_plainly(rows); });
    if (i == 0) continue;
    scoring.push_back(s);
    reading.push_back(r);
    comparing.push_back(c);
  }
  auto n = static_cast<double>(rows.size());
  COHORT_CHECK(right > 0 && sink < bytes, "the rows are as they were made");
  fmt::print(
      "{{\"bench\":\"scorer\",\"case\":\"{}\",\"n\":{},\"rows\":{},\"bytes_per_row\":{:.0f},"
      "\"right\":{:.4f},\"scores_per_s\":{:.0f},\"us_per_score\":{:.3f},\"read_us\":{:.3f},"
      "\"plain_compare_us\":{:.3f},\"ratio_to_read\":{:.1f}}}\n",
      rule, repeats, rows.size(), static_cast<double>(bytes) / n, right / n, n / median(scoring),
      median(scoring) / n * 1e6, median(reading) / n * 1e6, median(comparing) / n * 1e6,
      median(scoring) / std::max(median(reading), 1e-9));
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 9;
  size_t rows = 20000;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--repeats=", 10) == 0)
      repeats = std::max(1, std::atoi(argv[i] + 10));
    if (std::strncmp(argv[i], "--rows=", 7) == 0)
      rows = static_cast<size_t>(std::max(16, std::atoi(argv[i] + 7)));
  }
  measure("math_rule", rows_of(rows, true), repeats);
  measure("gsm8k", rows_of(rows, false), repeats);
}
