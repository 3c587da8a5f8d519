#include "runtime/compute/generate/built_in_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/compute/generate/generation_lane.hpp"
#include "runtime/compute/generate/generation_tp.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"
#include "runtime/compute/model/lora_base.hpp"

namespace cohort::compute {
namespace {

Error refused(std::string detail) { return Error{Errc::placement, std::move(detail)}; }
template <class... Args>
Error invalid(fmt::format_string<Args...> text, Args&&... args) {
  return {Errc::invalid_argument, fmt::format(text, std::forward<Args>(args)...)};
}

TpRank tp_rank(const BuiltInOptions& o) {
  if (o.groups.empty()) return {};
  return {o.groups.front()->rank(), o.groups.front()->size()};
}

bool can_run_packed(const BuiltInOptions& o) {
  const bool has_kernels =
      o.model.dtype == tensor::Dtype::f32 || o.model.dtype == tensor::Dtype::bf16;
  return has_kernels && has_packed_layers(o.model) && o.card->device() == nullptr;
}

Expected<void> validate_groups(const BuiltInOptions& o) {
  if (o.groups.empty()) return {};
  if (o.groups.size() != o.lanes)
    return invalid(
        "generation: {} tensor-parallel groups for {} lanes; give each "
        "lane its own",
        o.groups.size(), o.lanes);
  for (const auto& group : o.groups)
    if (group == nullptr || tp_rank(o) != TpRank{group->rank(), group->size()})
      return invalid("generation: an engine has one rank and one size in all of its groups");
  if (o.group_beat_ms <= 0) return invalid("generation: group_beat_ms = {}", o.group_beat_ms);
  const auto part = tp_config(o.model, tp_rank(o).size);
  return part ? Expected<void>{} : part.error();
}

Expected<void> validate(const BuiltInOptions& o) {
  COHORT_TRY(validate(o.model));
  if (o.card == nullptr) return invalid("generation: no card");
  if (o.lanes == 0 || o.lanes > 1024)
    return invalid("generation: lanes = {} is not in 1..1024", o.lanes);
  if (o.max_running == 0) return invalid("generation: max_running is 0");
  if (o.batch_tokens <= 0) return invalid("generation: batch_tokens = {}", o.batch_tokens);
  if (o.max_context < 0 || o.max_context > o.model.max_position)
    return invalid("generation: max_context = {} exceeds the model's max_position {}",
                   o.max_context, o.model.max_position);
  COHORT_TRY(validate_groups(o));
  if (o.threads_per_lane == 0 || o.threads_per_lane > 1024)
    return invalid("generation: threads_per_lane = {} is not in 1..1024", o.threads_per_lane);
  if (o.runner == RunnerKind::cpu_packed && !can_run_packed(o))
    return invalid(
        "generation: the cpu_packed runner needs dtype f32 or bf16, device cpu and a model without "
        "routed experts and latent attention; leave the runner to the engine");
  return {};
}

Expected<std::unique_ptr<ModelRunner>> make_runner(const BuiltInOptions& o) {
  const TpRank tp = tp_rank(o);
  COHORT_ASSIGN(ModelConfig part, tp_config(o.model, tp.size));
  const RunnerOptions options{
      part, o.max_context,      o.batch_tokens,        cpu::k_kv_block_tokens,
      tp,   o.threads_per_lane, o.card->device().get()};
  if (o.runner == RunnerKind::aten || !can_run_packed(o)) return make_aten_runner(options);
  return make_cpu_runner(options);
}

class BuiltInEngine final : public GenerationEngine {
 public:
  BuiltInEngine(BuiltInOptions options, std::unique_ptr<ModelRunner> runner,
                std::optional<LoraBase> base)
      : options_(std::move(options)),
        base_(std::move(base)),
        tp_(tp_rank(options_)),
        part_(tp_config(options_.model, tp_.size).value()),
        runner_(std::move(runner)),
        loads_(options_.lanes) {
    const TpLimits limits{options_.model.vocab_size, options_.batch_tokens, options_.max_context,
                          cpu::k_kv_block_tokens};
    if (tp_.size > 1)
      for (const auto& group : options_.groups)
        links_.push_back(std::make_unique<TpLink>(group, limits));
    make_lanes();
  }

