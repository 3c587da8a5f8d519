// Losses on pairs and distillation equal the numbers of tools/golden/make_preference_cases.py, in
// both precisions; masks hide what is behind them (PREF-2, ALG-4); any split of a mini-batch gives
// the same numbers (PREF-1, ALG-3).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "algorithms/distillation.hpp"
#include "algorithms/preference.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::algorithms {
namespace {

using evaluate::Json;
using evaluate::Precision;

Json golden_cases() {
  const std::string folder = std::getenv("COHORT_SOURCE_DIR");
  return Json::parse(std::ifstream(folder + "/tests/golden/data/preference_cases.json"))["cases"];
}

Json outputs(const Json& object, Precision precision) {
  evaluate::Case in(object, precision);
  auto out = evaluate::outputs_of(in);
  if (!out) ADD_FAILURE() << in.id() << ": " << out.error().detail;
  return out ? *out : Json::object();
}

void expect_near(const Json& found, const Json& expected, double tolerance,
                 const std::string& where) {
  if (!expected.is_structured()) {
    const auto want = expected.get<double>();
    ASSERT_TRUE(found.is_number()) << where << " is " << found.dump();
    EXPECT_NEAR(found.get<double>(), want, tolerance * std::max(1.0, std::abs(want))) << where;
    return;
  }
  ASSERT_EQ(found.size(), expected.size()) << where;
  for (const auto& [name, part] : expected.items()) {
    ASSERT_TRUE(found.is_array() || found.contains(name)) << where << " lacks " << name;
    expect_near(found.is_array() ? found[std::stoul(name)] : found[name], part, tolerance,
                where + " " + name);
  }
}

/// Returns the text with `to` for each "NaN" of the inputs.
Json with_hidden(const Json& object, const std::string& to) {
  std::string text = object.dump();
  for (size_t at = 0; (at = text.find("\"NaN\"", at)) != std::string::npos; at += to.size())
    text.replace(at, 5, to);
  return Json::parse(text);
}

TEST(PreferenceCases, OutputsAreTheGoldenOnes) {
  const Json cases = golden_cases();
  ASSERT_EQ(cases.size(), 43U);
  for (const Json& object : cases)
    for (const auto& [precision, tolerance] :
         {std::pair{Precision::f64, 1e-6}, std::pair{Precision::f32, 1e-5}})
      expect_near(outputs(object, precision), object["outputs"], tolerance,
                  fmt::format("{} ({})", object["id"].get<std::string>(), tolerance));
}

TEST(PreferenceCases, WhatIsBehindAMaskReachesNothing) {  // PREF-2, ALG-4
  int masked = 0;
  for (const Json& object : golden_cases()) {
    if (object.dump().find("\"NaN\"") == std::string::npos) continue;
    ++masked;
    const Json hidden = outputs(object, Precision::f64);
    for (const char* word : {"0.25", "\"Infinity\"", "\"-Infinity\""})
      EXPECT_EQ(outputs(with_hidden(object, word), Precision::f64), hidden)
          << object["id"] << " with " << word;
  }
  EXPECT_EQ(masked, 33);
}

struct Share {
  at::Tensor total;
  Numbers numbers;
};

/// Expects that the shares of [0, size) in one and in several parts are the same.
void expect_split_invariant(const at::Tensor& leaf, int64_t size,
                            const std::function<Share(int64_t first, int64_t last)>& share_of,
                            const std::string& where) {
  std::vector<at::Tensor> totals, gradients;
  std::vector<Numbers> numbers;
  const std::vector<std::vector<int64_t>> splits{
      {0, size}, {0, 2, 3, size}, {0, 1, size - 1, size}};
  for (const std::vector<int64_t>& cuts : splits) {
    at::Tensor total = at::zeros({}, at::kDouble);
    Numbers sums;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Share share = share_of(cuts[i], cuts[i + 1]);
      total = total + share.total;
      sums.add(share.numbers);
    }
    totals.push_back(total);
    numbers.push_back(sums);
    gradients.push_back(torch::autograd::grad({total}, {leaf}, {}, false, false, false)[0]);
  }
  EXPECT_GT(gradients[0].abs().sum().item<double>(), 0) << where;
  for (size_t i = 1; i < totals.size(); ++i) {
    EXPECT_NEAR(totals[i].item<double>(), totals[0].item<double>(), 1e-12) << where;
    EXPECT_TRUE(at::allclose(gradients[i], gradients[0], 0, 1e-14)) << where;
    for (const Number& number : numbers[0].all())
      EXPECT_NEAR(numbers[i].at(number.name()), number.value, 1e-12) << where << number.name();
  }
}

constexpr int64_t k_pairs = 7;
at::Tensor pair_mask() { return at::tensor({1, 1, 0, 1, 1, 1, 0}, at::kByte); }

