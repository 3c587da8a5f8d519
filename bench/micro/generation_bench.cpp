// Generation of the tiny policy (d=64, 2 layers, 4 query and 2 KV heads, V=32) on this machine's
// cores: decode by batch size, prefill, and the shape of the real workload (turns of 26 appended
// and 3 sampled tokens). Prints one JSON line; `gemm_share` is the work of the multi-turn run over
// that of sgemm 512^3, same cores, same run. Usage: generation_bench [lanes]
// COHORT_CPU_KERNELS=generic|avx2|avx512 picks the kernels.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/micro/addition_model.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/generate/built_in_engine.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {
namespace {

constexpr int k_repeats = 5;

/// Multiply-adds times two of one token's matrices, attention over `context` keys included.
double flops_per_token(const ModelConfig& c, double context, double logits_share) {
  const auto d = static_cast<double>(c.hidden_size);
  const auto q = static_cast<double>(c.q_size());
  const double layer = d * static_cast<double>(c.qkv_size()) + q * d +
                       3 * d * static_cast<double>(c.intermediate_size) + 2 * q * context;
  return 2 * (layer * static_cast<double>(c.num_hidden_layers) +
              logits_share * d * static_cast<double>(c.vocab_size));
}

struct Play {  // the same trajectory shape for all
  uint32_t trajectories = 0;
  uint32_t turns = 1;
  int append = 26;
  int sampled = 3;
  bool is_kept = false;  // after its last turn the trajectory keeps its slot and KV
};

/// An engine and a client that submits a trajectory's next turn as soon as the last one is out.
class Client {
 public:
  Client(const ModelConfig& model, uint32_t lanes, uint32_t running) : model_(model) {
    BuiltInOptions options;
    options.model = model;
    options.card = &card_;
    options.lanes = lanes;
    options.max_running = running;
    engine_ = std::move(open_built_in(options).value());
    (void)engine_->onload_params().value();
    publish();
    const uint64_t tokens = uint64_t{running} * lanes * static_cast<uint64_t>(model.max_position);
    (void)engine_->init_cache(tokens * engine_->capacity().kv_token_bytes).value();
    engine_->start([this](std::vector<TurnOutput> outputs) { on_outputs(outputs); });
  }
  ~Client() { engine_->stop(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Returns the seconds in which `play` runs through from turn `first_turn` on.
  double run(const Play& play, uint32_t first_turn = 0) {
    std::unique_lock lock(mutex_);
    play_ = play;
    left_ = play.trajectories;
    const double begin = now_seconds();
    for (uint32_t i = 0; i < play.trajectories; ++i) submit(i, first_turn);
    done_.wait(lock, [this] { return left_ == 0; });
    return now_seconds() - begin;
  }
  EngineStats stats() const { return engine_->stats(); }

 private:
  void publish() {
    const std::span<std::byte> arrival = engine_->begin_weights(1).value().bytes;
    Rng rng(7);
    for (size_t at = 0; at < arrival.size(); at += sizeof(float)) {
      const float weight = static_cast<float>(rng.uniform() - 0.5) * 0.2F;
      std::memcpy(arrival.data() + at, &weight, sizeof weight);
    }
    engine_->commit_weights(1).value();
  }
  void submit(uint64_t id, uint32_t turn) {
    TurnRequest request;
    request.request_id = id;
    for (int i = 0; i < play_.append; ++i)
      request.append_tokens.push_back(
          static_cast<int32_t>((id * 7 + turn + static_cast<uint64_t>(i) * 3) % 32));
    request.max_new_tokens = play_.sampled;
    request.rng_key = id;
    request.turn = turn;
    request.is_last = turn + 1 == play_.turns && !play_.is_kept;
    engine_->submit(std::move(request)).value();
  }
  void on_outputs(const std::vector<TurnOutput>& outputs) {
    uint32_t ended = 0;
    for (const TurnOutput& out : outputs) {
      if (out.turn + 1 < play_.turns)
        submit(out.request_id, out.turn + 1);
      else
        ++ended;
    }
    if (ended == 0) return;
    std::lock_guard lock(mutex_);
    left_ -= ended;
    if (left_ == 0) done_.notify_one();
  }

  ModelConfig model_;
  CardMemory card_{CardId{0}, uint64_t{4} << 30};
  std::unique_ptr<GenerationEngine> engine_;
  std::mutex mutex_;
  std::condition_variable done_;
  Play play_;
  uint32_t left_ = 0;
};

/// Returns the CPU seconds of this process so far: on a machine with other work they tell more than
/// the wall.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Tokens per second of wall, and per second of CPU of all lanes together.
struct Rate {
  double per_s = 0;
  double per_cpu_s = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Collects repeats of `tokens` tokens each; the first is warm-up.
class RateMeter {
 public:
  explicit RateMeter(double tokens) : tokens_(tokens) {}
  void add(double wall, double cpu) {
    if (is_warm_) {
      wall_.push_back(wall);
      cpu_.push_back(cpu);
    }
    is_warm_ = true;
  }
  Rate rate() const { return {tokens_ / median(wall_), tokens_ / median(cpu_)}; }

 private:
  double tokens_;
  bool is_warm_ = false;
  std::vector<double> wall_, cpu_;
};

/// Context 32 to 97, as FrozenLake's turns have it.
Rate decode_rate(uint32_t lanes, uint32_t batch) {
  Client client(bench::addition_model(320, 100), lanes, batch);
  RateMeter meter(batch * 65.0);
  for (int i = 0; i <= k_repeats; ++i) {
    client.run({batch, 1, 31, 1, true});
    const double cpu = cpu_seconds();
    const double wall = client.run({batch, 2, 0, 65}, 1);
    meter.add(wall, cpu_seconds() - cpu);
  }
  return meter.rate();
}

struct PlayRate {
  Rate tokens;
  double mean_batch = 0;  // [rows per iteration]
};

/// Computed tokens: the appended and the sampled ones.
PlayRate play_rate(uint32_t lanes, uint32_t running, const Play& play) {
  Client client(bench::addition_model(320, 100), lanes, running);
  RateMeter meter(play.trajectories * play.turns * (play.append + play.sampled));
  for (int i = 0; i <= k_repeats; ++i) {
    const double cpu = cpu_seconds();
    const double wall = client.run(play);
    meter.add(wall, cpu_seconds() - cpu);
  }
  return {meter.rate(), client.stats().total.mean_batch()};
}

/// Returns GFLOP/s of sgemm 512^3 on `threads` threads at once, one BLAS thread each.
double gemm_ceiling(uint32_t threads) {
  constexpr int k_rounds = 30;
  std::vector<std::thread> workers;
  const double begin = now_seconds();
  for (uint32_t t = 0; t < threads; ++t)
    workers.emplace_back([] {
      at::NoGradGuard no_grad;
      at::Tensor a = at::ones({512, 512});
      at::Tensor out = at::empty({512, 512});
      for (int i = 0; i < k_rounds; ++i) at::mm_out(out, a, a);
    });
  for (std::thread& worker : workers) worker.join();
  return threads * k_rounds * 2.0 * 512 * 512 * 512 / (now_seconds() - begin) * 1e-9;
}

std::string json(const Rate& rate) {
  return fmt::format("{{\"wall\":{:.0f},\"cpu\":{:.0f}}}", rate.per_s, rate.per_cpu_s);
}

int run(uint32_t lanes) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::string decode;
  for (uint32_t batch : {1U, 8U, 64U, 256U})
    decode += fmt::format("{}\"{}\":{}", decode.empty() ? "" : ",", batch,
                          json(decode_rate(lanes, batch)));
  const PlayRate prefill = play_rate(lanes, 64, {64, 1, 32, 1});
  const Play real{512, 4, 26, 3};
  const PlayRate turns = play_rate(lanes, 256, real);
  (void)gemm_ceiling(lanes);  // warm-up
  const double ceiling = gemm_ceiling(lanes);
  const double gflops =
      turns.tokens.per_s * flops_per_token(bench::addition_model(320, 100), 58, 3.0 / 29.0) * 1e-9;
  fmt::print(
      "{{\"bench\":\"generation\",\"host\":\"{}\",\"cores\":{},\"kernels\":\"{}\",\"lanes\":{},"
      "\"n\":{},\"decode_tokens_per_s\":{{{}}},\"prefill_tokens_per_s\":{},"
      "\"multi_turn_tokens_per_s\":{},\"multi_turn_trajectories_per_s\":{:.0f},"
      "\"multi_turn_mean_batch\":{:.1f},\"gflops\":{:.1f},\"gemm_gflops\":{:.1f},"
      "\"gemm_share\":{:.3f}}}\n",
      host, std::thread::hardware_concurrency(), cpu::decode_kernels().name, lanes, k_repeats,
      decode, json(prefill.tokens), json(turns.tokens),
      turns.tokens.per_s / (real.turns * (real.append + real.sampled)), turns.mean_batch, gflops,
      ceiling, gflops / ceiling);
  return 0;
}

}  // namespace
}  // namespace cohort::compute

int main(int argc, char** argv) {
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  setenv("OMP_NUM_THREADS", "1", 0);
  at::set_num_threads(1);
  const int lanes = argc > 1 ? std::atoi(argv[1]) : 2;
  return cohort::compute::run(static_cast<uint32_t>(std::max(lanes, 1)));
}
