// On-policy distillation: what a teacher's log-probabilities add to the advantages of a batch, and
// what they say of the student.
#include "algorithms/teacher.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "algorithms/advantage.hpp"

namespace cohort::algorithms {
namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

const std::vector<uint8_t> k_mask = {0, 1, 1, 0, 1};
const std::vector<double> k_logp = {k_nan, -1, -2, k_nan, -0.5};
const std::vector<double> k_teacher = {k_nan, -0.25, -4, k_nan, -0.5};

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << i;
}

TEST(TeacherLeads, AreTheTeachersLogProbabilitiesLessTheStudents) {
  expect_near(teacher_leads({}, k_mask, k_logp, k_teacher), {0, 0.75, -2, 0, 0});
  expect_near(teacher_leads({.coef = 0.5}, k_mask, k_logp, k_teacher), {0, 0.375, -1, 0, 0});
}

TEST(TeacherLeads, AreClampedBeforeTheyAreWeighed) {
  expect_near(teacher_leads({.coef = 2, .clip = 1.5}, k_mask, k_logp, k_teacher),
              {0, 1.5, -3, 0, 0});
}

TEST(TeacherLeads, TakeAnyEstimatorOfTheKl) {
  const auto k3 = [](double d) { return std::exp(d) - d - 1; };
  expect_near(teacher_leads({.kind = KlKind::k3}, k_mask, k_logp, k_teacher),
              {0, -k3(0.75), -k3(-2), 0, 0});
}

TEST(TeacherMetrics, AreMeansOverWhatWasSampled) {
  const TeacherMetrics found = teacher_metrics(k_mask, k_logp, k_teacher);
  EXPECT_NEAR(found.kl, (-0.75 + 2 + 0) / 3, 1e-12);
  EXPECT_NEAR(found.agreement, (1 + std::exp(-2.0) + 1) / 3, 1e-12);
  const TeacherMetrics none = teacher_metrics(std::vector<uint8_t>(5, 0), k_logp, k_teacher);
  EXPECT_EQ(none.kl, 0);
  EXPECT_EQ(none.agreement, 0);
}

// The agreement estimates sum_v min(s_v, q_v): exactly, where every token is seen as often as the
// student samples it.
TEST(TeacherMetrics, TheAgreementIsOneLessTheTotalVariation) {
  const std::vector<double> student = {0.5, 0.25, 0.25}, teacher = {0.25, 0.25, 0.5};
  std::vector<double> logp, teacher_logp;
  for (const size_t token : {0, 0, 1, 2}) {
    logp.push_back(std::log(student[token]));
    teacher_logp.push_back(std::log(teacher[token]));
  }
  const TeacherMetrics found = teacher_metrics(std::vector<uint8_t>(4, 1), logp, teacher_logp);
  EXPECT_NEAR(found.agreement, 0.75, 1e-12);
}

// No token gets credit for a later lead: the returns are the same with them.
TEST(TeacherLeads, JoinBehindTheReturnsAndBeforeWhitening) {
  const std::vector<int32_t> cu_seqlens = {0, 5};
  const std::vector<double> rewards = {1};
  AdvantageInput input{{cu_seqlens, k_mask}, rewards, {}, {}};
  const std::vector<double> leads = teacher_leads({}, k_mask, k_logp, k_teacher);
  input.leads = leads;
  AdvantageOptions options;
  auto plain = compute_token_advantages(input, options);
  ASSERT_TRUE(plain) << plain.error().detail;
  expect_near(plain->raw, {0, 1, 1, 0, 1});
  expect_near(plain->returns, plain->raw);
  expect_near(plain->advantages, {0, 1.75, -1, 0, 1});
  options.whiten = true;
  const auto whitened = compute_token_advantages(input, options);
  ASSERT_TRUE(whitened);
  std::vector<double> wanted = plain->advantages;
  whiten(wanted, k_mask);
  expect_near(whitened->advantages, wanted);
  options.whiten = false;
  options.advantage_clip = 1.0;
  const auto clipped = compute_token_advantages(input, options);
  ASSERT_TRUE(clipped);
  expect_near(clipped->advantages, {0, 1, -1, 0, 1});
}

TEST(TeacherLeads, ALeadThatIsNotFiniteIsNamed) {
  const std::vector<int32_t> cu_seqlens = {0, 2};
  const std::vector<uint8_t> mask = {1, 1};
  const std::vector<double> rewards = {1}, leads = {0, k_nan};
  AdvantageInput input{{cu_seqlens, mask}, rewards, {}, {}};
  input.leads = leads;
  const auto found = compute_token_advantages(input, {});
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().detail.find("the lead of token 1"), std::string::npos);
}

}  // namespace
}  // namespace cohort::algorithms