TEST(PreferenceSplit, ManyPartsGiveTheSharesOfOne) {  // PREF-1
  at::manual_seed(5);
  const at::Tensor leaf = (-4 * at::rand({k_pairs, 2}, at::kDouble)).set_requires_grad(true);
  const at::Tensor ref = -4 * at::rand({k_pairs, 2}, at::kDouble);
  const at::Tensor length = at::randint(1, 9, {k_pairs, 2}, at::kDouble);
  const PreferenceOptions rows[] = {
      {},
      {PreferenceKind::sigmoid, 0.5, 0.1, AnswerScale::mean},
      {PreferenceKind::robust, 0.3, 0.2},
      {PreferenceKind::hinge, 0.7},
      {PreferenceKind::ipo, 0.2},
      {PreferenceKind::ipo, 0.2, 0, AnswerScale::mean},
      {PreferenceKind::simpo, 2, 0, AnswerScale::mean, 0.5},
  };
  for (const PreferenceOptions& options : rows) {
    auto share_of = [&](int64_t first, int64_t last) {
      auto side = [&](const at::Tensor& x, int64_t at) {
        return x.slice(0, first, last).select(1, at);
      };
      PreferenceInput input{side(leaf, 0),
                            side(leaf, 1),
                            {},
                            {},
                            side(length, 0),
                            side(length, 1),
                            pair_mask().slice(0, first, last)};
      if (options.kind != PreferenceKind::simpo) {
        input.ref_chosen = side(ref, 0);
        input.ref_rejected = side(ref, 1);
      }
      const PairLoss loss = preference_loss(input, options, 5);
      return Share{loss.total, loss.numbers};
    };
    expect_split_invariant(leaf, k_pairs, share_of,
                           fmt::format("kind {} ", static_cast<int>(options.kind)));
  }
}

TEST(RewardModelSplit, ManyPartsGiveTheSharesOfOne) {  // PREF-1
  at::manual_seed(6);
  const at::Tensor leaf = at::randn({k_pairs, 2}, at::kDouble).set_requires_grad(true);
  const at::Tensor margin = at::rand({k_pairs}, at::kDouble);
  auto share_of = [&](int64_t first, int64_t last) {
    const at::Tensor scores = leaf.slice(0, first, last);
    const PairLoss loss =
        reward_model_loss({scores.select(1, 0), scores.select(1, 1), margin.slice(0, first, last),
                           pair_mask().slice(0, first, last)},
                          0.01, 5);
    return Share{loss.total, loss.numbers};
  };
  expect_split_invariant(leaf, k_pairs, share_of, "reward model ");
}

std::string name_of(const DistillationOptions& options) {
  const auto names = catalog::words(names_of(options.kind));
  return std::string(names[static_cast<size_t>(options.kind)]);
}

/// Of each kind, with the teacher's ten likeliest entries.
std::vector<DistillationOptions> distillations() {
  std::vector<DistillationOptions> all;
  const size_t kinds = catalog::words(names_of(catalog::DivergenceKind{})).size();
  for (size_t i = 0; i < kinds; ++i) {
    DistillationOptions& options = all.emplace_back();
    options.kind = static_cast<catalog::DivergenceKind>(i);
    options.temperature = 0.9;
    options.topk = 10;
  }
  return all;
}

TEST(DistillationSplit, ManyPartsGiveTheSharesOfOne) {  // ALG-3
  at::manual_seed(7);
  const at::Tensor leaf = at::randn({k_pairs, 11}, at::kDouble).set_requires_grad(true);
  const at::Tensor teacher = at::randn({k_pairs, 11}, at::kDouble);
  for (const DistillationOptions& options : distillations()) {
    auto share_of = [&](int64_t first, int64_t last) {
      const DistillationLoss loss =
          distillation_loss({leaf.slice(0, first, last), teacher.slice(0, first, last),
                             pair_mask().slice(0, first, last)},
                            options, {5, 0, 1});
      return Share{loss.total, loss.numbers};
    };
    expect_split_invariant(leaf, k_pairs, share_of, name_of(options) + " ");
  }
}

// ROLL divides 0 by 0 there, and its loss is NaN from then on.
TEST(Distillation, EqualDistributionsAreZeroApart) {
  const at::Tensor teacher = at::randn({3, 5}, at::kDouble);
  for (const DistillationOptions& options : distillations()) {
    const at::Tensor leaf = teacher.clone().set_requires_grad(true);
    const at::Tensor apart = token_divergence(leaf, teacher, options);
    EXPECT_LT(apart.abs().max().item<double>(), 1e-9) << name_of(options);
    const at::Tensor gradient = torch::autograd::grad({apart.sum()}, {leaf})[0];
    EXPECT_LT(gradient.abs().max().item<double>(), 1e-7) << name_of(options);
  }
}

