/// /metrics of a made-up run, byte by byte. Python's prometheus_client 0.26 reads the file.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "runtime/observe/prometheus.hpp"
#include "tests/support/dashboard_sample.hpp"
#include "tests/support/observe_files.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/source_path.hpp"

namespace cohort::observe {
namespace {

TEST(Prometheus, TheSameDataGivesTheSameBytes) {
  Board board;
  sample::publish_run(board, 12);
  board.set_cluster(sample::cluster());
  const std::string text = prometheus_text(board.data(), 1001);
  EXPECT_EQ(test::read_prometheus(text).fault, "");
  sample::expect_golden("dashboard_metrics.txt", text);
}

// Every metric that the Grafana dashboard asks for is one that /metrics has.
TEST(Prometheus, TheGrafanaDashboardAsksForWhatIsThere) {
  Board board;
  sample::publish_run(board, 12);
  board.set_cluster(sample::cluster());
  const std::string text = prometheus_text(board.data(), 1001);
  std::ifstream file(cohort::test::source_path("configs/grafana/cohort.json"));
  const nlohmann::json dashboard = nlohmann::json::parse(file);
  const std::regex name("cohort_[a-z0-9_]+");
  size_t asked = 0;
  for (const auto& panel : dashboard.at("panels"))
    for (const auto& target : panel.at("targets")) {
      const std::string query = target.at("expr");
      for (std::sregex_iterator each(query.begin(), query.end(), name), end; each != end; ++each) {
        ++asked;
        const std::string wanted = "# TYPE " + each->str() + " ";
        EXPECT_NE(text.find(wanted), std::string::npos)
            << panel.at("title") << " asks for " << each->str();
      }
    }
  EXPECT_GE(asked, 16U);
}

}  // namespace
}  // namespace cohort::observe
