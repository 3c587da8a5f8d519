// Training throughput of the built-in engine against the machine's matrix-product ceiling; prints
// one JSON line.
//   compute_bench [repeats] [micro_batch_tokens]
// Policy: d = 64, 2 layers, 4 query and 2 key-value heads of 16, SwiGLU 192, 32 words, tied
// embeddings. Samples look like FrozenLake: 1 to 8 turns of 29 tokens of which the last 3 are the
// policy's (30 to 232 tokens).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "bench/micro/addition_model.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/train/loss_factory.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace {

using namespace cohort;
using namespace cohort::compute;

constexpr int64_t k_turn_tokens = 29, k_answer_tokens = 3;

struct Data {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<uint8_t>> mask;
  std::vector<std::vector<float>> logp, advantages;
  std::vector<TrainSample> samples;
  double total = 0;
};

/// `is_dense`: every token but the first is trained on, as in the supervised warm start on all
/// tokens.
Data make_data(size_t count, bool is_dense) {
  Data data;
  Rng rng(7);
  for (size_t i = 0; i < count; ++i) {
    const auto turns = static_cast<int64_t>(1 + rng.below(8));
    const auto size = static_cast<size_t>(turns * k_turn_tokens);
    std::vector<int32_t> tokens(size);
    std::vector<uint8_t> mask(size);
    for (size_t t = 0; t < size; ++t) {
      tokens[t] = static_cast<int32_t>(rng.below(32));
      const bool is_answer =
          static_cast<int64_t>(t) % k_turn_tokens >= k_turn_tokens - k_answer_tokens;
      mask[t] = (is_dense && t > 0) || is_answer ? 1 : 0;
    }
    data.logp.emplace_back(size, -3.4f);
    data.advantages.emplace_back(size, rng.uniform() < 0.5 ? 1.0f : -1.0f);
    data.tokens.push_back(std::move(tokens));
    data.mask.push_back(std::move(mask));
    data.total += static_cast<double>(size);
  }
  for (size_t i = 0; i < count; ++i)
    data.samples.push_back({data.tokens[i], data.mask[i], data.logp[i], data.advantages[i], {}});
  return data;
}

/// PPO's clipped loss with an entropy term, as the trainer uses it.
LossFunction bench_loss(const StepCounts& counts) {
  return [tokens = counts.tokens](const MicroBatch& batch, const MicroOutputs& out) {
    at::Tensor ratio = (out.logp - batch.old_logp).exp();
    at::Tensor gain =
        at::minimum(ratio * batch.advantages, ratio.clamp(0.8, 1.28) * batch.advantages);
    MicroLoss loss;
    loss.total = -(gain.sum() + 0.01 * out.entropy.sum()) / tokens;
    return loss;
  };
}

struct Rate {
  double per_second = 0;      // median over the repeats
  double per_cpu_second = 0;  // of all threads together: what a busy machine cannot hide
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Rate measure_training(const Data& data, int threads, int64_t micro_batch_tokens, int repeats) {
  CardMemory card(CardId{0}, uint64_t{1} << 30);
  TrainEngineOptions options;
  options.model = bench::addition_model(256, 100);
  options.threads = threads;
  options.micro_batch_tokens = micro_batch_tokens;
  options.card = &card;
  auto engine = TrainEngine::create(options).value();
  for (TrainObject object : {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer})
    engine->onload(object).value();
  std::vector<double> rates, cpu_rates;
  for (int i = 0; i < repeats + 1; ++i) {
    const double cpu_begin = cpu_seconds();
    StepReport report = engine->step(data.samples, bench_loss, 1e-4).value();
    if (i == 0) continue;  // warm-up
    rates.push_back(data.total / report.seconds);
    cpu_rates.push_back(data.total / (cpu_seconds() - cpu_begin));
  }
  std::sort(rates.begin(), rates.end());
  std::sort(cpu_rates.begin(), cpu_rates.end());
  return {rates[rates.size() / 2], cpu_rates[cpu_rates.size() / 2]};
}

struct Gemm {
  const char* name;
  int m, n, k;
};

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const int64_t micro_batch =
      argc > 2 ? std::atoll(argv[2]) : TrainEngineOptions{}.micro_batch_tokens;
  const Data sparse = make_data(512, false), dense = make_data(256, true);
  const double ceiling = measured_gemm_gflops();
  std::string line = fmt::format(
      "{{\"bench\":\"compute\",\"cores\":{},\"repeats\":{},\"micro_batch_tokens\":{},"
      "\"gemm_512_gflops\":{:.1f}",
      std::thread::hardware_concurrency(), repeats, micro_batch, ceiling);
  for (const Gemm& gemm : {Gemm{"qkv", 2048, 128, 64}, Gemm{"o", 2048, 64, 64},
                           Gemm{"gate_up", 2048, 384, 64}, Gemm{"down", 2048, 64, 192}})
    line += fmt::format(",\"gemm_{}_gflops\":{:.1f}", gemm.name,
                        measured_gemm_gflops(gemm.m, gemm.n, gemm.k));
  const double parameters = 98304;                // of the two layers
  const double flops_per_token = 6 * parameters;  // dense work, without attention
  for (int threads : {1, 2}) {
    const Rate rate = measure_training(sparse, threads, micro_batch, repeats);
    const Rate dense_rate = measure_training(dense, threads, micro_batch, repeats);
    line += fmt::format(
        ",\"train_tokens_per_s_{0}\":{1:.0f},\"train_tokens_per_cpu_s_{0}\":{2:.0f},"
        "\"train_dense_tokens_per_s_{0}\":{3:.0f},\"train_dense_tokens_per_cpu_s_{0}\":{4:.0f},"
        "\"dense_gemm_share_{0}\":{5:.3f}",
        threads, rate.per_second, rate.per_cpu_second, dense_rate.per_second,
        dense_rate.per_cpu_second,
        dense_rate.per_second * flops_per_token * 1e-9 / (ceiling * threads));
  }
  std::puts((line + "}").c_str());
  return 0;
}
