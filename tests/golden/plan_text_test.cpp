/// The page of `actor-node plan`, whole; COHORT_UPDATE_GOLDEN=1 rewrites it.
#include "tools/actor-node/plan_text.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/child_process.hpp"
#include "tests/support/config_text.hpp"

namespace cohort {
namespace {

constexpr std::string_view k_begin =
    "<!-- page: begin (COHORT_UPDATE_GOLDEN=1 rewrites) -->\n```text\n";
constexpr std::string_view k_end = "```\n<!-- page: end -->\n";
constexpr const char* k_how = "; run this test with COHORT_UPDATE_GOLDEN=1 and read the diff";

bool is_update() { return std::getenv("COHORT_UPDATE_GOLDEN") != nullptr; }

std::string page_of(const std::string& config, const PageStyle& style) {
  PlanInput input;
  input.config_path = test::source_path(config);
  auto job = plan_input(input);
  EXPECT_TRUE(job) << job.error().detail;
  return job ? plan_text(*job, config, style) : "";
}

TEST(PlanText, PageOfTheDocs) {
  std::string page = page_of("tests/data/seed_configs/agentic_frozen_lake_npu.yaml", {});
  std::string path = test::source_path("docs/plan.md"), text = test::slurp(path);
  size_t begin = text.find(k_begin), end = text.find(k_end);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  begin += k_begin.size();
  if (is_update()) {
    std::ofstream(path) << text.substr(0, begin) << page << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), page) << path << k_how;
}

TEST(PlanText, MultiNodeSeedOnANarrowTerminalInAscii) {
  PageStyle style;
  style.width = 80;
  style.is_utf8 = false;
  std::string page = page_of("tests/data/seed_configs/rlvr_npu_multinode.yaml", style);
  std::string path = test::source_path("tests/golden/data/plan_multinode_80.txt");
  if (is_update())
    std::ofstream(path) << page;
  else
    EXPECT_EQ(page, test::slurp(path)) << path << k_how;
}

TEST(PlanText, ToolsTakeNoCard) {
  const std::string page = page_of("configs/tool_arithmetic.yaml", {});
  EXPECT_NE(page.find("tools.python in 2 children, 5 s a call at most"), std::string::npos) << page;
}

}  // namespace
}  // namespace cohort
