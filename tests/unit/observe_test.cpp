#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/observe/html.hpp"
#include "runtime/observe/metrics.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_data.hpp"
#include "runtime/observe/svg_chart.hpp"
#include "runtime/observe/tensorboard.hpp"
#include "runtime/observe/terminal.hpp"

namespace cohort::observe {
namespace {

TEST(MetricRow, JsonKeepsOrderAndShortestDoubles) {
  MetricRow row(3);
  row.set("reward/mean", 0.1);
  row.set("param_hash", "00ff \"x\"\n");
  row.set("loss", std::nan(""));
  row.set("big", 1e300);
  row.set("tokens", 40960.0);
  row.set("reward/mean", 0.2);
  EXPECT_EQ(row.to_json(), R"({"step":3,"reward/mean":0.2,"param_hash":"00ff \"x\"\n",)"
                           R"("loss":null,"big":1e+300,"tokens":40960})");
}

TEST(MetricRow, DoublesReadBackToTheSameBits) {
  MetricRow row(18446744073709551615ULL);
  row.set("a", 0.1 + 0.2);
  row.set("b", std::numeric_limits<double>::denorm_min());
  row.set("c", -1.0 / 3);
  auto back = MetricRow::from_json(row.to_json());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, row);
}

TEST(MetricRow, InfinityIsNullAndBadUtf8IsReplaced) {
  MetricRow row(1);
  row.set("inf", std::numeric_limits<double>::infinity());
  row.set("text", std::string("a\xff"));
  auto json = nlohmann::json::parse(row.to_json());
  EXPECT_TRUE(json["inf"].is_null());
  EXPECT_EQ(json["text"], "a\xEF\xBF\xBD");
}

TEST(MetricRow, FromJsonRefusesWhatIsNoRow) {
  for (const char* line : {"", "{", "[1]", "{}", R"({"step":"1"})", R"({"step":-1})"})
    EXPECT_EQ(MetricRow::from_json(line).error().code, Errc::corrupt) << line;
}

TEST(Progress, NumbersForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(64 << 20), "64 MiB");
  EXPECT_EQ(format_bytes((1ULL << 30) - 1), "1 GiB");
  EXPECT_EQ(format_bytes(~0ULL), "16 EiB");
  EXPECT_EQ(format_duration(0.0004), "0.4 ms");
  EXPECT_EQ(format_duration(0.83), "830 ms");
  EXPECT_EQ(format_duration(12.34), "12.3 s");
  EXPECT_EQ(format_duration(245), "4m 05s");
  EXPECT_EQ(format_duration(7620), "2h 07m");
  EXPECT_EQ(format_duration(-1), "-");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(81240), "81.2k");
  EXPECT_EQ(format_count(999999), "1.0M");
  EXPECT_EQ(format_number(0.00312), "0.00312");
  EXPECT_EQ(format_number(static_cast<double>(-0.01F)), "-0.0100");
  EXPECT_EQ(format_number(0.712), "0.712");
  EXPECT_EQ(format_number(12345), "12345");
  EXPECT_EQ(format_number(3e-5), "3.0e-05");
  EXPECT_EQ(format_percent(0.719), "71.9%");
  EXPECT_EQ(format_percent(std::nan("")), "-");
}

TEST(EtaEstimator, OneLongPauseCountsAtMostFourMedians) {
  EtaEstimator eta;
  eta.start(0);
  EXPECT_FALSE(eta.remaining_seconds(10, 0).has_value());
  double now_s = 0;
  for (int step = 0; step < 9; ++step) eta.step_done(now_s += 1);
  eta.step_done(now_s += 3600);
  EXPECT_DOUBLE_EQ(*eta.step_seconds(), 1.3);
  EXPECT_DOUBLE_EQ(*eta.remaining_seconds(10, now_s + 0.5), 12.5);
  EXPECT_DOUBLE_EQ(*eta.remaining_seconds(0, now_s), 0);
}

TEST(Crc32c, KnownAnswers) {  // RFC 3720 B.4
  std::vector<std::byte> zeros(32);
  EXPECT_EQ(crc32c(zeros), 0x8a9136aaU);
  std::vector<std::byte> ones(32, std::byte{0xff});
  EXPECT_EQ(crc32c(ones), 0x62a8ab43U);
}

TEST(Terminal, FitCountsCellsNotBytes) {
  EXPECT_EQ(cell_count("\x1b[31m√a\x1b[0m"), 2U);
  EXPECT_EQ(fit("abcdef", 4), "abc…");
  EXPECT_EQ(fit("\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mab…\x1b[0m");
  EXPECT_EQ(printable("a\x1b[2Jb\n"), "a [2Jb ");
  EXPECT_EQ(bar(0.5, 4), "██░░");
  EXPECT_EQ(bar(std::nan(""), 2), "░░");
}

TEST(EscapeHtml, NothingGetsThrough) {
  EXPECT_EQ(escape_html("<a href='x' title=\"&\">"),
            "&lt;a href=&#39;x&#39; title=&quot;&amp;&quot;&gt;");
  EXPECT_EQ(escape_html("\xc0\x80|\xed\xa0\x80|\x01|√"),
            "\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD|√");
}

TEST(Axis, TicksAreRoundAndInside) {
  Axis axis = make_axis(0.13, 0.87, 4, AxisFormat::percent, true);
  EXPECT_EQ(axis.labels, (std::vector<std::string>{"0%", "20%", "40%", "60%", "80%", "100%"}));
  Axis flat = make_axis(5, 5, 4, AxisFormat::number, true);
  EXPECT_LT(flat.low, 5);
  EXPECT_GT(flat.high, 5);
  Axis steps = make_step_axis(1, 3, 10);
  EXPECT_EQ(steps.labels, (std::vector<std::string>{"1", "2", "3"}));
  Axis tiny = make_axis(0, 4e-5, 4, AxisFormat::number, true);
  EXPECT_EQ(tiny.labels.back(), "4e-5");
}

TEST(StandardCharts, FindMetricsUnderAnyFolder) {
  MetricRow row(1);
  row.set("actor/lr", 1e-3);
  row.set("critic/entropy/mean", 0.4);
  row.set("val/entropy", 9.0);
  auto charts = standard_charts(std::vector<MetricRow>{row});
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts[0].title, "entropy");
  EXPECT_DOUBLE_EQ(charts[0].series[0].points[0].y, 0.4);
  EXPECT_EQ(charts[1].title, "learning rate");
}

TEST(StepTimes, AreTheTimeMetricsButTheWhole) {
  MetricRow row(4);
  row.set("time/generate_s", 0.5);
  row.set("time/step_s", 0.9);
  row.set("time/other", 1.0);
  auto times = step_times_of(std::vector<MetricRow>{row});
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].phases, (std::vector<std::pair<std::string, double>>{{"generate", 0.5}}));
}

}  // namespace
}  // namespace cohort::observe
