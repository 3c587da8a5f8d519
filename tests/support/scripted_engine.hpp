#pragma once
/// A second generation engine: it samples what its script says, when the test says so. No thread,
/// no card memory: what an engine behind a socket would look like to a rollout. It keeps the
/// promises of GenerationEngine (GEN-2, PLACE-4, PLACE-5), so that a test that passes says
/// something about the rollout. Header only; thread-safe.
#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/compute/generate/generation_engine.hpp"

namespace cohort::tests {

class ScriptedEngine final : public compute::GenerationEngine {
 public:
  /// Returns the answer to a turn, given all tokens of the trajectory so far.
  using Script = std::function<std::vector<int32_t>(const compute::TurnRequest&,
                                                    const std::vector<int32_t>& context)>;

  ScriptedEngine(compute::ModelConfig model, int64_t max_context, Script script)
      : model_(std::move(model)), max_context_(max_context), script_(std::move(script)) {}

  compute::EngineCapacity capacity() const override {
    compute::EngineCapacity capacity;
    capacity.max_context = max_context_;
    capacity.max_running = 1024;
    return capacity;
  }
  void start(compute::OutputHandler on_outputs) override { on_outputs_ = std::move(on_outputs); }
  void stop() override {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
    turns_.clear();
  }

  Expected<compute::WeightArrival> begin_weights(uint64_t version) override {
    std::lock_guard lock(mutex_);
    const compute::ParameterLayout layout = compute::layout_of(model_);
    arriving_.assign(static_cast<size_t>(layout.total_elements) * sizeof(float), std::byte{0});
    arriving_version_ = version;
    return compute::WeightArrival{arriving_, layout, sizeof(float)};
  }
  Expected<void> commit_weights(uint64_t version) override {
    std::lock_guard lock(mutex_);
    if (arriving_version_ != version)
      return Error{Errc::invalid_argument, fmt::format("version {} was not begun", version)};
    version_ = version;
    arriving_version_.reset();
    return {};
  }
  uint64_t weight_version() const override {
    std::lock_guard lock(mutex_);
    return version_;
  }
  Expected<void> reset_cache() override { return {}; }

  Expected<compute::Residency> onload_params() override { return set(has_params_, true); }
  Expected<compute::Residency> offload_params() override { return set(has_params_, false); }
  Expected<compute::Residency> init_cache(uint64_t) override { return set(has_cache_, true); }
  Expected<compute::Residency> free_cache() override { return set(has_cache_, false); }

  Expected<void> submit(compute::TurnRequest request) override {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return Error{Errc::closed, "the engine is stopped"};
    if (!has_params_ || !has_cache_) return Error{Errc::placement, "PLACE-4: not on the card"};
    if (turns_.contains(request.request_id))
      return Error{Errc::invalid_argument, "its last turn is still in flight"};
    std::vector<int32_t>& context = contexts_[request.request_id];
    if (request.kept_tokens.value_or(context.size()) != context.size())
      return Error{Errc::invalid_argument, fmt::format("GEN-3: {} tokens are kept, not {}",
                                                       context.size(), *request.kept_tokens)};
    context.insert(context.end(), request.append_tokens.begin(), request.append_tokens.end());
    turns_.emplace(request.request_id, std::move(request));
    return {};
  }
  void finish(uint64_t request_id) override {
    std::lock_guard lock(mutex_);
    turns_.erase(request_id);
    contexts_.erase(request_id);
  }
  void abort(uint64_t request_id) override {
    compute::TurnOutput output;
    {
      std::lock_guard lock(mutex_);
      contexts_.erase(request_id);
      auto turn = turns_.find(request_id);
      if (turn == turns_.end()) return;
      output.request_id = request_id;
      output.turn = turn->second.turn;
      output.tokens = sampled_;
      output.stop = aborted_as_;
      output.logp.assign(sampled_.size(), -0.5F);
      output.versions.assign(sampled_.size(), static_cast<uint32_t>(version_));
      turns_.erase(turn);
    }
    on_outputs_({output});
  }
  void pause(compute::PauseMode mode) override {
    is_paused_ = true;
    if (mode == compute::PauseMode::abort)
      for (uint64_t id : in_flight()) abort(id);
  }
  void resume() override { is_paused_ = false; }
  compute::EngineStats stats() const override {
    std::lock_guard lock(mutex_);
    return compute::stats_of({worker_});
  }

  // -- for the test
  /// Returns the trajectories with a turn in flight.
  std::vector<uint64_t> in_flight() const {
    std::lock_guard lock(mutex_);
    std::vector<uint64_t> ids;
    for (const auto& [id, turn] : turns_) ids.push_back(id);
    return ids;
  }
  compute::TurnRequest turn_of(uint64_t request_id) const {
    std::lock_guard lock(mutex_);
    return turns_.at(request_id);
  }
  /// What a turn has sampled when it is aborted; and how it ended, if it was faster.
  void set_sampled(std::vector<int32_t> tokens,
                   compute::TurnStop stop = compute::TurnStop::aborted) {
    std::lock_guard lock(mutex_);
    sampled_ = std::move(tokens);
    aborted_as_ = stop;
  }
  bool is_paused() const { return is_paused_; }
  size_t trajectories() const {
    std::lock_guard lock(mutex_);
    return contexts_.size();
  }
  /// Ends the turn as the script says; `change` may break what the engine promises.
  void answer(
      uint64_t request_id, const std::function<void(compute::TurnOutput&)>& change = [](auto&) {}) {
    compute::TurnOutput output;
    {
      std::lock_guard lock(mutex_);
      if (is_paused_) return;
      const compute::TurnRequest turn = std::move(turns_.at(request_id));
      turns_.erase(request_id);
      std::vector<int32_t>& context = contexts_.at(request_id);
      output.request_id = request_id;
      output.turn = turn.turn;
      output.tokens = script_(turn, context);
      output.logp.assign(output.tokens.size(), -0.5F);
      output.versions.assign(output.tokens.size(), static_cast<uint32_t>(version_));
      output.stop = compute::TurnStop::stop;
      context.insert(context.end(), output.tokens.begin(), output.tokens.end());
      worker_.tokens_sampled += output.tokens.size();
      worker_.busy_seconds += 1;
    }
    change(output);
    on_outputs_({output});
  }
  void answer_all() {
    for (uint64_t id : in_flight()) answer(id);
  }

 private:
  Expected<compute::Residency> set(bool& is_there, bool value) {
    std::lock_guard lock(mutex_);
    if (!value && !turns_.empty()) return Error{Errc::placement, "PLACE-4: turns are in flight"};
    is_there = value;
    return compute::Residency{};
  }

  const compute::ModelConfig model_;
  const int64_t max_context_;
  const Script script_;
  compute::OutputHandler on_outputs_;
  mutable std::mutex mutex_;  // all below
  std::map<uint64_t, compute::TurnRequest> turns_;
  std::map<uint64_t, std::vector<int32_t>> contexts_;
  std::vector<int32_t> sampled_;
  compute::TurnStop aborted_as_ = compute::TurnStop::aborted;
  std::vector<std::byte> arriving_;
  std::optional<uint64_t> arriving_version_;
  uint64_t version_ = 0;
  compute::WorkerStats worker_;
  bool has_params_ = false, has_cache_ = false, is_stopped_ = false, is_paused_ = false;
};

}  // namespace cohort::tests
