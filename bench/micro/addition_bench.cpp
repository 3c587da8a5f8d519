// The roofline of the addition task (configs/arithmetic_rlvr.yaml: d = 64, 2 layers): operations of
// one sample, generated and trained on once, against the f32 products of this machine, and beside
// it what the engines do. Prints one JSON line.
//   addition_bench [repeats] [threads]
// `roofline_…`: samples a second if products ran as fast as libtorch's run at their own sizes and
// everything else cost nothing; `ceiling_…`: the same at the rate of 512^3. All rates are medians
// per second of CPU of all threads: they hold beside other work. `…_share`: of the roofline.
// Samples: 6 tokens of prompt and 20 to 22 of answer (21.4, the mean of a run).
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "algorithms/loss.hpp"
#include "bench/micro/addition_model.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "runtime/compute/train/loss_factory.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace {

using namespace cohort;
using namespace cohort::compute;

constexpr int64_t k_prompt = 6, k_answers[] = {20, 22, 21, 22, 22};
constexpr size_t k_samples = 128;  // of an optimizer step
constexpr int64_t k_micro_batch_tokens = 1024;
constexpr uint32_t k_running = 128;

int64_t answer_of(size_t sample) { return k_answers[sample % std::size(k_answers)]; }

/// A product [rows, inner] x [inner, columns], and how often a step has it.
struct Product {
  int64_t rows, columns, inner;
  double times = 1;
  double flops() const { return 2.0 * times * static_cast<double>(rows * columns * inner); }
};

/// Seconds of the products at their own sizes, and at the rate of 512^3; attention at that rate.
struct Cost {
  double flops = 0, roofline_s = 0, ceiling_s = 0;
  void add(const Product& p, double best_gflops) {
    const double own = measured_gemm_gflops(static_cast<int>(p.rows), static_cast<int>(p.columns),
                                            static_cast<int>(p.inner));
    flops += p.flops();
    roofline_s += p.flops() * 1e-9 / own;
    ceiling_s += p.flops() * 1e-9 / best_gflops;
  }
  void add_attention(double operations, double best_gflops) {
    flops += operations;
    roofline_s += operations * 1e-9 / best_gflops;
    ceiling_s += operations * 1e-9 / best_gflops;
  }
};

/// Forward, and what the backward multiplies: the gradients of the input and of the weight.
void add_trained(Cost& cost, const Product& p, double best) {
  cost.add(p, best);
  cost.add({p.rows, p.inner, p.columns, p.times}, best);
  cost.add({p.columns, p.inner, p.rows, p.times}, best);
}

/// Of one sample in a micro-batch of about k_micro_batch_tokens rows. The last layer computes keys
/// and values of all rows, the rest of the answer's.
Cost update_cost(const ModelConfig& c, double best) {
  double rows = 0, answers = 0, pairs = 0;  // means of a sample
  for (const int64_t answer : k_answers) {
    const auto size = static_cast<double>(k_prompt + answer - 1);
    rows += size / std::size(k_answers);
    answers += static_cast<double>(answer) / std::size(k_answers);
    pairs += size * (size + 1) / 2 / std::size(k_answers);
  }
  const double per_batch = static_cast<double>(k_micro_batch_tokens) / rows;  // samples
  const auto all = k_micro_batch_tokens;
  const auto needed = static_cast<int64_t>(answers * per_batch);
  const int64_t d = c.hidden_size, q = c.q_size(), kv = 2 * c.kv_size(), f = c.intermediate_size;
  const auto first = static_cast<double>(c.num_hidden_layers - 1);
  Cost cost;
  add_trained(cost, {all, q + kv, d, first}, best);
  add_trained(cost, {all, d, q, first}, best);
  add_trained(cost, {all, 2 * f, d, first}, best);
  add_trained(cost, {all, d, f, first}, best);
  add_trained(cost, {all, kv, d}, best);
  add_trained(cost, {needed, q, d}, best);
  add_trained(cost, {needed, d, q}, best);
  add_trained(cost, {needed, 2 * f, d}, best);
  add_trained(cost, {needed, d, f}, best);
  add_trained(cost, {needed, c.vocab_size, d}, best);
  // scores and mixes, twice; the backward has five products of that size
  cost.add_attention(per_batch * 7 * 2 * static_cast<double>(q * c.num_hidden_layers) * pairs,
                     best);
  for (double* value : {&cost.flops, &cost.roofline_s, &cost.ceiling_s}) *value /= per_batch;
  return cost;
}

