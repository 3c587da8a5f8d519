/// /metrics of a made-up run, byte by byte. Python's prometheus_client 0.26 reads the file.
#include <gtest/gtest.h>

#include "runtime/observe/prometheus.hpp"
#include "tests/support/dashboard_sample.hpp"
#include "tests/support/observe_files.hpp"
#include "tests/support/prometheus_text.hpp"

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

}  // namespace
}  // namespace cohort::observe
