// Tensor-parallel generation on this machine: what an exchange costs, and what a decode iteration
// costs on 1, 2 and 4 ranks that are threads of this process, over memory and over Gloo's loopback
// sockets, interleaved. One JSON line a case; `share` is the whole model's time over that of the
// ranks, over min(ranks, cores): 1 would be no cost at all.
// Usage: tensor_parallel_bench [repeats] [exchange | iteration]
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/kv_cache.hpp"
#include "runtime/compute/generate/tp_link.hpp"

namespace cohort::compute {
namespace {

constexpr int64_t k_block = 16;
constexpr int64_t k_context = 128;  // keys before the first measured token

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

GroupOptions group_options(int rank, int size, std::shared_ptr<Rendezvous> rendezvous,
                           CollectiveBackend backend) {
  GroupOptions options;
  options.name = "bench";
  options.rank = rank;
  options.size = size;
  options.rendezvous = std::move(rendezvous);
  options.backend = backend;
  return options;
}

template <class Body>
void on_ranks(int size, CollectiveBackend backend, Body body) {
  const auto rendezvous = Rendezvous::in_process();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      body(rank, std::shared_ptr<Collectives>(
                     Collectives::join(group_options(rank, size, rendezvous, backend)).value()));
    });
}

/// Returns the mean microseconds of an all_gather of `bytes` from every rank.
double exchange_us(int size, CollectiveBackend backend, size_t bytes) {
  constexpr int k_rounds = 100;
  double seconds = 0;
  on_ranks(size, backend, [&](int rank, const std::shared_ptr<Collectives>& group) {
    std::vector<std::byte> all(bytes * static_cast<size_t>(size));
    std::vector<std::span<std::byte>> views;
    for (int r = 0; r < size; ++r)
      views.push_back(std::span(all).subspan(bytes * static_cast<size_t>(r), bytes));
    const auto gather = [&](int rounds) {
      for (int i = 0; i < rounds; ++i)
        group->all_gather(views[static_cast<size_t>(rank)], views).value();
    };
    gather(5);
    const double begin = now_seconds();
    gather(k_rounds);
    if (rank == 0) seconds = now_seconds() - begin;
  });
  return seconds / k_rounds * 1e6;
}

struct Case {
  const char* name;
  ModelConfig model;
};

std::vector<Case> cases() {
  ModelConfig tiny;  // the policy of FrozenLake
  tiny.vocab_size = 32;
  tiny.hidden_size = 64;
  tiny.num_hidden_layers = 2;
  tiny.num_attention_heads = 4;
  tiny.num_key_value_heads = 2;
  tiny.head_dim = 16;
  tiny.intermediate_size = 192;
  tiny.max_position = 320;
  ModelConfig half;  // four of the 24 layers of a 0.5 B model, and an eighth of its vocabulary
  half.vocab_size = 18992;
  half.hidden_size = 896;
  half.num_hidden_layers = 4;
  half.num_attention_heads = 16;
  half.num_key_value_heads = 2;
  half.head_dim = 64;
  half.intermediate_size = 4864;
  half.max_position = 320;
  return {{"tiny", tiny}, {"0.5B, 4 layers", half}};
}

/// One rank with weights and cache on its card.
class Rank {
 public:
  Rank(const ModelConfig& whole, TpRank at, TpLink* link, int64_t sequences)
      : card_(CardId{static_cast<uint32_t>(at.rank)}, uint64_t{2} << 30) {
    runner_ =
        make_cpu_runner({tp_config(whole, at.size).value(), whole.max_position, 4096, k_block, at});
    weights_ = card_.allocate("infer_params", runner_->card_bytes()).value();
    const int64_t blocks = sequences * blocks_for(whole.max_position, k_block);
    cache_ = card_.allocate("kv_cache", runner_->kv_block_bytes() * static_cast<uint64_t>(blocks))
                 .value();
    runner_->attach({weights_.data(), weights_.size_bytes()});
    std::vector<float> flat(runner_->flat_bytes() / sizeof(float));
    Rng rng(7);
    for (float& w : flat) w = static_cast<float>(rng.uniform() - 0.5) * 0.05F;
    runner_->load(std::as_bytes(std::span(flat))).value();
    lane_ = runner_->make_lane({cache_.data(), cache_.size_bytes()}, link);
  }
  Expected<LogitsView> forward(std::span<const BatchChunk> batch) { return lane_->forward(batch); }

 private:
  CardMemory card_;
  std::unique_ptr<ModelRunner> runner_;
  CardStorage weights_, cache_;
  std::unique_ptr<LaneRunner> lane_;
};