// A vocabulary that is padded with rows at minus infinity, on either side.
TEST(Distillation, AnInfiniteLogitCountsNothing) {
  const at::Tensor student = at::randn({3, 5}, at::kDouble),
                   teacher = at::randn({3, 5}, at::kDouble);
  for (DistillationOptions options : distillations()) {
    options.topk = 0;
    const at::Tensor expected =
        token_divergence(student.narrow(1, 0, 4), teacher.narrow(1, 0, 4), options);
    for (const bool is_student : {true, false}) {
      const at::Tensor leaf = student.clone(), other = teacher.clone();
      (is_student ? leaf : other).select(1, 4).fill_(-std::numeric_limits<double>::infinity());
      leaf.set_requires_grad(true);
      const at::Tensor apart = token_divergence(leaf, other, options);
      EXPECT_TRUE(at::allclose(apart, expected, 1e-9, 1e-9)) << name_of(options);
      const at::Tensor gradient = torch::autograd::grad({apart.sum()}, {leaf})[0];
      EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << name_of(options);
    }
  }
}

TEST(PreferenceLoss, BadOptionsAreRefusedByName) {
  const std::pair<PreferenceOptions, const char*> rows[] = {
      {{PreferenceKind::sigmoid, 0}, "beta is 0"},
      {{PreferenceKind::sigmoid, std::nan("")}, "beta is nan"},
      {{PreferenceKind::robust, 0.1, 0.5}, "label_smoothing is 0.5"},
      {{PreferenceKind::ipo, 0.1, 0.1}, "label_smoothing is of the losses"},
      {{PreferenceKind::simpo, 2}, "simpo takes means"},
      {{PreferenceKind::simpo, 2, 0, AnswerScale::mean, -1}, "gamma_beta_ratio is -1"},
      {{PreferenceKind::hinge, 0.1, 0, AnswerScale::sum, 0.5}, "gamma_beta_ratio is of simpo"},
  };
  for (const auto& [options, text] : rows) {
    const auto checked = check_preference(options);
    ASSERT_FALSE(checked) << text;
    EXPECT_EQ(checked.error().code, Errc::invalid_argument);
    EXPECT_NE(checked.error().detail.find(text), std::string::npos) << checked.error().detail;
  }
  const std::pair<DistillationOptions, const char*> bad[] = {
      {{.temperature = 0}, "temperature is 0"},
      {{.teacher_temperature = std::nan("")}, "teacher_temperature is nan"},
      {{.topk = -1}, "topk is -1"},
      {{.adaptive_alpha = 1.1}, "adaptive_alpha is 1.1"},
      {{.skew_lambda = -0.1}, "skew_lambda is -0.1"},
      {{.beta = 1.1}, "beta is 1.1"},
  };
  for (const auto& [options, text] : bad) {
    const auto checked = check_distillation(options);
    ASSERT_FALSE(checked) << text;
    EXPECT_NE(checked.error().detail.find(text), std::string::npos) << checked.error().detail;
  }
}

TEST(PreferenceCases, ABadCaseIsAnErrorThatNamesIt) {
  const Json model = golden_cases()[0];
  const std::tuple<const char*, const char*, Json, const char*> rows[] = {
      {"params", "loss", "dpo", "known: sigmoid, robust, hinge, ipo, simpo"},
      {"params", "beta", -1, "beta is -1"},
      {"params", "gamma_beta_ratio", 0.5, "'gamma_beta_ratio' is unknown here"},
      {"inputs", "ref_chosen", Json::array({-1}), "'ref_chosen' has the shape [1]"},
      {"inputs", "mask", Json::array({1}), "'mask' has the shape [1]"},
      {"inputs", "mask_chosen", Json::array({1}), "is no array of 2 indices"},
  };
  for (const auto& [part, name, value, text] : rows) {
    Json object = model;
    object[part][name] = value;
    evaluate::Case in(object, Precision::f64);
    const auto out = evaluate::outputs_of(in);
    ASSERT_FALSE(out) << text;
    EXPECT_NE(out.error().detail.find(text), std::string::npos) << out.error().detail;
  }
}

TEST(SequenceSums, LongAnswersKeepTheirPrecisionInF32) {
  constexpr int64_t k_tokens = 100'000;
  const at::Tensor logp = at::full({2 * k_tokens}, -0.1F).set_requires_grad(true);
  const at::Tensor seq_id = at::arange(2, at::kLong).repeat_interleave(k_tokens);
  const at::Tensor sums = sequence_sums(logp, {{}, seq_id, 2});
  EXPECT_EQ(sums.scalar_type(), at::kFloat);
  for (int64_t s : {0, 1})
    EXPECT_EQ(sums[s].item<float>(), static_cast<float>(k_tokens * static_cast<double>(-0.1F)));
  sums.sum().backward();
  EXPECT_TRUE(logp.grad().equal(at::ones_like(logp)));
}

}  // namespace
}  // namespace cohort::algorithms