  ~BuiltInEngine() override { BuiltInEngine::stop(); }

  EngineCapacity capacity() const override {
    EngineCapacity capacity;
    capacity.takes_turns = !is_follower();
    capacity.max_context = options_.max_context;
    capacity.max_running = uint64_t{options_.max_running} * options_.lanes;
    capacity.weight_bytes = arrival_bytes();
    capacity.param_bytes = runner_->card_bytes();
    capacity.kv_block_bytes = runner_->kv_block_bytes();
    capacity.kv_token_bytes =
        capacity.kv_block_bytes / static_cast<uint64_t>(cpu::k_kv_block_tokens);
    return capacity;
  }

  void start(OutputHandler on_outputs) override {
    COHORT_CHECK(on_outputs_ == nullptr && on_outputs != nullptr,
                 "generation engine started twice");
    on_outputs_ = std::move(on_outputs);
    for (auto& lane : lanes_) lane->start();
    for (auto& follower : followers_) follower->start();
  }

  void stop() override {
    {
      std::lock_guard lock(registry_mutex_);
      is_stopped_ = true;
      settled_.notify_all();
    }
    resume();
    for (auto& lane : lanes_) {
      COHORT_CHECK(!lane->is_this_thread(), "generation engine: stop() from on_outputs");
      lane->request_stop();
    }
    for (auto& lane : lanes_) lane->join();
    for (auto& follower : followers_) follower->request_stop();
    for (auto& follower : followers_) follower->join();
  }

  // -- weights

  Expected<WeightArrival> begin_weights(uint64_t version) override {
    std::lock_guard lock(control_mutex_);
    arriving_.reset();
    COHORT_ASSIGN(arriving_, take_host(arrival_bytes()));
    arriving_version_ = version;
    const std::span<std::byte> bytes(arriving_.get(), arrival_bytes());
    if (base_) return WeightArrival{bytes, base_->layout().flat, sizeof(float)};
    return WeightArrival{bytes, layout_of(part_), tensor::size_of(part_.dtype)};
  }

  Expected<void> commit_weights(uint64_t version) override {
    std::lock_guard lock(control_mutex_);
    if (!links_.empty()) {
      std::lock_guard registry(registry_mutex_);
      COHORT_TRY(check_idle(fmt::format("commit of version {}", version)));
    }
    if (arriving_ == nullptr || arriving_version_ != version)
      return invalid("weights: version {} was not begun", version);
    COHORT_ASSIGN(std::shared_ptr<std::byte> flat, arrived_weights());
    if (params_.empty()) {
      host_weights_ = std::move(flat);
      is_on_host_ = true;
      version_ = version;
    } else {
      Pause pause(gate_);
      COHORT_TRY(runner_->load({flat.get(), runner_->flat_bytes()}));
      version_ = version;
      keep_host(std::move(flat));
    }
    has_version_ = true;
    std::lock_guard registry(registry_mutex_);
    are_params_ready_ = !params_.empty();
    return {};
  }

  uint64_t weight_version() const override { return version_.load(); }

  Expected<void> load_weights(uint64_t version, const WeightReader& read) override {
    if (!load_to_card(version, read)) return GenerationEngine::load_weights(version, read);
    return {};
  }

  Expected<void> reset_cache() override {
    std::lock_guard lock(control_mutex_);
    Pause pause(gate_);
    for (auto& lane : lanes_) lane->forget_cache();
    return {};
  }

  // -- residency

  Expected<Residency> onload_params() override {
    std::lock_guard lock(control_mutex_);
    const double begin = now_seconds();
    Residency result;
    if (params_.empty()) {
      COHORT_ASSIGN(params_, options_.card->allocate("infer_params", runner_->card_bytes()));
      Pause pause(gate_);
      runner_->attach(params_span());
      if (is_on_host_) {
        COHORT_TRY(runner_->load({host_weights_.get(), runner_->flat_bytes()}));
        is_on_host_ = false;
        if (!options_.card->keeps_pages()) host_weights_.reset();
        result.bytes_moved = runner_->flat_bytes();
      }
      std::lock_guard registry(registry_mutex_);
      are_params_ready_ = has_version_;
    }
    result.bytes_on_card = params_.size_bytes();
    result.seconds = now_seconds() - begin;
    return result;
  }

