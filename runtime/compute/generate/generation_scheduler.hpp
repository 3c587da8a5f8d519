#pragma once
/// Which rows a lane computes next, and what becomes of them. No thread, no lock, no clock: the
/// lane that owns it passes `now` in. A slot is a trajectory with its tokens and KV blocks;
/// `cached` of its tokens are in the cache, the others are pending rows. A new turn appends pending
/// rows, a sampled token is one more: prefill, decode and the recovery of an evicted trajectory are
/// the same thing. SCHED-1: blocks of slots + free blocks = the pool (KV-2). SCHED-2: the oldest
/// slot with a turn always gets its blocks: idle slots, then younger ones, are evicted. A new
/// trajectory is admitted only into free blocks that hold its first turn, and never while an older
/// one lacks a block; only when no turn is under way are idle slots evicted for it. Slots are not:
/// with max_running trajectories unfinished, others wait for a finish.
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/compute/generate/generation_runner.hpp"
#include "runtime/compute/generate/kv_cache.hpp"

namespace cohort::compute {

struct SchedulerOptions {
  int64_t vocab_size = 0;
  uint32_t max_running = 0;
  int64_t max_context = 0;   // [tokens]
  int64_t block_tokens = 0;  // of one KV block
  int64_t batch_tokens = 0;  // rows of an iteration
};

/// A turn on its way through a lane; the ticket tells it from a later one of the same id.
struct LaneTurn {
  TurnRequest request;
  uint64_t ticket = 0;
  double submitted_at = 0;  // [s]
};

struct LaneOutput {
  TurnOutput output;
  uint64_t ticket = 0;
  bool is_last = false;  // the trajectory leaves with it
};

class LaneScheduler {
 public:
  explicit LaneScheduler(const SchedulerOptions& options);

  /// Starts over with `block_count` blocks (0: no cache): every slot is pending from its first
  /// token on.
  void set_cache(int32_t block_count);
  /// Takes the blocks of every slot: its tokens are computed again.
  void forget_cache();
  void add(LaneTurn turn);
  /// Forgets the trajectory, its turn and its blocks.
  void remove(uint64_t request_id);
  /// Likewise, but its turn ends with what it has sampled.
  void abort(uint64_t request_id, double now);

  /// Chooses the rows of the next iteration; empty if no turn can run now. Valid until the next
  /// call.
  std::span<const BatchChunk> plan(double now);
  /// Takes the logits of the planned rows: samples (on the threads of `lane`, if there is one: each
  /// row is drawn by itself), ends turns.
  void complete(const LogitsView& logits, uint64_t weight_version, double now,
                LaneRunner* lane = nullptr);
  /// The planned rows could not be computed: their turns end with stop "error".
  void fail(double now);
  /// Returns the turns that ended since the last call.
  std::vector<LaneOutput> take_outputs();

  void report(WorkerStats& stats) const;
  void assert_invariants() const;

 private:
  struct Slot {
    uint64_t request_id = 0;
    uint64_t sequence = 0;  // order of admission
    std::vector<int32_t> tokens;
    std::vector<int32_t> blocks;
    size_t cached = 0;        // tokens[0, cached) are in the cache
    size_t answer_begin = 0;  // of the turn, in tokens
    std::vector<float> logp;
    std::vector<uint32_t> versions;
    bool has_turn = false;
    bool is_in_batch = false;
    LaneTurn turn;
    size_t pending() const { return tokens.size() - cached; }
  };

  int64_t context_limit() const;
  void begin_turn(Slot& slot, LaneTurn turn, double now);
  void end_turn(Slot& slot, TurnStop stop, double now);
  void schedule(Slot& slot, int64_t& budget);
  void admit(int64_t& budget, double now);
  void reserve(Slot& slot, size_t token_count);
  bool evict_younger_than(uint64_t sequence);
  void drop_blocks(Slot& slot);
  SampledToken draw(const Slot& slot, const float* logits, Sampler& sampler) const;
  void accept(Slot& slot, const SampledToken& drawn, uint64_t weight_version, double now);
  void clear_batch();

  SchedulerOptions options_;
  BlockPool pool_;
  std::vector<Sampler> samplers_;    // one per member of the lane
  std::vector<SampledToken> drawn_;  // of the iteration, by sampled chunk
  std::vector<Slot*> drawing_;       // likewise
  std::unordered_map<uint64_t, std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> active_;  // slots with a turn, in order of admission
  std::deque<LaneTurn> waiting_;
  std::vector<BatchChunk> batch_;
  std::vector<Slot*> batch_slots_;
  std::vector<LaneOutput> outputs_;
  uint64_t next_sequence_ = 0;
  bool is_starved_ = false;
  uint64_t iterations_ = 0, tokens_sampled_ = 0, prefill_tokens_ = 0, evictions_ = 0;
};

}  // namespace cohort::compute
