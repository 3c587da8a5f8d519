/// report.html: well-formed, self-contained, nothing from outside unescaped.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "runtime/observe/report.hpp"
#include "tests/support/observe_files.hpp"
#include "tests/support/observe_sample.hpp"

namespace cohort::observe {
namespace {

/// Returns "" if every tag is closed in order, else what is wrong first.
std::string tag_fault(const std::string& page) {
  const std::set<std::string> k_void = {"meta", "link", "br", "hr", "img", "input"};
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end;
    if (tag.starts_with("!")) continue;
    std::string name = tag.substr(0, tag.find_first_of(" /\n", tag.starts_with("/") ? 1 : 0));
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != name.substr(1))
        return "<" + tag + "> closes " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
    } else if (!tag.ends_with("/") && !k_void.contains(name)) {
      open.push_back(name);
    }
    if (name == "script" || name == "style") at = page.find("</" + name, at);
  }
  return open.empty() ? "" : "left open: " + open.back();
}

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

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
