// Each op's f32 and bf16 kernels, forward and backward, against the f64 ATen composition of the
// same op.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "runtime/compute/model/product.hpp"
#include "runtime/compute/model/taught_log_probs.hpp"

namespace cohort::compute::ops {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Op = std::function<Tensors(const Tensors&)>;

Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator, at::dtype(at::kDouble));
}

Tensor i32(const std::vector<int32_t>& values) {
  return at::tensor(at::ArrayRef<int32_t>(values), at::kInt);
}

/// Outputs, then gradients of sum(weight_i * output_i) for fixed pseudo-random weights. Inputs and
/// weights are numbers that `held` can hold.
Tensors run(const Op& op, const Tensors& inputs, at::ScalarType type, at::ScalarType held) {
  Tensors leaves;
  for (const Tensor& input : inputs)
    leaves.push_back(input.to(held).to(type).detach().set_requires_grad(true));
  Tensors outputs = op(leaves);
  Tensor total = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor weight = random(outputs[i].sizes(), 90 + i).to(held).to(at::kDouble);
    total = total + (outputs[i].to(at::kDouble) * weight).sum();
  }
  for (Tensor& gradient : torch::autograd::grad({total}, leaves, {}, false, false, true))
    outputs.push_back(gradient);
  return outputs;
}

void expect_agree(const Op& op, const Tensors& inputs, at::ScalarType type, double tolerance) {
  Tensors fused = run(op, inputs, type, type), exact = run(op, inputs, at::kDouble, type);
  ASSERT_EQ(fused.size(), exact.size());
  for (size_t i = 0; i < fused.size(); ++i) {
    ASSERT_TRUE(fused[i].sizes() == exact[i].sizes()) << "tensor " << i;
    const double scale = std::max(1.0, exact[i].abs().max().item<double>());
    const double error = (fused[i].to(at::kDouble) - exact[i]).abs().max().item<double>();
    EXPECT_LE(error, tolerance * scale) << type << " tensor " << i;
  }
}

/// bf16: 2^-8 for the rounding of a result, as much again for what it was computed from.
void expect_agree(const Op& op, const Tensors& inputs, double half_tolerance = 8e-3) {
  expect_agree(op, inputs, at::kFloat, 2e-5);
  expect_agree(op, inputs, at::kBFloat16, half_tolerance);
}
constexpr double k_logit_tolerance = 2.5e-2;  // bf16 logits of 16 to 32 are rounded to an eighth

/// Three sequences of 1, 37 and 14 tokens; queries are all rows, or those of `step`.
AttentionLayout layout_of(const std::vector<int32_t>& lengths, int32_t step) {
  std::vector<int32_t> cu_q{0}, cu_k{0}, q_position, k_position;
  for (int32_t length : lengths) {
    for (int32_t t = 0; t < length; ++t) {
      k_position.push_back(t);
      if (t % step == step - 1) q_position.push_back(t);
    }
    cu_k.push_back(static_cast<int32_t>(k_position.size()));
    cu_q.push_back(static_cast<int32_t>(q_position.size()));
  }
  return {i32(cu_q), i32(cu_k), i32(q_position), i32(k_position), 37};
}

TEST(Ops, EmbeddingAgreesAndSumsRepeatedIds) {
  Tensor ids = i32({4, 0, 4, 2, 4});
  expect_agree([&](const Tensors& x) { return Tensors{ops::embedding(x[0], ids)}; },
               {random({6, 20}, 1)});
}

TEST(Ops, RmsNormAgrees) {
  for (int64_t columns : {64, 37, 5})
    expect_agree([](const Tensors& x) { return Tensors{rms_norm(x[0], x[1], 1e-6)}; },
                 {random({9, columns}, 2), random({columns}, 3)});
}

TEST(Ops, RopeAgreesWithAndWithoutBias) {
  for (int64_t dim : {16, 24, 64}) {
    RopeTable table = rope_table(40, dim, {.theta = 100});
    Tensor positions = i32({0, 1, 2, 39, 7});
    auto op = [&](const Tensors& x) {
      return Tensors{rope(x[0], x.size() > 1 ? x[1] : Tensor(), positions, table, 3, dim)};
    };
    expect_agree(op, {random({5, 5 * dim}, 4), random({5 * dim}, 5)});
    expect_agree(op, {random({5, 5 * dim}, 4)});
  }
}

TEST(Ops, RopeAtPositionZeroIsTheIdentity) {
  RopeTable table = rope_table(4, 16, {});
  Tensor x = random({1, 32}, 6).to(at::kFloat);
  EXPECT_TRUE(at::equal(rope(x, Tensor(), i32({0}), table, 2, 16), x));
}

TEST(Ops, AttentionAgreesOnPackedSequences) {
  for (int64_t dim : {16, 32, 64}) {
    HeadShape shape{4, 2, dim};
    AttentionLayout layout = layout_of({1, 37, 14}, 1);
    expect_agree([&](const Tensors& x) { return Tensors{attention(x[0], layout, shape)}; },
                 {random({52, 8 * dim}, 7)});
  }
}