  Expected<Residency> offload_params() override {
    std::lock_guard lock(control_mutex_);
    const double begin = now_seconds();
    Residency result;
    if (!params_.empty()) {
      COHORT_TRY(close_for_compute(are_params_ready_, "offload of infer_params"));
      Pause pause(gate_);
      if (has_version_) {
        if (host_weights_ == nullptr) {
          COHORT_ASSIGN(host_weights_, take_host(runner_->flat_bytes()));
        }
        COHORT_TRY(runner_->store({host_weights_.get(), runner_->flat_bytes()}));
        is_on_host_ = true;
        result.bytes_moved = runner_->flat_bytes();
      }
      runner_->attach({});
      params_.reset();
    }
    result.seconds = now_seconds() - begin;
    return result;
  }

  Expected<Residency> init_cache(uint64_t bytes) override {
    std::lock_guard lock(control_mutex_);
    const double begin = now_seconds();
    if (!cache_.empty()) return refused("init_cache: the cache is on the card already");
    const uint64_t block_bytes = runner_->kv_block_bytes();
    const uint64_t blocks = std::min<uint64_t>(bytes / block_bytes / options_.lanes, INT32_MAX);
    if (blocks == 0)
      return Error{
          Errc::capacity,
          fmt::format("card {}: kv_cache of {} bytes is less than one block of {} bytes for "
                      "each of {} lanes",
                      options_.card->card().value, bytes, block_bytes, options_.lanes)};
    const uint64_t lane_bytes = blocks * block_bytes;
    COHORT_ASSIGN(cache_,
                  options_.card->allocate_unfilled("kv_cache", lane_bytes * options_.lanes));
    {
      Pause pause(gate_);
      for (uint32_t lane = 0; lane < options_.lanes; ++lane)
        set_lane_cache(lane, {cache_.data() + lane * lane_bytes, static_cast<size_t>(lane_bytes)},
                       static_cast<int32_t>(blocks));
    }
    std::lock_guard registry(registry_mutex_);
    is_cache_ready_ = true;
    return Residency{cache_.size_bytes(), 0, now_seconds() - begin};
  }

  Expected<Residency> free_cache() override {
    std::lock_guard lock(control_mutex_);
    const double begin = now_seconds();
    if (!cache_.empty()) {
      COHORT_TRY(close_for_compute(is_cache_ready_, "free_cache"));
      Pause pause(gate_);
      for (uint32_t lane = 0; lane < options_.lanes; ++lane) set_lane_cache(lane, {}, 0);
      cache_.reset();
    }
    return Residency{0, 0, now_seconds() - begin};
  }

  // -- turns

  Expected<void> submit(TurnRequest request) override {
    if (is_follower())
      return invalid("request {} on rank {} of a tensor-parallel group: turns go to rank 0",
                     request.request_id, tp_.rank);
    COHORT_TRY(validate(request, options_.model.vocab_size));
    const uint64_t id = request.request_id;
    std::lock_guard lock(registry_mutex_);
    if (is_stopped_) return Error{Errc::closed, "generation engine is stopped"};
    if (lost_) return Error{Errc::closed, lost_->detail};
    if (!are_params_ready_ || !is_cache_ready_)
      return refused(fmt::format("PLACE-4: request {} came while {} is not on card {}", id,
                                 are_params_ready_ ? "kv_cache" : "infer_params",
                                 options_.card->card().value));
    auto it = entries_.find(id);
    if (it != entries_.end() && it->second.is_in_flight)
      return invalid("request {}: its last turn is still in flight", id);
    if (it == entries_.end() && request.append_tokens.empty())
      return invalid("request {}: the first turn has no tokens", id);
    const size_t kept = it == entries_.end() ? 0 : it->second.tokens;
    if (request.kept_tokens.value_or(kept) != kept)
      return invalid("GEN-3: request {} turn {}: {} tokens of it are kept, not {}", id,
                     request.turn, kept, *request.kept_tokens);
    const uint32_t lane = it == entries_.end() ? lightest_lane() : it->second.lane;
    LaneLoad& load = loads_[lane];
    if (it == entries_.end() && load.turns >= uint64_t{options_.max_running} + options_.max_waiting)
      return Error{Errc::backpressure,
                   fmt::format("request {}: {} turns wait on lane {}", id, load.turns, lane)};
    Entry& entry = it == entries_.end() ? entries_[id] : it->second;
    entry.lane = lane;
    entry.is_in_flight = true;
    entry.ticket = next_ticket_++;
    entry.tokens += request.append_tokens.size();
    entry.cost = request.append_tokens.size() + static_cast<uint64_t>(request.max_new_tokens);
    load.outstanding_tokens += entry.cost;
    ++load.turns;
    ++turns_in_flight_;
    // Pushed under the lock, so that a finish() of the same id cannot overtake it.
    lanes_[lane]->push(LaneTurn{std::move(request), entry.ticket, now_seconds()});
    return {};
  }

