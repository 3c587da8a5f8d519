// The names of ROLL's and verl's metrics: the table of docs/telemetry.md is the code's, and a row
// has those that its config allows.
#include "actors/run/metric_names.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/source_path.hpp"

namespace cohort::actors {
namespace {

constexpr std::string_view k_begin = "<!-- metric names: begin -->\n";
constexpr std::string_view k_end = "<!-- metric names: end -->";

std::string markdown() {
  std::string out = "| system | its name | ours | only if |\n|---|---|---|---|\n";
  for (const MetricName& name : metric_names()) {
    std::string only_if;
    for (const MetricRequirement& requirement : metric_requirements())
      if ((name.only_if & requirement.bit) != 0)
        only_if += fmt::format("{}{}", only_if.empty() ? "" : "; ", requirement.text);
    out += fmt::format("| {} | `{}` | `{}` | {} |\n",
                       name.dialect == config::Dialect::roll ? "ROLL" : "verl", name.theirs,
                       name.ours, only_if);
  }
  return out;
}

// COHORT_UPDATE_GOLDEN=1 rewrites the table.
TEST(MetricNames, TheDocsTableIsTheCodes) {
  const std::string path = test::source_path("docs/telemetry.md");
  std::ostringstream stream;
  stream << std::ifstream(path).rdbuf();
  const std::string text = stream.str();
  const size_t begin = text.find(k_begin), end = text.find(k_end);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t first = begin + k_begin.size();
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text.substr(0, first) << markdown() << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(first, end - first), markdown())
      << "docs/telemetry.md is not the code's; run this test with COHORT_UPDATE_GOLDEN=1";
}

TEST(MetricNames, NoNameIsTwiceInASystem) {
  std::set<std::pair<config::Dialect, std::string_view>> seen;
  uint32_t bits = 0;
  for (const MetricRequirement& requirement : metric_requirements()) {
    EXPECT_EQ(bits & requirement.bit, 0U) << requirement.text;
    bits |= requirement.bit;
  }
  for (const MetricName& name : metric_names()) {
    EXPECT_TRUE(seen.emplace(name.dialect, name.theirs).second) << name.theirs;
    EXPECT_EQ(name.only_if & ~bits, 0U) << name.theirs;
    EXPECT_NE(name.theirs, name.ours);
  }
}

config::RunConfig rows_of(config::Dialect dialect) {
  config::RunConfig config;
  config.dialect = dialect;
  config.pipeline = config::Pipeline::rlvr;
  return config;
}

observe::MetricRow row_of(const config::RunConfig& config) {
  observe::MetricRow row(7);
  for (const MetricName& name : metric_names())
    if (name.ours != "step") row.set(name.ours, 0.25);
  row.set("actor/clipfrac", 0.125);
  add_names(metric_names_of(config), row);
  return row;
}

TEST(MetricNames, TheConfigsDialectDecides) {
  const observe::MetricRow verl = row_of(rows_of(config::Dialect::verl));
  EXPECT_EQ(verl.number("training/global_step"), 7);
  EXPECT_EQ(verl.number("critic/score/mean"), 0.25);
  EXPECT_EQ(verl.number("response_length/mean"), 0.25);
  EXPECT_EQ(verl.number("actor/pg_clipfrac"), 0.125);
  EXPECT_EQ(verl.number("token/response_length/mean"), std::nullopt);
  const observe::MetricRow roll = row_of(rows_of(config::Dialect::roll));
  EXPECT_EQ(roll.number("token/response_length/mean"), 0.25);
  EXPECT_EQ(roll.number("training/global_step"), std::nullopt);
  config::RunConfig asked = rows_of(config::Dialect::roll);
  asked.telemetry.metric_names = "verl";
  EXPECT_EQ(row_of(asked).number("training/global_step"), 7);
  asked.telemetry.metric_names = "cohort";
  EXPECT_TRUE(metric_names_of(asked).empty());
}

TEST(MetricNames, WhereTheMeaningDiffersThereIsNoName) {
  config::RunConfig config = rows_of(config::Dialect::verl);
  config.actor_train.pg_variant = catalog::PolicyLossKind::cispo;
  EXPECT_EQ(row_of(config).number("actor/pg_clipfrac"), std::nullopt);
  EXPECT_EQ(row_of(config).number("actor/reward_kl_penalty"), std::nullopt);
  config.add_token_level_kl = true;
  EXPECT_EQ(row_of(config).number("actor/reward_kl_penalty"), 0.25);
  EXPECT_EQ(row_of(config).number("timing_s/update_actor"), 0.25);
  config.derived.critic.optimizer_batch = 8;
  EXPECT_EQ(row_of(config).number("timing_s/update_actor"), std::nullopt);
  config.dynamic_sampling.filter.type = config::GroupFilter::std_filter;
  EXPECT_EQ(row_of(config).number("critic/score/mean"), std::nullopt);
  config.pipeline = config::Pipeline::agentic;
  EXPECT_EQ(row_of(config).number("response_length/mean"), std::nullopt) << "of many turns";
}

TEST(MetricNames, ANumberThatIsThereStays) {
  const auto names = metric_names_of(rows_of(config::Dialect::verl));
  observe::MetricRow row(1);
  row.set("critic/score/mean", 3);
  row.set("rollout/score/mean", 4);
  add_names(names, row);
  EXPECT_EQ(row.number("critic/score/mean"), 3);
  EXPECT_EQ(row.number("prompt_length/mean"), std::nullopt) << "the row has no length";
}

}  // namespace
}  // namespace cohort::actors
