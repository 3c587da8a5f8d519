// Policy losses and corrections against numbers of tools/golden/make_loss_cases.py, which computes
// them token by token in Python: in f64 within 1e-6, in f32, what a run computes in, within 1e-5.
// NaN stands behind every mask; rows without a sampled token are among the batches.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "runtime/catalog/catalog.hpp"
#include "tests/support/source_path.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

Json cases() {
  std::ifstream file(test::source_path("tests/golden/data/loss_cases.json"));
  return Json::parse(file);
}

/// The largest distance, and where; what is missing is infinitely far.
double distance(const Json& expected, const Json& found) {
  if (expected.is_array() || expected.is_object()) {
    double worst = 0;
    for (const auto& [key, value] : expected.items()) {
      const auto at = expected.is_object() ? found.find(key) : found.begin() + std::stol(key);
      if (at == found.end()) return INFINITY;
      worst = std::max(worst, distance(value, *at));
    }
    return expected.size() <= found.size() ? worst : INFINITY;
  }
  const double gap = std::abs(expected.get<double>() - found.get<double>());
  return std::isnan(gap) ? INFINITY : gap / (1 + std::abs(expected.get<double>()));
}

void expect_all(Precision precision, double tolerance) {
  size_t count = 0;
  for (const Json& object : cases()) {
    Case in(object, precision);
    const Expected<Json> found = outputs_of(in);
    ASSERT_TRUE(found) << in.id() << ": " << found.error().detail;
    EXPECT_LE(distance(object["outputs"], *found), tolerance) << in.id() << found->dump();
    ++count;
  }
  EXPECT_GE(count, 65U);
}

TEST(LossCases, AgreeInF64) { expect_all(Precision::f64, 1e-6); }
TEST(LossCases, AgreeInF32) { expect_all(Precision::f32, 1e-5); }

TEST(LossCases, CoverEveryPolicyLoss) {
  std::set<std::string> seen;
  for (const Json& object : cases())
    if (object["kind"] == "policy_loss") seen.insert(object["params"]["loss"].get<std::string>());
  for (const catalog::Entry& row : catalog::entries(catalog::PolicyLossKind{})) {
    if (!row.is_built || row.id == "cispo_cap") continue;  // TRL's cispo
    const auto names = catalog::words(row.verl.empty() ? row.roll : row.verl);
    const bool is_there = row.id == "prime_rl" ? seen.contains("dppo_kl_prime")
                                               : seen.contains(std::string(names.front()));
    EXPECT_TRUE(is_there) << row.id << ": give it a case";
  }
}

TEST(LossCases, AMistakeIsNamed) {
  auto error_of = [](const char* params) {
    const Json object{{"id", "x"},
                      {"kind", "policy_loss"},
                      {"params", Json::parse(params)},
                      {"inputs", {{"mask", {{1}}}, {"log_probs", {{-1}}}}}};
    Case in(object, Precision::f64);
    const auto found = outputs_of(in);
    return found ? std::string() : found.error().detail;
  };
  EXPECT_NE(error_of(R"({"loss": "ppa", "loss_agg_mode": "token-mean"})").find("ppa"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"loss": "gpg", "loss_agg_mode": "token-mean"})").find("old_log_probs"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort::evaluate