  void finish(uint64_t request_id) override {
    std::lock_guard lock(registry_mutex_);
    auto it = entries_.find(request_id);
    if (it == entries_.end()) return;
    settle(it->second);
    lanes_[it->second.lane]->push_finish(request_id);
    entries_.erase(it);
  }

  void abort(uint64_t request_id) override {
    {
      std::lock_guard lock(registry_mutex_);
      auto it = entries_.find(request_id);
      if (it == entries_.end() || it->second.is_aborted) return;
      if (it->second.is_in_flight) return abort_entry(request_id, it->second);
    }
    finish(request_id);
  }

  void pause(PauseMode mode) override {
    std::lock_guard lock(control_mutex_);
    if (mode == PauseMode::abort) {
      std::unique_lock registry(registry_mutex_);
      for (auto& [id, entry] : entries_)
        if (entry.is_in_flight && !entry.is_aborted) abort_entry(id, entry);
      paused_.reset();  // the lanes end what they have in their next iterations
      settled_.wait(registry, [this] { return is_stopped_ || aborted_ == 0; });
    }
    if (!paused_) paused_.emplace(gate_);
  }

  void resume() override {
    std::lock_guard lock(control_mutex_);
    paused_.reset();
  }

  EngineStats stats() const override {
    std::vector<WorkerStats> workers;
    for (const auto& lane : lanes_) workers.push_back(lane->stats());
    for (const auto& follower : followers_) workers.push_back(follower->stats());
    return stats_of(std::move(workers));
  }

 private:
  uint64_t arrival_bytes() const { return base_ ? base_->adapter_bytes() : runner_->flat_bytes(); }
  /// Returns host memory; what the last version lay in, if it is as large.
  Expected<std::shared_ptr<std::byte>> take_host(uint64_t size_bytes) {
    if (landed_ != nullptr && size_bytes == runner_->flat_bytes()) return std::move(landed_);
    return allocate_host(size_bytes);
  }
  /// Keeps what a version lay in that is on the card now: clearing its pages anew costs as much as
  /// all the rest of a publish. The OS may have them whenever it is short of memory.
  void keep_host(std::shared_ptr<std::byte> flat) {
    offer_pages({flat.get(), runner_->flat_bytes()});
    landed_ = std::move(flat);
  }
  /// Takes what has arrived as weights of the whole part.
  Expected<std::shared_ptr<std::byte>> arrived_weights() {
    std::shared_ptr<std::byte> arrived = std::move(arriving_);
    if (!base_) return arrived;
    COHORT_ASSIGN(std::shared_ptr<std::byte> merged, take_host(runner_->flat_bytes()));
    base_->merge({arrived.get(), arrival_bytes()}, {merged.get(), runner_->flat_bytes()});
    return merged;
  }

  /// Returns false, and changes nothing, if the weights must arrive on the host first: they are not
  /// of the card, of a part of the model, or under an adapter, or the runner wants them whole.
  bool load_to_card(uint64_t version, const WeightReader& read) {
    std::lock_guard lock(control_mutex_);
    if (params_.empty() || !links_.empty() || base_) return false;
    arriving_.reset();
    const ParameterLayout layout = layout_of(part_);
    Pause pause(gate_);
    if (!runner_->load_from([&](int64_t begin, std::span<std::byte> to) {
          read_flat(layout, tensor::size_of(part_.dtype), read, begin, to);
        }))
      return false;
    version_ = version;
    has_version_ = true;
    std::lock_guard registry(registry_mutex_);
    are_params_ready_ = true;
    return true;
  }

