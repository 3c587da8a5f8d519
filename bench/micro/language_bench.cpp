// Training of a language model's shape against the machine's matrix products, in f32 and bf16;
// prints one JSON line.
//   language_bench [MODEL] [layers] [samples] [tokens of each] [repeats]
// MODEL is one of the planner's table (Qwen2.5-0.5B), cut to `layers` layers: the embedding and the
// head stay whole. Random weights; every token but the first is trained on. The ceiling is the
// product of a gate_up layer's shape, in the same dtype, measured beside each step: the faster one
// of libtorch's and our own.
// gemm_share counts the model's operations, 6 for each parameter and token; hardware_share counts
// the head's product that the backward repeats as well, 2 more for each of its weights.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/model/product.hpp"
#include "runtime/compute/train/loss_factory.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace {

using namespace cohort;
using namespace cohort::compute;

struct Data {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<uint8_t>> mask;
  std::vector<std::vector<float>> logp, advantages;
  std::vector<TrainSample> samples;
};

Data make_data(size_t count, size_t length, int64_t vocabulary) {
  Data data;
  Rng rng(7);
  for (size_t i = 0; i < count; ++i) {
    std::vector<int32_t> tokens(length);
    for (int32_t& token : tokens)
      token = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocabulary)));
    std::vector<uint8_t> mask(length, 1);
    mask[0] = 0;
    data.tokens.push_back(std::move(tokens));
    data.mask.push_back(std::move(mask));
    data.logp.emplace_back(length, -10.F);
    data.advantages.emplace_back(length, 1.F);
  }
  for (size_t i = 0; i < count; ++i)
    data.samples.push_back({data.tokens[i], data.mask[i], data.logp[i], data.advantages[i], {}});
  return data;
}

LossFunction bench_loss(const StepCounts& counts) {
  return [tokens = counts.tokens](const MicroBatch& batch, const MicroOutputs& out) {
    MicroLoss loss;
    loss.total = -(out.logp * batch.advantages).sum() / tokens;
    return loss;
  };
}

/// Products of one thread, best of a few: what no neighbour disturbed.
struct ProductRate {
  double libtorch = 0, own = 0;  // [GFLOP/s]
  double best() const { return std::max(libtorch, own); }
};

ProductRate product_rate(at::ScalarType dtype, int64_t rows, int64_t inner, int64_t columns) {
  const at::NoGradGuard guard;
  const at::Tensor a = at::randn({rows, inner}).to(dtype),
                   b = at::randn({columns, inner}).to(dtype);
  at::Tensor y = at::empty({rows, columns}, a.options());
  ProductRate rate;
  const auto try_one = [&](double& best, auto multiply) {
    const double begin = now_seconds();
    multiply();
    const auto work = 2e-9 * static_cast<double>(rows * inner * columns);
    best = std::max(best, work / (now_seconds() - begin));
  };
  for (int i = 0; i < 5; ++i) {
    try_one(rate.libtorch, [&] { at::mm_out(y, a, b.t()); });
    try_one(rate.own, [&] { ops::multiply_into(y, a, b.t()); });
  }
  return rate;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string measure(ModelConfig model, const Data& data, int repeats) {
  CardMemory card(CardId{0}, uint64_t{1} << 36);
  TrainEngineOptions options;
  options.model = model;
  options.micro_batch_tokens = 512;
  options.card = &card;
  auto engine = TrainEngine::create(options).value();
  for (TrainObject object : {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer})
    engine->onload(object).value();
  const auto dtype = model.dtype == tensor::Dtype::bf16 ? at::kBFloat16 : at::kFloat;
  const double tokens = static_cast<double>(data.samples.size() * data.tokens[0].size());
  const auto parameters = static_cast<double>(layout_of(model).total_elements);
  const auto head = static_cast<double>(model.vocab_size * model.hidden_size);
  std::vector<double> rates, shares, hardware, libtorch, own;
  for (int i = 0; i < repeats + 1; ++i) {
    const ProductRate product =
        product_rate(dtype, 512, model.hidden_size, 2 * model.intermediate_size);
    const StepReport report = engine->step(data.samples, bench_loss, 1e-4).value();
    if (i == 0) continue;  // warm-up
    rates.push_back(tokens / report.seconds);
    shares.push_back(6e-9 * parameters * rates.back() / product.best());
    hardware.push_back(1e-9 * (6 * parameters + 2 * head) * rates.back() / product.best());
    libtorch.push_back(product.libtorch);
    own.push_back(product.own);
  }
  return fmt::format(
      "\"{0}_tokens_per_s\":{1:.1f},\"{0}_gemm_share\":{2:.3f},\"{0}_hardware_share\":{3:.3f},"
      "\"{0}_libtorch_gflops\":{4:.0f},\"{0}_product_gflops\":{5:.0f}",
      dtype == at::kFloat ? "f32" : "bf16", median(rates), median(shares), median(hardware),
      median(libtorch), median(own));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "Qwen2.5-0.5B";
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise;
  };
  auto shape = model::find_model(name);
  if (!shape) {
    std::fprintf(stderr, "language_bench: %s\n", shape.error().detail.c_str());
    return 2;
  }
  ModelConfig model{*shape, tensor::Dtype::f32};
  model.num_hidden_layers = number(2, 4);
  const auto samples = static_cast<size_t>(number(3, 4)),
             length = static_cast<size_t>(number(4, 128));
  model.max_position = static_cast<int64_t>(length);
  const Data data = make_data(samples, length, model.vocab_size);
  const int repeats = number(5, 7);
  std::string line =
      fmt::format("{{\"bench\":\"language\",\"model\":\"{}\",\"layers\":{},\"repeats\":{},", name,
                  model.num_hidden_layers, repeats);
  line += measure(model, data, repeats);
  model.dtype = tensor::Dtype::bf16;
  line += "," + measure(model, data, repeats);
  std::puts((line + "}").c_str());
  return 0;
}