TEST(Ops, AttentionOfSomeQueriesAgrees) {
  HeadShape shape{6, 2, 16};
  for (int32_t step : {3, 14}) {
    AttentionLayout layout = layout_of({1, 37, 14}, step);
    const int64_t queries = layout.q_position.size(0);
    expect_agree([&](const Tensors& x) { return Tensors{attention(x[0], x[1], layout, shape)}; },
                 {random({queries, 96}, 8), random({52, 64}, 9)});
  }
}

TEST(Ops, AttentionWithHugeScoresStaysFinite) {
  HeadShape shape{1, 1, 16};
  AttentionLayout layout = layout_of({37}, 1);
  Tensor qkv = random({37, 48}, 10).to(at::kFloat) * 60;
  EXPECT_TRUE(attention(qkv, layout, shape).isfinite().all().item<bool>());
}

TEST(Ops, AttentionWithoutAKernelForTheHeadSizeIsComposed) {
  HeadShape shape{2, 1, 10};
  AttentionLayout layout = layout_of({5, 9}, 1);
  expect_agree([&](const Tensors& x) { return Tensors{attention(x[0], layout, shape)}; },
               {random({14, 40}, 11)});
}

TEST(Ops, AddProductAgrees) {
  const Tensors inputs{random({7, 24}, 1), random({7, 40}, 2), random({24, 40}, 3)};
  expect_agree([](const Tensors& x) { return Tensors{add_product(x[0], x[1], x[2])}; }, inputs,
               1.6e-2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Tensor sum = inputs[0].to(type).clone();
    const Tensor a = inputs[1].to(type), b = inputs[2].to(type);
    const Tensor expected = add_product(sum, a, b);
    multiply_onto(sum, a, b.t());
    EXPECT_TRUE(at::equal(sum, expected)) << type;
  }
}

// Products large enough to be shared, with more columns than rows and with fewer.
TEST(Ops, SharedProductsHaveTheSameBitsAndAddTheirGradients) {
  if (!multiplies_wide(random({1, 1}, 1).to(at::kBFloat16))) GTEST_SKIP() << "not on this CPU";
  for (const auto& [rows, depth, columns] :
       {std::array<int64_t, 3>{90, 300, 1000}, {1000, 300, 90}}) {
    const Tensor x = random({rows, depth}, 1).to(at::kBFloat16),
                 weight = random({columns, depth}, 2).to(at::kBFloat16).set_requires_grad(true),
                 dy = random({rows, columns}, 3).to(at::kBFloat16);
    const Tensor alone = product(x, weight);
    const Tensor expected = torch::autograd::grad({alone}, {weight}, {dy})[0];
    Tensor sums = at::full({columns, depth}, 0.25);
    WorkTeam team(3);
    const ProductScope scope(
        team, {static_cast<const uint16_t*>(weight.data_ptr()), sums.data_ptr<float>(),
               weight.numel(), [](int64_t, int64_t) { return false; }});
    const Tensor shared = product(x, weight);
    EXPECT_TRUE(at::equal(shared, alone));
    const Tensor gradient =
        torch::autograd::grad({shared}, {weight}, {dy}, false, false, /*allow_unused=*/true)[0];
    EXPECT_FALSE(gradient.defined());
    EXPECT_TRUE(at::equal(sums, expected.to(at::kFloat) + 0.25));
  }
}

TEST(Ops, SwigluAgrees) {
  for (int64_t n : {48, 19})
    expect_agree([](const Tensors& x) { return Tensors{swiglu(x[0])}; },
                 {random({7, 2 * n}, 12) * 3});
}

TEST(Ops, TokenLogProbsAgreeForAnyChunk) {
  Tensor target = i32({3, 0, 40, 7, 7, 12, 40});
  for (int64_t chunk : {1, 3, 100}) {
    expect_agree(
        [&](const Tensors& x) {
          TokenLogProbs out = token_log_probs(x[0], x[1], target, chunk);
          return Tensors{out.logp, out.entropy};
        },
        {random({7, 24}, 13), random({41, 24}, 14)}, k_logit_tolerance);
  }
}

TEST(Ops, TokenLogProbsMatchAtenAutograd) {
  Tensor target = i32({3, 0, 40, 7, 7, 12, 40});
  Tensors inputs = {random({7, 24}, 13), random({41, 24}, 14)};
  Tensors ours = run(
      [&](const Tensors& x) {
        TokenLogProbs out = token_log_probs(x[0], x[1], target, 3);
        return Tensors{out.logp, out.entropy};
      },
      inputs, at::kDouble, at::kDouble);
  Tensors aten = run(
      [&](const Tensors& x) {
        Tensor log_p = at::log_softmax(at::mm(x[0], x[1].t()), 1);
        Tensor picked = log_p.gather(1, target.to(at::kLong).unsqueeze(1)).squeeze(1);
        return Tensors{picked, -(log_p.exp() * log_p).sum(1)};
      },
      inputs, at::kDouble, at::kDouble);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], aten[i], 1e-9, 1e-10)) << i;
}

TEST(Ops, SelectRowsAgrees) {
  Tensor index = at::tensor({int64_t{0}, int64_t{3}, int64_t{4}}, at::kLong);
  expect_agree([&](const Tensors& x) { return Tensors{select_rows(x[0], index)}; },
               {random({6, 10}, 15)});
}