/// Decodes `sequences` sequences by one token, some times; returns the median milliseconds of an
/// iteration as the engine makes it: announcement, agreement, forward.
double iteration_ms(const ModelConfig& whole, int size, CollectiveBackend backend,
                    int64_t sequences) {
  constexpr int k_iterations = 5;
  const int64_t blocks_each = blocks_for(whole.max_position, k_block);
  std::vector<int32_t> tokens, blocks;
  for (int64_t i = 0; i < sequences; ++i)
    tokens.push_back(static_cast<int32_t>(i * 7 % whole.vocab_size));
  for (int64_t i = 0; i < sequences * blocks_each; ++i) blocks.push_back(static_cast<int32_t>(i));
  std::vector<BatchChunk> batch;
  for (int64_t i = 0; i < sequences; ++i)
    batch.push_back({tokens.data() + i, 1, k_context, blocks.data() + i * blocks_each, true});
  std::vector<double> times;
  const TpState state{1, 1, true};
  const auto lead = [&](Rank& rank, TpLink* link) {
    for (int repeat = 0; repeat <= k_iterations; ++repeat) {
      const double begin = now_seconds();
      if (link != nullptr) {
        link->announce(batch).value();
        link->agree(state).value();
      }
      (void)rank.forward(batch).value();
      if (repeat > 0) times.push_back((now_seconds() - begin) * 1e3);
    }
    if (link != nullptr) link->end();
  };
  if (size == 1) {
    Rank alone(whole, {}, nullptr, sequences);
    lead(alone, nullptr);
    return median(times);
  }
  on_ranks(size, backend, [&](int rank, std::shared_ptr<Collectives> group) {
    TpLink link(std::move(group), {whole.vocab_size, 4096, whole.max_position, k_block});
    Rank mine(whole, {rank, size}, &link, sequences);
    if (rank == 0) return lead(mine, &link);
    for (auto order = link.next().value(); order.kind == TpOrder::Kind::batch;
         order = link.next().value()) {
      link.agree(state).value();
      (void)mine.forward(order.batch).value();
    }
  });
  return median(times);
}

constexpr CollectiveBackend k_backends[] = {CollectiveBackend::memory, CollectiveBackend::gloo};

const char* name_of(CollectiveBackend backend) {
  return backend == CollectiveBackend::memory ? "memory" : "gloo";
}

void report_exchanges(const std::string& head, int repeats) {
  for (int size : {2, 4})
    for (size_t bytes : {size_t{64}, size_t{16} << 10, size_t{256} << 10, size_t{2} << 20}) {
      std::vector<double> times[2];
      for (int repeat = 0; repeat < repeats; ++repeat)
        for (size_t b = 0; b < 2; ++b) times[b].push_back(exchange_us(size, k_backends[b], bytes));
      fmt::print(
          "{{{},\"case\":\"all_gather\",\"ranks\":{},\"bytes\":{},\"memory_us\":{:.1f},"
          "\"gloo_us\":{:.1f}}}\n",
          head, size, bytes, median(times[0]), median(times[1]));
    }
}

void report_iterations(const std::string& head, int repeats) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  for (const Case& c : cases())
    for (int64_t sequences : {1, 64})
      for (int size : {2, 4}) {
        std::vector<double> whole, cut[2];
        for (int repeat = 0; repeat < repeats; ++repeat) {
          whole.push_back(iteration_ms(c.model, 1, CollectiveBackend::memory, sequences));
          for (size_t b = 0; b < 2; ++b)
            cut[b].push_back(iteration_ms(c.model, size, k_backends[b], sequences));
        }
        std::string parts;
        for (size_t b = 0; b < 2; ++b)
          parts +=
              fmt::format(",\"{0}_ms\":{1:.3f},\"{0}_share\":{2:.2f}", name_of(k_backends[b]),
                          median(cut[b]), median(whole) / median(cut[b]) / std::min(size, cores));
        fmt::print("{{{},\"case\":\"{}\",\"rows\":{},\"ranks\":{},\"whole_ms\":{:.3f}{}}}\n", head,
                   c.name, sequences, size, median(whole), parts);
      }
}

int run(int repeats, const std::string& only) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto head =
      fmt::format("\"bench\":\"tensor_parallel\",\"host\":\"{}\",\"cores\":{},\"n\":{}", host,
                  std::thread::hardware_concurrency(), repeats);
  if (only != "iteration") report_exchanges(head, repeats);
  if (only != "exchange") report_iterations(head, repeats);
  return 0;
}

}  // namespace
}  // namespace cohort::compute

int main(int argc, char** argv) {
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  setenv("OMP_NUM_THREADS", "1", 0);
  return cohort::compute::run(argc > 1 ? std::atoi(argv[1]) : 7, argc > 2 ? argv[2] : "");
}
