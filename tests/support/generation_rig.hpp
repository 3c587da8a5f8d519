#pragma once
/// A card with a generation engine on it, and a client that waits for turns. Header only;
/// everything is a function of a seed.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/compute/generate/built_in_engine.hpp"
#include "runtime/compute/model/model_tp.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "tests/support/tp_cut.hpp"

namespace cohort::tests {

inline compute::ModelConfig generation_model() {
  compute::ModelConfig config;
  config.vocab_size = 29;
  config.hidden_size = 40;  // not a multiple of a vector: padding is exercised
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 12;
  config.intermediate_size = 52;
  config.max_position = 160;
  config.rope.theta = 100;
  return config;
}

/// Flat weights with spread-out logits, so that a wrong bit anywhere shows.
inline std::vector<float> random_weights(const compute::ModelConfig& config, uint64_t seed = 11) {
  const compute::ParameterLayout layout = compute::layout_of(config);
  std::vector<float> flat(static_cast<size_t>(layout.total_elements), 0.F);
  Rng rng(seed);
  for (const compute::ParameterSpec& spec : layout.specs) {
    const bool is_norm = spec.name.find("norm") != std::string::npos;
    for (int64_t i = 0; i < spec.count; ++i)
      flat[static_cast<size_t>(spec.offset + i)] =
          static_cast<float>((is_norm ? 1.0 : 0.0) + (rng.uniform() - 0.5) * (is_norm ? 0.2 : 0.5));
  }
  return flat;
}

struct RigOptions {
  compute::ModelConfig model = generation_model();
  uint32_t lanes = 1;
  uint32_t threads_per_lane = 1;
  uint32_t max_running = 64;
  int64_t batch_tokens = 256;
  uint32_t max_waiting = 65536;
  int64_t max_context = 0;
  int64_t cache_blocks = 1024;  // per lane
  compute::RunnerKind runner = compute::RunnerKind::automatic;
  uint64_t budget_bytes = uint64_t{1} << 30;
  compute::CardPages pages = compute::CardPages::released;
  std::shared_ptr<compute::Device> device;                    // the card is one
  std::vector<std::shared_ptr<compute::Collectives>> groups;  // tensor parallel: one per lane
  int group_beat_ms = 10000;
  std::function<void(const Error&)> on_group_lost;
};

class GenerationRig {
 public:
  explicit GenerationRig(const RigOptions& options = {})
      : card(options.device ? compute::CardMemory(CardId{4}, options.budget_bytes, options.device)
                            : compute::CardMemory(CardId{4}, options.budget_bytes, options.pages)) {
    compute::BuiltInOptions o;
    o.model = options.model;
    o.card = &card;
    o.lanes = options.lanes;
    o.threads_per_lane = options.threads_per_lane;
    o.max_running = options.max_running;
    o.batch_tokens = options.batch_tokens;
    o.max_waiting = options.max_waiting;
    o.max_context = options.max_context;
    o.runner = options.runner;
    o.groups = options.groups;
    o.group_beat_ms = options.group_beat_ms;
    o.on_group_lost = options.on_group_lost;
    if (!o.groups.empty()) part = {o.groups[0]->rank(), o.groups[0]->size()};
    model = o.model;
    engine = std::move(compute::open_built_in(o).value());
    cache_bytes = static_cast<uint64_t>(options.cache_blocks) * options.lanes *
                  engine->capacity().kv_block_bytes;
  }
  ~GenerationRig() { engine->stop(); }
  GenerationRig(const GenerationRig&) = delete;
  GenerationRig& operator=(const GenerationRig&) = delete;