/// Log-probabilities and entropies of `rows` tokens over a vocabulary of more than two blocks.
struct WideHead {
  static constexpr int64_t k_rows = 7, k_width = 24, k_vocabulary = 2 * 8192 + 37;
  Tensor target = i32({3, 8191, 8192, 16384, 16420, 12, 12});
  Tensors inputs{random({k_rows, k_width}, 17), random({k_vocabulary, k_width}, 18)};
  Tensors operator()(const Tensors& x, int64_t chunk_rows) const {
    TokenLogProbs out = token_log_probs(x[0], x[1], target.narrow(0, 0, x[0].size(0)), chunk_rows);
    return {out.logp, out.entropy};
  }
};

/// KL(teacher || student).
Tensor forward_kl(const Tensor& student, const Tensor& teacher) {
  const Tensor log_q = at::log_softmax(teacher, 1);
  return (log_q.exp() * (log_q - at::log_softmax(student, 1))).sum(1);
}

// The teacher has another width, and more rows in its head.
TEST(Ops, TaughtLogProbsAreThoseOfBothDistributions) {
  const Tensor target = i32({0, 3, 10, 7, 3});
  const Tensor of_teacher = random({5, 6}, 12), head = random({13, 6}, 13);
  const auto expected_of = [&](const Tensors& x) {
    const Tensor logits = at::mm(x[0], x[1].t()).to(at::kDouble);
    const Tensor taught = at::mm(of_teacher, head.t()).narrow(1, 0, 11);
    return Tensors{
        at::log_softmax(logits, 1).gather(1, target.to(at::kLong).unsqueeze(1)).squeeze(1),
        forward_kl(logits, taught)};
  };
  const Tensors inputs = {random({5, 8}, 10), random({11, 8}, 11)};
  const Tensors expected = run(expected_of, inputs, at::kDouble, at::kDouble);
  for (const int64_t chunk_rows : {1, 2, 5, 16}) {
    const auto op = [&](const Tensors& x) {
      const auto type = x[0].scalar_type();
      const auto out = taught_log_probs(x[0], x[1], target, {of_teacher.to(type), head.to(type)},
                                        forward_kl, chunk_rows, {});
      return Tensors{out.logp, out.divergence};
    };
    const Tensors found = run(op, inputs, at::kDouble, at::kDouble);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-12, 1e-12)) << i << " by " << chunk_rows;
    expect_agree(op, inputs, k_logit_tolerance);
  }
}

TEST(Ops, TokenLogProbsAgreeByBlocksOfTheVocabulary) {
  const WideHead head;
  for (int64_t chunk : {1, 16})  // blocks of 2 rows, of all
    expect_agree([&](const Tensors& x) { return head(x, chunk); }, head.inputs, k_logit_tolerance);
}

/// Small whole numbers: a BLAS sums their products exactly in any order.
Tensor whole_numbers(const Tensor& x) { return x.round().clamp(-2, 2); }

TEST(Ops, ATokensLogProbIsTheSameBitsInAnyBlockOfRows) {
  const WideHead head;
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensors x{whole_numbers(head.inputs[0]).to(type), whole_numbers(head.inputs[1]).to(type)};
    const Tensors all = head(x, 16);
    for (int64_t chunk : {1, 2}) EXPECT_TRUE(at::equal(head(x, chunk)[0], all[0])) << type << chunk;
    const Tensors first = head({x[0].narrow(0, 0, 3), x[1]}, 16);
    EXPECT_TRUE(at::equal(first[0], all[0].narrow(0, 0, 3))) << type;
    EXPECT_TRUE(at::equal(first[1], all[1].narrow(0, 0, 3))) << type;
  }
}

TEST(Ops, ATiedTableGetsBothGradientsInOneTensor) {
  const Tensor ids = i32({5, 2, 5, 16384}), target = i32({2, 5, 9000, 7});
  for (int64_t vocabulary : {41, 16421}) {  // the head by rows, by blocks of the vocabulary
    const Tensor at = at::remainder(ids, vocabulary), to = at::remainder(target, vocabulary);
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      auto run_with = [&, type](const TiedGradientRef& tied) {
        return run(
            [&](const Tensors& x) {
              Tensor h = embedding(x[0], at, tied);
              return Tensors{token_log_probs(h, x[0], to, 16, tied).logp};
            },
            {random({vocabulary, 24}, 19)}, type, type);
      };
      const Tensors apart = run_with(TiedGradientRef()),
                    tied = run_with(c10::make_intrusive<TiedGradient>());
      EXPECT_TRUE(at::equal(apart[1], tied[1])) << vocabulary << type;
    }
  }
}

TEST(Ops, OtherDtypesTakeTheComposition) {
  Tensor x = random({4, 32}, 16);
  EXPECT_TRUE(is_fused(x.to(at::kFloat)) && is_fused(x.to(at::kBFloat16)));
  EXPECT_FALSE(is_fused(x) || is_fused(x.to(at::kHalf)));
}

}  // namespace
}  // namespace cohort::compute::ops
