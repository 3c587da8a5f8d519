// Prefill and decode of language models with random weights by the engine that a rollout opens,
// against what this machine can do: bytes read per second, and products per second of the dtype, on
// as many threads, measured beside every repeat. One JSON line per shape, dtype and batch.
//   decode_bench [threads] [0.5b|25m|all] [f32|bf16|all] [repeats] [batch]
// 0.5b is the shape of Qwen2.5-0.5B. Tokens are sampled at temperature 1 and end no sequence.
// Rates and shares are per second of wall, and again (`…_cpu`) per second of CPU of each thread: on
// a machine with other work the latter tell more.
// `read_share`: the bytes of all weights for each iteration over what is read in that time.
// `gemm_share`: two operations per weight and token over those of the fastest product, libtorch's
// or our kernels', whichever is faster. COHORT_CPU_KERNELS picks the kernels (decode_kernels.hpp).
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {
namespace {

ModelConfig model_of(const std::string& name, tensor::Dtype dtype) {
  ModelConfig c;
  c.dtype = dtype;
  const bool is_large = name == "0.5b";
  c.vocab_size = is_large ? 151'936 : 32'768;
  c.hidden_size = is_large ? 896 : 384;
  c.intermediate_size = is_large ? 4864 : 1024;
  c.num_hidden_layers = is_large ? 24 : 8;
  c.num_attention_heads = is_large ? 14 : 6;
  c.num_key_value_heads = 2;
  c.head_dim = 64;
  c.max_position = 512;
  c.rope.theta = 1e6;
  return c;
}

/// Seconds of wall, and of CPU of the whole process.
struct Seconds {
  double wall = 0, cpu = 0;
  static Seconds now() {
    timespec cpu{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return {now_seconds(),
            static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9};
  }
  Seconds since(const Seconds& begin) const { return {wall - begin.wall, cpu - begin.cpu}; }
};

/// What is done in a second of wall, and of CPU of each of `threads` threads.
struct Rate {
  double wall = 0, cpu = 0;
  static Rate of(double work, const Seconds& seconds, uint32_t threads) {
    return {work / seconds.wall, work * threads / seconds.cpu};
  }
  Rate times(double factor) const { return {wall * factor, cpu * factor}; }
  Rate over(const Rate& other) const { return {wall / other.wall, cpu / other.cpu}; }
};

/// Runs the same on `threads` threads at once; returns the seconds.
template <class Work>
Seconds timed_on(uint32_t threads, const Work& work) {
  std::vector<std::thread> workers;
  const Seconds begin = Seconds::now();
  for (uint32_t t = 1; t < threads; ++t) workers.emplace_back([&work, t] { work(t); });
  work(0);
  for (std::thread& worker : workers) worker.join();
  return Seconds::now().since(begin);
}

/// What the machine does, one part of it per thread.
class Ceilings {
 public:
  Ceilings(tensor::Dtype dtype, uint32_t threads)
      : dtype_(dtype), threads_(threads), buffer_(k_floats, 1.F) {}

  Rate read_gb_per_s() const {
    const auto part = static_cast<int64_t>(buffer_.size()) / threads_;
    const Seconds seconds = timed_on(threads_, [&](uint32_t t) {
      if (cpu::decode_kernels().row_max(buffer_.data() + t * part, part) != 1.F) std::abort();
    });
    return Rate::of(static_cast<double>(buffer_.size()) * sizeof(float) * 1e-9, seconds, threads_);
  }
  Rate gflops() const {
    const Rate torch = torch_gflops(), kernel = kernel_gflops();
    return {std::max(torch.wall, kernel.wall), std::max(torch.cpu, kernel.cpu)};
  }

 private:
  static constexpr size_t k_floats = size_t{96} << 20;  // more than any cache
  static constexpr int64_t k_rows = 192, k_depth = 1024, k_columns = 2048;
  static constexpr int k_rounds = 8;
  Rate gflops_in(const Seconds& seconds) const {
    const double work = 2e-9 * k_rounds * threads_ * k_rows * k_depth * k_columns;
    return Rate::of(work, seconds, threads_);
  }

  Rate torch_gflops() const {
    const auto dtype = dtype_ == tensor::Dtype::bf16 ? at::kBFloat16 : at::kFloat;
    const at::Tensor a = at::ones({k_rows, k_depth}).to(dtype);
    const at::Tensor b = at::ones({k_columns, k_depth}).to(dtype);
    return gflops_in(timed_on(threads_, [&](uint32_t) {
      const at::NoGradGuard guard;
      for (int i = 0; i < k_rounds; ++i) at::mm(a, b.t());
    }));
  }

  Rate kernel_gflops() const {
    const cpu::DecodeKernels& kernels = cpu::decode_kernels();
    return gflops_in(timed_on(threads_, [&](uint32_t) {
      std::vector<float> out(k_rows * k_columns);
      const std::vector<float> a(k_rows * k_depth, 1.F), w(k_columns * k_depth, 1.F);
      for (int i = 0; i < k_rounds; ++i) {
        if (dtype_ == tensor::Dtype::bf16)
          product<cpu::Bf16MatmulArgs>(kernels.matmul_bf16, kernels.panel, a, w, out);
        else
          product<cpu::MatmulArgs>(kernels.matmul, kernels.panel, a, w, out);
      }
    }));
  }

  template <class Args>
  static void product(void (*matmul)(const Args&), int64_t panel, const std::vector<float>& a,
                      const std::vector<float>& w, std::vector<float>& out) {
    Args args;
    args.a = reinterpret_cast<decltype(args.a)>(a.data());
    args.weights = reinterpret_cast<decltype(args.weights)>(w.data());
    args.lda = args.depth = k_depth;
    args.rows = k_rows;
    args.panels = k_columns / panel;
    args.out = out.data();
    args.ldo = k_columns;
    matmul(args);
  }

  tensor::Dtype dtype_;
  uint32_t threads_;
  std::vector<float> buffer_;
};

/// An engine with random weights, and one turn of many sequences at a time.
class Server {
 public:
  Server(const ModelConfig& model, uint32_t threads, uint32_t running) : model_(model) {
    EngineSetup setup;
    setup.model = model;
    setup.card = &card_;
    setup.threads = threads;
    setup.max_running = running + threads;
    setup.max_context = model.max_position;
    engine_ = engine_named("built_in").value().open(setup).value();
    (void)engine_->onload_params().value();
    publish();
    const EngineCapacity capacity = engine_->capacity();
    const uint64_t sequence = static_cast<uint64_t>(model.max_position) * capacity.kv_token_bytes;
    (void)engine_->init_cache((running + threads) * sequence).value();
    engine_->start([this](const std::vector<TurnOutput>& outputs) {
      std::lock_guard lock(mutex_);
      left_ -= outputs.size();
      if (left_ == 0) done_.notify_one();
    });
  }
  ~Server() { engine_->stop(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  double publish_seconds() const { return publish_seconds_; }

  /// Returns the time of turn `turn` of the sequences: `append` tokens each in, `sampled` out.
  Seconds run(uint32_t sequences, uint32_t turn, int append, int sampled) {
    std::unique_lock lock(mutex_);
    left_ = sequences;
    const Seconds begin = Seconds::now();
    for (uint32_t id = 0; id < sequences; ++id) {
      TurnRequest request;
      request.request_id = id;
      for (int i = 0; i < append; ++i)
        request.append_tokens.push_back(
            static_cast<int32_t>((id * 7919 + static_cast<uint32_t>(i) * 104'729) %
                                 static_cast<uint32_t>(model_.vocab_size)));
      request.max_new_tokens = sampled;
      request.rng_key = id;
      request.turn = turn;
      request.is_last = turn == 1;
      engine_->submit(std::move(request)).value();
    }
    done_.wait(lock, [this] { return left_ == 0; });
    return Seconds::now().since(begin);
  }

 private:
  void publish() {
    const WeightArrival arrival = engine_->begin_weights(1).value();
    Rng rng(7);
    for (size_t at = 0; at < arrival.bytes.size(); at += arrival.element_bytes) {
      const float weight = static_cast<float>(rng.next_u64() >> 40) * 0x1p-24F * 0.1F - 0.05F;
      const uint16_t half = to_bf16(weight);
      if (arrival.element_bytes == sizeof half)
        std::memcpy(arrival.bytes.data() + at, &half, sizeof half);
      else
        std::memcpy(arrival.bytes.data() + at, &weight, sizeof weight);
    }
    const double begin = now_seconds();
    engine_->commit_weights(1).value();
    publish_seconds_ = now_seconds() - begin;
  }

  ModelConfig model_;
  CardMemory card_{CardId{0}, uint64_t{32} << 30};
  std::unique_ptr<GenerationEngine> engine_;
  double publish_seconds_ = 0;
  std::mutex mutex_;
  std::condition_variable done_;
  size_t left_ = 0;
};

/// Medians of what repeats measure.
class Rates {
 public:
  void add(const Rate& rate) {
    wall_.push_back(rate.wall);
    cpu_.push_back(rate.cpu);
  }
  std::string json(const char* name, int digits) const {
    return fmt::format(",\"{0}\":{1:.{3}f},\"{0}_cpu\":{2:.{3}f}", name, median(wall_),
                       median(cpu_), digits);
  }

 private:
  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  }
  std::vector<double> wall_, cpu_;
};

struct Case {
  std::string shape;
  tensor::Dtype dtype;
  uint32_t threads, batch;
  int repeats;
};

/// Prompts are long where the batch is small, so that prefill always has hundreds of rows.
std::string measure(const Case& c, Server& server, const Ceilings& ceilings) {
  const ModelConfig model = model_of(c.shape, c.dtype);
  const int prompt = c.batch == 1 ? 256 : c.batch == 8 ? 64 : 32;
  const int sampled = c.shape == "0.5b" ? (c.batch == 1 ? 16 : 8) : 48;
  const auto weights = static_cast<double>(parameter_count(layout_of(model)));
  const double gigabytes = weights * static_cast<double>(tensor::size_of(c.dtype)) * 1e-9;
  const double head = static_cast<double>(model.vocab_size * model.hidden_size);
  const auto rows = static_cast<double>(c.batch);
  Rates prefill, decode, read_shares, decode_shares, prefill_shares, reads, products;
  for (int i = 0; i <= c.repeats; ++i) {
    const Rate read = ceilings.read_gb_per_s(), gflops = ceilings.gflops();
    const Rate filled = Rate::of(rows * prompt, server.run(c.batch, 0, prompt, 1), c.threads);
    const Rate decoded = Rate::of(rows * sampled, server.run(c.batch, 1, 0, sampled), c.threads);
    if (i == 0) continue;  // warm-up
    prefill.add(filled);
    decode.add(decoded);
    reads.add(read);
    products.add(gflops);
    read_shares.add(decoded.times(gigabytes / rows).over(read));
    decode_shares.add(decoded.times(2e-9 * weights).over(gflops));
    prefill_shares.add(filled.times(2e-9 * (weights - head * (1 - 1. / prompt))).over(gflops));
  }
  std::string line = fmt::format(
      "{{\"bench\":\"decode\",\"shape\":\"{}\",\"dtype\":\"{}\",\"kernels\":\"{}\",\"threads\":{},"
      "\"batch\":{},\"repeats\":{},\"prompt\":{},\"commit_seconds\":{:.3f}",
      c.shape, c.dtype == tensor::Dtype::bf16 ? "bf16" : "f32", cpu::decode_kernels().name,
      c.threads, c.batch, c.repeats, prompt, server.publish_seconds());
  line += prefill.json("prefill_tokens_per_s", 1) + prefill_shares.json("prefill_gemm_share", 3);
  line += decode.json("decode_tokens_per_s", 2) + read_shares.json("decode_read_share", 3);
  line += decode_shares.json("decode_gemm_share", 3) + reads.json("read_gb_per_s", 1);
  return line + products.json("gflops", 0) + "}";
}

/// `only`: the batch to measure; 0: all.
void run(const std::string& shape, tensor::Dtype dtype, uint32_t threads, int repeats,
         uint32_t only) {
  const Ceilings ceilings(dtype, threads);
  constexpr uint32_t k_running = 64;
  Server server(model_of(shape, dtype), threads, k_running);
  for (uint32_t batch : {1U, 8U, 64U}) {
    if (only != 0 && only != batch) continue;
    std::puts(measure({shape, dtype, threads, batch, repeats}, server, ceilings).c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace cohort::compute

int main(int argc, char** argv) {
  using namespace cohort;
  compute::use_single_threaded_math();
  const auto argument = [&](int at, const char* otherwise) {
    return std::string(argc > at ? argv[at] : otherwise);
  };
  const auto threads = static_cast<uint32_t>(std::max(1, std::atoi(argument(1, "2").c_str())));
  const std::string shape = argument(2, "all"), dtype = argument(3, "all");
  const int repeats = std::max(1, std::atoi(argument(4, "7").c_str()));
  const auto batch = static_cast<uint32_t>(std::max(0, std::atoi(argument(5, "0").c_str())));
  for (const char* name : {"25m", "0.5b"}) {
    if (shape != "all" && shape != name) continue;
    if (dtype != "bf16") compute::run(name, tensor::Dtype::f32, threads, repeats, batch);
    if (dtype != "f32") compute::run(name, tensor::Dtype::bf16, threads, repeats, batch);
  }
  return 0;
}
