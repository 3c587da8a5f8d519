// Serves a Hugging Face folder with the engine that a rollout opens, and times batches on request:
// language_peers.py starts it beside transformers and llama.cpp and asks all of them in turns.
//   folder_rate FOLDER f32|bf16 THREADS RUNNING CONTEXT
// It prints {"ready": …}, then reads lines "BATCH PROMPT NEW" and answers each with a JSON line:
// the seconds and CPU seconds from the first submit to the last output, and the tokens of the first
// sequence. Prompts are prompt_token() of peer_workers.py; every token is the most likely one, and
// none ends a sequence.
#include <fmt/format.h>
#include <time.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/model/hf_folder.hpp"

namespace {

using namespace cohort;
using namespace cohort::compute;

/// Token `at` of the prompt of sequence `row`; never one of the first 1,024, which are bytes and
/// special tokens.
int32_t prompt_token(int64_t row, int64_t at, int64_t vocab_size) {
  return static_cast<int32_t>(1024 + (row * 7919 + at * 104'729 + 13) % (vocab_size - 1024));
}

void fill(const WeightFolder& weights, const WeightArrival& arrival) {
  std::vector<float> values;
  for (const ParameterSpec& spec : arrival.layout.specs) {
    values.resize(static_cast<size_t>(spec.count));
    weights.read(spec.name, 0, values);
    std::byte* to = arrival.bytes.data() + static_cast<size_t>(spec.offset) * arrival.element_bytes;
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t half = to_bf16(values[i]);
      if (arrival.element_bytes == sizeof half)
        std::memcpy(to + i * sizeof half, &half, sizeof half);
      else
        std::memcpy(to + i * sizeof(float), &values[i], sizeof(float));
    }
  }
}

/// Of all threads of this process.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Sizes {
  uint32_t threads = 1, running = 1;
  int64_t context = 0;  // [tokens]
};

class Server {
 public:
  Server(const std::string& folder, tensor::Dtype dtype, const Sizes& sizes)
      : model_{model::read_hf_folder(folder).value().shape, dtype} {
    EngineSetup setup;
    setup.model = model_;
    setup.card = &card_;
    setup.threads = sizes.threads;
    // a lane takes its share of the sequences, and one more than that when they do not divide
    setup.max_running = sizes.running + sizes.threads;
    setup.max_context = sizes.context;
    engine_ = engine_named("built_in").value().open(setup).value();
    engine_->onload_params().value();
    const WeightFolder weights = WeightFolder::open(folder).value();
    fill(weights, engine_->begin_weights(1).value());
    engine_->commit_weights(1).value();
    const EngineCapacity capacity = engine_->capacity();
    const uint64_t sequence =
        static_cast<uint64_t>(sizes.context) * capacity.kv_token_bytes + capacity.kv_block_bytes;
    engine_->init_cache((sizes.running + sizes.threads) * sequence).value();
    engine_->start([this](std::vector<TurnOutput> outputs) { take(std::move(outputs)); });
  }
  ~Server() { engine_->stop(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  struct Batch {
    uint32_t rows = 0;
    int prompt = 0, fresh = 0;  // [tokens] of each row
  };
  /// Returns the answer line.
  std::string run(const Batch& batch) {
    std::unique_lock lock(mutex_);
    left_ = batch.rows;
    first_id_ = next_id_;
    const double begin = now_seconds(), cpu = cpu_seconds();
    for (uint32_t row = 0; row < batch.rows; ++row) submit(row, batch);
    done_.wait(lock, [this] { return left_ == 0; });
    return fmt::format("{{\"seconds\":{:.6f},\"cpu\":{:.6f},\"tokens\":[{}]}}",
                       now_seconds() - begin, cpu_seconds() - cpu, fmt::join(first_, ","));
  }

 private:
  void submit(uint32_t row, const Batch& batch) {
    TurnRequest request;
    request.request_id = next_id_++;
    for (int i = 0; i < batch.prompt; ++i)
      request.append_tokens.push_back(prompt_token(row, i, model_.vocab_size));
    request.max_new_tokens = batch.fresh;
    request.sampling.greedy = true;
    request.is_last = true;
    engine_->submit(std::move(request)).value();
  }
  void take(std::vector<TurnOutput> outputs) {
    std::lock_guard lock(mutex_);
    for (TurnOutput& output : outputs)
      if (output.request_id == first_id_) first_ = std::move(output.tokens);
    left_ -= static_cast<uint32_t>(outputs.size());
    if (left_ == 0) done_.notify_one();
  }

  ModelConfig model_;
  CardMemory card_{CardId{0}, uint64_t{1} << 50};  // the host's memory is the bound
  std::unique_ptr<GenerationEngine> engine_;
  std::mutex mutex_;
  std::condition_variable done_;
  uint64_t next_id_ = 1, first_id_ = 0;
  uint32_t left_ = 0;
  std::vector<int32_t> first_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: folder_rate FOLDER f32|bf16 THREADS RUNNING CONTEXT\n");
    return 2;
  }
  use_single_threaded_math();
  const Sizes sizes{static_cast<uint32_t>(std::atoi(argv[3])),
                    static_cast<uint32_t>(std::atoi(argv[4])), std::atoll(argv[5])};
  const bool is_half = std::strcmp(argv[2], "bf16") == 0;
  const double begin = now_seconds();
  Server server(argv[1], is_half ? tensor::Dtype::bf16 : tensor::Dtype::f32, sizes);
  fmt::print("{{\"ready\":true,\"load_s\":{:.3f}}}\n", now_seconds() - begin);
  std::fflush(stdout);
  for (Server::Batch batch; std::cin >> batch.rows >> batch.prompt >> batch.fresh;) {
    std::puts(server.run(batch).c_str());
    std::fflush(stdout);
  }
  return 0;
}
