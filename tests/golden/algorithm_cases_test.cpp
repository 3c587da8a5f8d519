// What `actor-node evaluate` computes equals what tools/golden/make_algorithm_cases.py computed
// from the equations, in f64 and in f32, with NaN and infinities behind every mask.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "runtime/catalog/catalog.hpp"
#include "tools/actor-node/evaluate/case_file.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"
#include "tools/actor-node/evaluate_command.hpp"

namespace cohort::evaluate {
namespace {

const std::string k_file =
    std::string(std::getenv("COHORT_SOURCE_DIR")) + "/tests/golden/data/algorithm_cases.json";

/// Appends the numbers of nested lists, in order.
void flatten(const Json& value, std::vector<double>& out) {
  if (value.is_array())
    for (const Json& part : value) flatten(part, out);
  else
    out.push_back(value.get<double>());
}

void expect_near(const Json& got, const Json& wanted, double tolerance, const std::string& where) {
  std::vector<double> a, b;
  flatten(got, a);
  flatten(wanted, b);
  ASSERT_EQ(a.size(), b.size()) << where;
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << where << " number " << i;
}

void check_cases(Precision precision, double tolerance) {
  const Json cases = read_cases(k_file).value();
  ASSERT_GT(cases.size(), 70U);
  for (const Json& object : cases) {
    Case in(object, precision);
    const Expected<Json> outputs = outputs_of(in);
    ASSERT_TRUE(outputs.has_value()) << in.id() << ": " << outputs.error().detail;
    for (const auto& [name, wanted] : object["outputs"].items()) {
      ASSERT_TRUE(outputs->contains(name)) << in.id() << " lacks " << name;
      expect_near((*outputs)[name], wanted, tolerance, in.id() + " " + name);
    }
  }
}

TEST(AlgorithmCases, EqualTheEquationsInF64) { check_cases(Precision::f64, 1e-6); }
TEST(AlgorithmCases, EqualTheEquationsInF32) { check_cases(Precision::f32, 1e-5); }

// A reader of a table of the catalogue finds a case for every estimator that runs.
TEST(AlgorithmCases, HaveEveryEstimatorThatIsBuilt) {
  std::set<std::string> there;
  const Json cases = read_cases(k_file).value();
  for (const Json& object : cases)
    if (object["kind"] == "advantage")
      there.insert(object["params"]["estimator"].get<std::string>());
  for (const catalog::Entry& row : catalog::entries(catalog::AdvEstimator{}))
    EXPECT_TRUE(!row.is_built || there.contains(std::string(row.id))) << row.id;
}

std::string problem_of(const char* text) {
  Case in(Json::parse(text), Precision::f64);
  const Expected<Json> outputs = outputs_of(in);
  return outputs ? "none" : outputs.error().detail;
}

TEST(AlgorithmCases, SayWhatIsWrong) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(problem_of(R"({"kind": "advantages"})"), "kind 'advantages' is unknown; known: whiten");
  has(problem_of(R"({"kind": "advantage", "params": {"estimator": "gppo"}})"),
      "estimator 'gppo' is unknown; known: gae, grpo");
  has(problem_of(R"({"kind": "whiten", "params": {"shift": true},
                     "inputs": {"values": [[1]], "mask": [[1]]}})"),
      "'shift' is unknown here; known: shift_mean");
  has(problem_of(R"({"kind": "whiten", "inputs": {"values": [[1, 2], [3]], "mask": [[1]]}})"),
      "'values' has rows of 2 and of 1 entries");
  has(problem_of(R"({"kind": "whiten", "inputs": {"values": [[1, "x"]], "mask": [[1, 1]]}})"),
      "'values' holds \"x\" in the place of a number");
  has(problem_of(R"({"kind": "advantage", "params": {"estimator": "grpo"}, "inputs":
                     {"token_rewards": [["NaN"]], "mask": [[1]], "group": [0]}})"),
      "reward 0 is not finite");
}

/// A file of cases, written for a test.
std::string file_of(const std::string& text) {
  std::string path = testing::TempDir() + "algorithm_cases_test.json";
  std::ofstream(path) << text;
  return path;
}

TEST(CaseFile, SaysWhereANumberIsTooLargeOrTheNestingTooDeep) {
  const auto problem = [](const std::string& text) {
    const auto cases = read_cases(file_of(text));
    return cases ? "none" : cases.error().detail;
  };
  EXPECT_NE(problem("[{\"x\":\n [NaN, 1e400]}]").find("'1e400' at line 2, column 8"),
            std::string::npos);
  const std::string deep = problem("[" + std::string(100000, '[') + std::string(100000, ']') + "]");
  EXPECT_NE(deep.find("more than 64 arrays and objects in each other"), std::string::npos);
  EXPECT_EQ(problem(R"([{"id": "[[[[ {{"}])"), "none");
}

TEST(CaseFile, ACaseWithoutAnIdHasItsIndex) {
  const std::string path = file_of(R"([{"kind": "x"}, {"id": 7, "kind": "x"}, {"id": "a"}])");
  testing::internal::CaptureStdout();
  EXPECT_EQ(evaluate_command({.files = {path}, .dtype = "f64"}), 1);
  const std::string lines = testing::internal::GetCapturedStdout();
  size_t at = 0;
  for (const char* id : {R"({"id": "0")", R"({"id": "7")", R"({"id": "a")"}) {
    at = lines.find(id, at);
    EXPECT_NE(at, std::string::npos) << id << lines;
  }
}

}  // namespace
}  // namespace cohort::evaluate
