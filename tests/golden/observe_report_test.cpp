/// report.html: well-formed, self-contained, nothing from outside unescaped.
#include <gtest/gtest.h>

#include "runtime/observe/report.hpp"
#include "tests/support/html_check.hpp"
#include "tests/support/observe_files.hpp"
#include "tests/support/observe_sample.hpp"

namespace cohort::observe {
namespace {

using sample::count_of;
using sample::tag_fault;

TEST(Report, IsWellFormed) {
  EXPECT_EQ(tag_fault(render_report(sample::report())), "");
  EXPECT_EQ(tag_fault(render_report(ReportData{})), "");
  EXPECT_NE(tag_fault("<p><b></p>"), "");
}

TEST(Report, ObsFiveNamesNoAddressOutside) {
  std::string page = render_report(sample::report());
  for (const char* fetch : {"http:", "https:", "src=", "url(", "@import", "fetch(", "XMLHttp"})
    EXPECT_EQ(page.find(fetch), std::string::npos) << fetch;
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(Report, ObsFourEscapesWhatComesFromOutside) {
  ReportData data = sample::report();
  const std::string k_attack = "<script>alert('x')</script>\"'&";
  data.title = data.status = data.summary = data.config_text = k_attack;
  data.facts = data.headlines = {{k_attack, k_attack}};
  data.references = {{k_attack, 0.5}};
  data.train_reward.name = k_attack;
  data.charts[0].title = data.charts[0].note = data.charts[0].y_unit = k_attack;
  data.charts[0].series[0].name = k_attack;
  data.charts[0].series.push_back(data.charts[0].series[0]);
  for (auto& card : data.cards) card.role = k_attack;
  for (auto& span : data.compute) span.phase = k_attack;
  for (auto& move : data.transitions) move.object = move.phase = move.from = k_attack;
  for (auto& times : data.step_times) times.phases[0].first = k_attack;
  data.events = {{1, 1, k_attack, k_attack}};
  auto& trajectory = data.trajectories[0];
  trajectory.title = trajectory.kind = trajectory.stop_reason = k_attack;
  trajectory.turns[0].observation += k_attack;
  trajectory.turns[1].observation = k_attack;
  trajectory.turns[0].tokens[0].text = k_attack;
  trajectory.turns[1].tokens.clear();
  trajectory.turns[1].answer = k_attack;
  std::string page = render_report(data);
  EXPECT_EQ(count_of(page, "<script"), 1U);  // ours
  EXPECT_EQ(page.find("alert('x')"), std::string::npos);
  EXPECT_EQ(tag_fault(page), "");
}

TEST(Report, EveryPartIsThere) {
  std::string page = render_report(sample::report());
  for (const char* id :
       {"learning", "training", "phases", "memory", "trajectories", "events", "config"})
    EXPECT_EQ(count_of(page, fmt::format("<section id=\"{}\">", id)), 1U) << id;
  EXPECT_NE(page.find("46.1% <span>→</span> 80.1%"), std::string::npos);
  EXPECT_NE(page.find("<b class=\"hole\">O</b>"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(Report, SparseDataLeavesNoEmptyCharts) {
  ReportData data;
  data.title = "early failure";
  data.evaluations = {{0, 0, 0.46, k_not_measured}};
  data.compute = {{1, 0, "generate", 2, 2}};
  data.step_times = {{1, {}}};
  data.charts = {{"empty", "", AxisFormat::number, "", {{"none", {{1, k_not_measured}}}}, {}}};
  std::string page = render_report(data);
  EXPECT_EQ(tag_fault(page), "");
  EXPECT_NE(page.find("id=\"learning\""), std::string::npos);
  for (const char* id : {"training", "phases", "memory", "trajectories"})
    EXPECT_EQ(page.find(fmt::format("<section id=\"{}\">", id)), std::string::npos) << id;
}

TEST(Report, IsReplacedInOneMove) {
  sample::TemporaryFolder folder;
  auto path = folder / "deeper/report.html";
  ASSERT_TRUE(write_report(path, sample::report()).has_value());
  ASSERT_TRUE(write_report(path, sample::report()).has_value());
  EXPECT_EQ(sample::read_all(path), render_report(sample::report()));
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "deeper"))
    ++files;
  EXPECT_EQ(files, 1U);
  EXPECT_EQ(write_report("/proc/none/report.html", {}).error().code, Errc::not_found);
}

}  // namespace
}  // namespace cohort::observe