/// Of one sample among k_running: the prompt's rows, then one row per sampled token but the last.
Cost generation_cost(const ModelConfig& c, double best) {
  double rows = 0, sampled = 0, pairs = 0;
  for (const int64_t answer : k_answers) {
    const auto size = static_cast<double>(k_prompt + answer - 1);
    rows += size / std::size(k_answers);
    sampled += static_cast<double>(answer) / std::size(k_answers);
    pairs += size * (size + 1) / 2 / std::size(k_answers);
  }
  const int64_t d = c.hidden_size, q = c.q_size(), kv = 2 * c.kv_size(), f = c.intermediate_size;
  const double layers = static_cast<double>(c.num_hidden_layers) * rows / k_running;
  Cost cost;
  cost.add({k_running, q + kv, d, layers}, best);
  cost.add({k_running, d, q, layers}, best);
  cost.add({k_running, 2 * f, d, layers}, best);
  cost.add({k_running, d, f, layers}, best);
  cost.add({k_running, c.vocab_size, d, sampled / k_running}, best);
  cost.add_attention(2 * 2 * static_cast<double>(q * c.num_hidden_layers) * pairs, best);
  return cost;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Data {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<uint8_t>> mask;
  std::vector<std::vector<float>> logp, advantages;
  std::vector<TrainSample> samples;
};

Data make_data() {
  Data data;
  Rng rng(7);
  for (size_t i = 0; i < k_samples; ++i) {
    const auto size = static_cast<size_t>(k_prompt + answer_of(i));
    std::vector<int32_t> tokens(size);
    std::vector<uint8_t> mask(size);
    for (size_t t = 0; t < size; ++t) {
      tokens[t] = static_cast<int32_t>(rng.below(32));
      mask[t] = t >= static_cast<size_t>(k_prompt) ? 1 : 0;
    }
    data.logp.emplace_back(size, -3.4F);
    data.advantages.emplace_back(size, rng.uniform() < 0.5 ? 1.0F : -1.0F);
    data.tokens.push_back(std::move(tokens));
    data.mask.push_back(std::move(mask));
  }
  for (size_t i = 0; i < k_samples; ++i)
    data.samples.push_back({data.tokens[i], data.mask[i], data.logp[i], data.advantages[i], {}});
  return data;
}

/// The trainer's loss with the keys of the config.
LossFunction loss_of(const StepCounts& counts) {
  algorithms::PolicyLossOptions options;
  options.loss_agg = algorithms::LossAgg::token_mean;
  const algorithms::GlobalCounts global{counts.tokens, counts.sequences, 1};
  return [options, global](const MicroBatch& batch, const MicroOutputs& out) -> MicroLoss {
    algorithms::PolicyLossInput input;
    input.logp = out.logp;
    input.old_logp = batch.old_logp;
    input.advantages = batch.advantages;
    input.entropy = out.entropy;
    input.seq_id = batch.seq_id;
    input.seq_count = batch.seq_count;
    algorithms::PolicyLoss loss = algorithms::policy_loss(input, options, global);
    return {loss.total, loss.numbers};
  };
}

/// Trains and generates; each call does it once and returns samples per second of CPU.
class Work {
 public:
  explicit Work(uint32_t threads) : data_(make_data()) {
    TrainEngineOptions options;
    options.model = bench::addition_model(64, 10000);
    options.threads = static_cast<int>(threads);
    options.micro_batch_tokens = k_micro_batch_tokens;
    options.card = &train_card_;
    train_ = TrainEngine::create(options).value();
    for (TrainObject object :
         {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer})
      train_->onload(object).value();
    EngineSetup setup;
    setup.model = bench::addition_model(64, 10000);
    setup.card = &card_;
    setup.threads = threads;
    setup.max_running = k_running;
    setup.max_context = setup.model.max_position;
    engine_ = engine_named("built_in").value().open(setup).value();
    engine_->onload_params().value();
    publish();
    engine_
        ->init_cache(uint64_t{2} * k_running * static_cast<uint64_t>(setup.max_context) *
                     engine_->capacity().kv_token_bytes)
        .value();
    engine_->start([this](const std::vector<TurnOutput>& outputs) {
      std::lock_guard lock(mutex_);
      left_ -= outputs.size();
      if (left_ == 0) done_.notify_one();
    });
  }
  ~Work() { engine_->stop(); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  double update() {
    const double begin = cpu_seconds();
    for (int i = 0; i < k_steps; ++i) train_->step(data_.samples, loss_of, 1e-4).value();
    return k_steps * static_cast<double>(k_samples) / (cpu_seconds() - begin);
  }

  double generate() {
    constexpr size_t k_requests = 1024;
    std::unique_lock lock(mutex_);
    left_ = k_requests;
    const double begin = cpu_seconds();
    for (size_t i = 0; i < k_requests; ++i) {
      TurnRequest request;
      request.request_id = next_id_++;
      request.append_tokens.assign(k_prompt, static_cast<int32_t>(i % 10));
      request.max_new_tokens = static_cast<int>(answer_of(i));
      request.rng_key = i;
      request.is_last = true;
      engine_->submit(std::move(request)).value();
    }
    done_.wait(lock, [this] { return left_ == 0; });
    return static_cast<double>(k_requests) / (cpu_seconds() - begin);
  }

 private:
  static constexpr int k_steps = 10;

  void publish() {
    const WeightArrival arrival = engine_->begin_weights(1).value();
    Rng rng(7);
    for (size_t at = 0; at < arrival.bytes.size(); at += sizeof(float)) {
      const float weight = static_cast<float>(rng.uniform() - 0.5) * 0.2F;
      std::memcpy(arrival.bytes.data() + at, &weight, sizeof weight);
    }
    engine_->commit_weights(1).value();
  }

  Data data_;
  CardMemory train_card_{CardId{0}, uint64_t{1} << 30}, card_{CardId{1}, uint64_t{1} << 30};
  std::unique_ptr<TrainEngine> train_;
  std::unique_ptr<GenerationEngine> engine_;
  std::mutex mutex_;
  std::condition_variable done_;
  size_t left_ = 0;
  uint64_t next_id_ = 1;
};

std::string json(const char* name, const Cost& cost, double measured) {
  return fmt::format(
      ",\"{0}_mflop_per_sample\":{1:.2f},\"{0}_roofline_samples_per_s\":{2:.0f},"
      "\"{0}_ceiling_samples_per_s\":{3:.0f},\"{0}_samples_per_cpu_s\":{4:.0f},"
      "\"{0}_share\":{5:.3f}",
      name, cost.flops * 1e-6, 1 / cost.roofline_s, 1 / cost.ceiling_s, measured,
      measured * cost.roofline_s);
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const auto threads = static_cast<uint32_t>(argc > 2 ? std::max(1, std::atoi(argv[2])) : 1);
  use_single_threaded_math();
  const double best = measured_gemm_gflops();
  const Cost update = update_cost(bench::addition_model(64, 10000), best),
             generation = generation_cost(bench::addition_model(64, 10000), best);
  Cost both;
  both.flops = update.flops + generation.flops;
  both.roofline_s = update.roofline_s + generation.roofline_s;
  both.ceiling_s = update.ceiling_s + generation.ceiling_s;
  Work work(threads);
  std::vector<double> updates, generations, sums;
  for (int i = 0; i <= repeats; ++i) {
    const double updated = work.update(), generated = work.generate();
    if (i == 0) continue;  // warm-up
    updates.push_back(updated);
    generations.push_back(generated);
    sums.push_back(1 / (1 / updated + 1 / generated));
  }
  std::string line = fmt::format(
      "{{\"bench\":\"addition\",\"repeats\":{},\"threads\":{},\"gemm_512_gflops\":{:.1f}", repeats,
      threads, best);
  line += json("update", update, median(updates));
  line += json("generation", generation, median(generations)) + json("both", both, median(sums));
  std::puts((line + "}").c_str());
  return 0;
}