  struct Entry {  // a trajectory that is not finished
    uint32_t lane = 0;
    bool is_in_flight = false;
    bool is_aborted = false;  // it leaves with the output of its turn
    uint64_t ticket = 0;
    size_t tokens = 0;  // of all its turns
    uint64_t cost = 0;  // outstanding tokens of the turn in flight
  };
  struct LaneLoad {
    uint64_t outstanding_tokens = 0;
    uint64_t turns = 0;
  };
  using Pause = std::lock_guard<ServeGate>;

  LaneHooks lane_hooks(uint32_t lane) {
    LaneHooks hooks;
    hooks.gate = &gate_;
    hooks.weight_version = [this] { return version_.load(); };
    hooks.deliver = [this, lane](std::vector<LaneOutput> outputs) {
      deliver(lane, std::move(outputs));
    };
    if (links_.empty()) return hooks;
    TpLink* link = links_[lane].get();
    hooks.beat_ms = options_.group_beat_ms;
    hooks.beat = [this, link] {
      if (const auto sent = link->beat(); !sent) on_lost(sent.error());
    };
    hooks.leave = [link] { link->end(); };
    return hooks;
  }

  TpHooks tp_hooks() {
    TpHooks hooks;
    hooks.state = [this](int32_t block_count) {
      std::lock_guard lock(registry_mutex_);
      return TpState{version_.load(), block_count, are_params_ready_ && is_cache_ready_};
    };
    hooks.lost = [this](const Error& error) { on_lost(error); };
    return hooks;
  }

  void make_lanes() {
    if (is_follower()) {
      for (auto& link : links_)
        followers_.push_back(std::make_unique<TpFollower>(*link, gate_, tp_hooks()));
      return;
    }
    SchedulerOptions scheduler;
    scheduler.vocab_size = options_.model.vocab_size;
    scheduler.max_running = options_.max_running;
    scheduler.max_context = options_.max_context;
    scheduler.block_tokens = cpu::k_kv_block_tokens;
    scheduler.batch_tokens = options_.batch_tokens;
    for (uint32_t lane = 0; lane < options_.lanes; ++lane)
      lanes_.push_back(std::make_unique<GenerationLane>(scheduler, lane_hooks(lane)));
  }

  /// REQUIRES: the gate is paused. No blocks: the lane has no cache.
  void set_lane_cache(uint32_t lane, std::span<std::byte> bytes, int32_t blocks) {
    TpLink* link = links_.empty() ? nullptr : links_[lane].get();
    std::unique_ptr<LaneRunner> runner;
    if (blocks > 0) runner = runner_->make_lane(bytes, link);
    if (is_follower()) return followers_[lane]->set_cache(std::move(runner), blocks);
    if (link != nullptr && runner != nullptr)
      runner = std::make_unique<TpLeader>(*link, std::move(runner), blocks, tp_hooks());
    lanes_[lane]->set_cache(std::move(runner), blocks);
  }

  /// One lane's group is gone, so the engine is: the other lanes end theirs too.
  void on_lost(const Error& error) {
    {
      std::lock_guard lock(registry_mutex_);
      if (lost_) return;
      lost_ = error;
    }
    for (auto& link : links_) link->abort(error);
    if (options_.on_group_lost) options_.on_group_lost(error);
  }

  bool is_follower() const { return tp_.rank > 0; }

  /// REQUIRES: the registry lock.
  Expected<void> check_idle(std::string_view command) const {
    if (turns_in_flight_ == 0) return {};
    return refused(fmt::format("PLACE-4: {} on card {} while {} turns are in flight", command,
                               options_.card->card().value, turns_in_flight_));
  }

  /// Refuses while turns are in flight; otherwise `is_ready` is false from here on (PLACE-4).
  Expected<void> close_for_compute(bool& is_ready, std::string_view command) {
    std::lock_guard registry(registry_mutex_);
    COHORT_TRY(check_idle(command));
    is_ready = false;
    return {};
  }