  /// Everything on the card, these weights (of the whole model) committed, lanes started.
  GenerationRig& serve(const std::vector<float>& flat) {
    engine->onload_params().value();
    publish(1, flat);
    engine->init_cache(cache_bytes).value();
    start();
    return *this;
  }
  void start() {
    engine->start([this](std::vector<compute::TurnOutput> outputs) {
      std::unique_lock lock(mutex_);
      const auto told = on_output_;
      lock.unlock();
      if (told)
        for (const compute::TurnOutput& out : outputs) told(out);
      lock.lock();
      for (compute::TurnOutput& out : outputs)
        outputs_[{out.request_id, out.turn}] = std::move(out);
      arrived_.notify_all();
    });
  }
  /// A bf16 model gets them rounded.
  void publish(uint64_t version, const std::vector<float>& flat) {
    std::vector<uint16_t> halves;
    auto bytes = std::as_bytes(std::span(flat));
    if (model.dtype == tensor::Dtype::bf16) {
      for (float weight : flat) halves.push_back(compute::to_bf16(weight));
      bytes = std::as_bytes(std::span(halves));
    }
    tests::cut_flat(model, part, tensor::size_of(model.dtype), bytes,
                    engine->begin_weights(version).value().bytes);
    engine->commit_weights(version).value();
  }
  /// Plays the turn until `count` of its tokens are sampled, or one more, and calls `then` while
  /// the lane is held there. REQUIRES: one lane, nothing else in flight.
  void interrupt(const compute::TurnRequest& request, int count,
                 const std::function<void()>& then) {
    compute::TurnRequest clock = request;  // its end, on the lane's thread, says that it is time
    clock.request_id = UINT64_MAX;
    clock.max_new_tokens = count;
    clock.stop_ids = {};
    std::promise<void> reached, released;
    auto release = released.get_future().share();
    set_on_output([&reached, release, id = clock.request_id](const compute::TurnOutput& out) {
      if (out.request_id != id) return;
      reached.set_value();
      release.wait();
    });
    engine->pause(compute::PauseMode::keep);
    engine->submit(request).value();
    engine->submit(clock).value();
    engine->resume();
    reached.get_future().wait();
    then();
    set_on_output({});
    released.set_value();
    engine->finish(clock.request_id);
  }
  /// Waits, with a bound, for one turn's output; TurnStop::none means that none came.
  compute::TurnOutput wait(uint64_t id, uint32_t turn, int timeout_ms = 20000) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] {
      return outputs_.contains({id, turn});
    });
    auto it = outputs_.find({id, turn});
    return it == outputs_.end() ? compute::TurnOutput{} : it->second;
  }
  bool has_output(uint64_t id, uint32_t turn) {
    std::lock_guard lock(mutex_);
    return outputs_.contains({id, turn});
  }
  compute::TurnOutput play(compute::TurnRequest request) {
    const uint64_t id = request.request_id;
    const uint32_t turn = request.turn;
    {
      std::lock_guard lock(mutex_);  // one that the same id and turn gave before
      outputs_.erase({id, turn});
    }
    engine->submit(std::move(request)).value();
    return wait(id, turn);
  }

  compute::ModelConfig model;  // whole
  compute::TpRank part;
  compute::CardMemory card;
  std::unique_ptr<compute::GenerationEngine> engine;
  uint64_t cache_bytes = 0;

 private:
  void set_on_output(std::function<void(const compute::TurnOutput&)> told) {
    std::lock_guard lock(mutex_);
    on_output_ = std::move(told);
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::function<void(const compute::TurnOutput&)> on_output_;
  std::map<std::pair<uint64_t, uint32_t>, compute::TurnOutput> outputs_;
};

inline compute::TurnRequest turn_request(uint64_t id, uint32_t turn, size_t append, int sampled,
                                         int64_t vocabulary = 29) {
  compute::TurnRequest request;
  request.request_id = id;
  request.turn = turn;
  request.max_new_tokens = sampled;
  request.rng_key = mix64(id);
  Rng rng = Rng(id).fork(turn);
  for (size_t i = 0; i < append; ++i)
    request.append_tokens.push_back(
        static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocabulary))));
  return request;
}

/// Turn `turn` of the random trajectory `id`: lengths, sampling and tokens depend on nothing else.
inline compute::TurnRequest random_turn(uint64_t id, uint32_t turn) {
  Rng rng = Rng(id + 77).fork(turn);
  auto request = turn_request(id, turn, 1 + rng.below(30), static_cast<int>(1 + rng.below(9)));
  if (rng.below(3) == 0) request.stop_ids = {static_cast<int32_t>(rng.below(29))};
  if (rng.below(3) == 0) request.sampling.temperature = 0.7F;
  if (rng.below(4) == 0) request.sampling.top_k = 5;
  if (rng.below(4) == 0) request.sampling.top_p = 0.9F;
  return request;
}

/// Plays `turns` turns of each trajectory, all at once; outputs by id, then turn.
inline std::map<uint64_t, std::vector<compute::TurnOutput>> play_all(
    GenerationRig& rig, const std::vector<uint64_t>& ids, uint32_t turns) {
  std::map<uint64_t, std::vector<compute::TurnOutput>> played;
  for (uint64_t id : ids) rig.engine->submit(random_turn(id, 0)).value();
  for (uint32_t turn = 0; turn < turns; ++turn) {
    for (uint64_t id : ids) {
      played[id].push_back(rig.wait(id, turn));
      if (turn + 1 < turns)
        rig.engine->submit(random_turn(id, turn + 1)).value();
      else
        rig.engine->finish(id);
    }
  }
  return played;
}

}  // namespace cohort::tests