  void deliver(uint32_t lane, std::vector<LaneOutput> outputs) {
    std::vector<TurnOutput> turns;
    turns.reserve(outputs.size());
    {
      std::lock_guard lock(registry_mutex_);
      for (LaneOutput& out : outputs) {
        auto it = entries_.find(out.output.request_id);
        if (it == entries_.end() || it->second.lane != lane || it->second.ticket != out.ticket)
          continue;  // finished meanwhile
        settle(it->second);
        it->second.tokens += out.output.tokens.size();
        if (out.is_last || it->second.is_aborted) entries_.erase(it);
        turns.push_back(std::move(out.output));
      }
    }
    if (!turns.empty()) on_outputs_(std::move(turns));
  }

  /// Takes the turn in flight out of the books. REQUIRES: the registry lock.
  void settle(Entry& entry) {
    if (!entry.is_in_flight) return;
    entry.is_in_flight = false;
    loads_[entry.lane].outstanding_tokens -= entry.cost;
    --loads_[entry.lane].turns;
    --turns_in_flight_;
    if (entry.is_aborted && --aborted_ == 0) settled_.notify_all();
  }

  /// REQUIRES: the registry lock.
  void abort_entry(uint64_t request_id, Entry& entry) {
    entry.is_aborted = true;
    ++aborted_;
    lanes_[entry.lane]->push_abort(request_id);
  }

  uint32_t lightest_lane() const {
    const auto it = std::min_element(
        loads_.begin(), loads_.end(),
        [](const auto& a, const auto& b) { return a.outstanding_tokens < b.outstanding_tokens; });
    return static_cast<uint32_t>(it - loads_.begin());
  }

  std::span<std::byte> params_span() const { return {params_.data(), params_.size_bytes()}; }

  const BuiltInOptions options_;
  const std::optional<LoraBase> base_;  // of an engine that is sent adapters
  const TpRank tp_;
  const ModelConfig part_;
  std::unique_ptr<ModelRunner> runner_;
  ServeGate gate_;
  std::vector<std::unique_ptr<TpLink>> links_;          // one per lane if the model is cut
  std::vector<std::unique_ptr<GenerationLane>> lanes_;  // of rank 0
  std::vector<std::unique_ptr<TpFollower>> followers_;  // of the other ranks
  OutputHandler on_outputs_;
  std::atomic<uint64_t> version_{0};

  std::mutex control_mutex_;             // weights and residency commands, one at a time
  std::shared_ptr<std::byte> arriving_;  // a version that is not committed
  uint64_t arriving_version_ = 0;
  std::shared_ptr<std::byte> landed_;        // flat; its pages are the OS's if it wants them
  std::shared_ptr<std::byte> host_weights_;  // flat; kept on a card that keeps its pages
  bool is_on_host_ = false;                  // they are the committed ones: none on the card
  CardStorage params_, cache_;
  bool has_version_ = false;
  std::optional<Pause> paused_;  // by pause()

  mutable std::mutex registry_mutex_;  // all below
  std::unordered_map<uint64_t, Entry> entries_;
  std::vector<LaneLoad> loads_;
  uint64_t turns_in_flight_ = 0;
  uint64_t aborted_ = 0;  // of them
  std::condition_variable settled_;
  uint64_t next_ticket_ = 1;
  bool are_params_ready_ = false;
  bool is_cache_ready_ = false;
  bool is_stopped_ = false;
  std::optional<Error> lost_;  // the first error of a group
};

}  // namespace

Expected<std::unique_ptr<GenerationEngine>> open_built_in(const BuiltInOptions& options) {
  COHORT_TRY(validate(options));
  BuiltInOptions resolved = options;
  if (resolved.max_context == 0) resolved.max_context = resolved.model.max_position;
  COHORT_ASSIGN(std::unique_ptr<ModelRunner> runner, make_runner(resolved));
  std::optional<LoraBase> base;
  if (resolved.lora) {
    COHORT_ASSIGN(base, LoraBase::open(resolved.base_folder, resolved.model, *resolved.lora,
                                       tp_rank(resolved)));
  }
  std::unique_ptr<GenerationEngine> engine =
      std::make_unique<BuiltInEngine>(std::move(resolved), std::move(runner), std::move(base));
  return engine;
}

}  // namespace cohort::compute
