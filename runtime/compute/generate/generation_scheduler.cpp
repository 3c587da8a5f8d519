#include "runtime/compute/generate/generation_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace cohort::compute {

LaneScheduler::LaneScheduler(const SchedulerOptions& options)
    : options_(options), samplers_(1, Sampler(options.vocab_size)) {}

void LaneScheduler::set_cache(int32_t block_count) {
  forget_cache();
  pool_ = BlockPool(block_count);
}

void LaneScheduler::forget_cache() {
  COHORT_CHECK(batch_slots_.empty(), "SCHED-1: the cache changes inside an iteration");
  for (auto& [id, slot] : slots_) drop_blocks(*slot);
}

int64_t LaneScheduler::context_limit() const {
  return std::min(options_.max_context, pool_.block_count() * options_.block_tokens);
}

void LaneScheduler::add(LaneTurn turn) {
  auto it = slots_.find(turn.request.request_id);
  if (it == slots_.end())
    waiting_.push_back(std::move(turn));
  else
    begin_turn(*it->second, std::move(turn), turn.submitted_at);
}

void LaneScheduler::remove(uint64_t request_id) {
  COHORT_CHECK(batch_slots_.empty(), "SCHED-1: a slot leaves inside an iteration");
  std::erase_if(waiting_,
                [&](const LaneTurn& turn) { return turn.request.request_id == request_id; });
  auto it = slots_.find(request_id);
  if (it == slots_.end()) return;
  std::erase(active_, it->second.get());
  drop_blocks(*it->second);
  slots_.erase(it);
}

void LaneScheduler::abort(uint64_t request_id, double now) {
  auto waits = std::ranges::find_if(
      waiting_, [&](const LaneTurn& turn) { return turn.request.request_id == request_id; });
  if (waits != waiting_.end()) {
    Slot slot;  // it has sampled nothing
    slot.request_id = request_id;
    slot.turn = std::move(*waits);
    end_turn(slot, TurnStop::aborted, now);
  }
  auto it = slots_.find(request_id);
  if (it != slots_.end() && it->second->has_turn) end_turn(*it->second, TurnStop::aborted, now);
  remove(request_id);
}

/// Appends the turn's tokens; a turn that leaves no room for one more token ends at once.
void LaneScheduler::begin_turn(Slot& slot, LaneTurn turn, double now) {
  COHORT_CHECK(!slot.has_turn, "GEN-2: a trajectory has two turns in flight");
  slot.turn = std::move(turn);
  slot.has_turn = true;
  slot.logp.clear();
  slot.versions.clear();
  const std::vector<int32_t>& added = slot.turn.request.append_tokens;
  slot.tokens.insert(slot.tokens.end(), added.begin(), added.end());
  slot.answer_begin = slot.tokens.size();
  if (slot.tokens.size() >= static_cast<size_t>(context_limit()))
    return end_turn(slot, TurnStop::length, now);
  if (slot.pending() == 0) return end_turn(slot, TurnStop::error, now);  // nothing to sample from
  auto place = std::lower_bound(
      active_.begin(), active_.end(), slot.sequence,
      [](const Slot* other, uint64_t sequence) { return other->sequence < sequence; });
  active_.insert(place, &slot);
}

void LaneScheduler::end_turn(Slot& slot, TurnStop stop, double now) {
  LaneOutput result;
  result.ticket = slot.turn.ticket;
  result.is_last = slot.turn.request.is_last;
  TurnOutput& out = result.output;
  out.request_id = slot.request_id;
  out.turn = slot.turn.request.turn;
  out.tokens.assign(slot.tokens.begin() + static_cast<ptrdiff_t>(slot.answer_begin),
                    slot.tokens.end());
  out.logp = std::move(slot.logp);
  out.versions = std::move(slot.versions);
  out.stop = stop;
  out.seconds = now - slot.turn.submitted_at;
  slot.has_turn = false;
  outputs_.push_back(std::move(result));
}

void LaneScheduler::drop_blocks(Slot& slot) {
  pool_.give_back(slot.blocks);
  slot.blocks.clear();
  slot.cached = 0;
}

/// Takes the blocks of one idle slot or, if there is none, of one with a turn and a later sequence.
/// Returns false if there is neither.
bool LaneScheduler::evict_younger_than(uint64_t sequence) {
  Slot* victim = nullptr;
  for (auto& [id, other] : slots_) {
    if (other->is_in_batch || other->blocks.empty()) continue;
    if (other->has_turn && other->sequence <= sequence) continue;
    const bool is_better =
        victim == nullptr || (victim->has_turn && !other->has_turn) ||
        (victim->has_turn == other->has_turn && other->sequence > victim->sequence);
    if (is_better) victim = other.get();
  }
  if (victim == nullptr) return false;
  drop_blocks(*victim);
  ++evictions_;
  return true;
}

/// Takes blocks for the first `token_count` tokens of the slot, as far as there are any.
void LaneScheduler::reserve(Slot& slot, size_t token_count) {
  const auto wanted =
      static_cast<size_t>(blocks_for(static_cast<int64_t>(token_count), options_.block_tokens));
  while (slot.blocks.size() < wanted) {
    if (auto block = pool_.take())
      slot.blocks.push_back(*block);
    else if (!evict_younger_than(slot.sequence))
      return;
  }
}

void LaneScheduler::schedule(Slot& slot, int64_t& budget) {
  const auto wanted = std::min(slot.pending(), static_cast<size_t>(budget));
  reserve(slot, slot.cached + wanted);
  const size_t room = slot.blocks.size() * static_cast<size_t>(options_.block_tokens) - slot.cached;
  const size_t count = std::min(wanted, room);
  if (count < wanted) is_starved_ = true;
  if (count == 0) return;
  BatchChunk chunk;
  chunk.tokens = slot.tokens.data() + slot.cached;
  chunk.count = static_cast<int64_t>(count);
  chunk.first_position = static_cast<int64_t>(slot.cached);
  chunk.blocks = slot.blocks.data();
  chunk.is_sampled = count == slot.pending();
  batch_.push_back(chunk);
  batch_slots_.push_back(&slot);
  slot.is_in_batch = true;
  budget -= chunk.count;
}

void LaneScheduler::admit(int64_t& budget, double now) {
  while (budget > 0 && !is_starved_ && !waiting_.empty() && slots_.size() < options_.max_running) {
    const TurnRequest& request = waiting_.front().request;
    const int64_t tokens =
        static_cast<int64_t>(request.append_tokens.size()) + request.max_new_tokens;
    const int64_t needed = blocks_for(std::min(tokens, context_limit()), options_.block_tokens);
    // With no turn under way nothing would free blocks by itself: the idle make room.
    while (active_.empty() && needed > pool_.free_count() && evict_younger_than(UINT64_MAX)) {
    }
    if (needed > pool_.free_count()) return;
    auto slot = std::make_unique<Slot>();
    slot->request_id = request.request_id;
    slot->sequence = next_sequence_++;
    Slot& admitted = *slot;
    slots_.emplace(slot->request_id, std::move(slot));
    LaneTurn turn = std::move(waiting_.front());
    waiting_.pop_front();
    begin_turn(admitted, std::move(turn), now);
    if (admitted.has_turn) schedule(admitted, budget);
  }
}

std::span<const BatchChunk> LaneScheduler::plan(double now) {
  COHORT_CHECK(batch_slots_.empty(), "SCHED-1: an iteration is planned twice");
  is_starved_ = false;
  if (pool_.block_count() == 0) return {};
  int64_t budget = options_.batch_tokens;
  for (const bool is_decode : {true, false}) {
    for (Slot* slot : active_) {
      if (budget == 0) break;
      if ((slot->pending() == 1) == is_decode) schedule(*slot, budget);
    }
  }
  admit(budget, now);
  return batch_;
}

SampledToken LaneScheduler::draw(const Slot& slot, const float* logits, Sampler& sampler) const {
  const TurnRequest& request = slot.turn.request;
  const size_t position = slot.tokens.size() - slot.answer_begin;
  const double uniform =
      request.sampling.greedy
          ? 0.0
          : sampling_uniform(request.rng_key, request.turn, request.first_position + position);
  return sampler.sample({logits, static_cast<size_t>(options_.vocab_size)}, request.sampling,
                        uniform, slot.tokens);
}

void LaneScheduler::accept(Slot& slot, const SampledToken& drawn, uint64_t weight_version,
                           double now) {
  const TurnRequest& request = slot.turn.request;
  const size_t position = slot.tokens.size() - slot.answer_begin;
  if (drawn.token < 0) return end_turn(slot, TurnStop::error, now);
  slot.tokens.push_back(drawn.token);
  slot.logp.push_back(drawn.logp);
  slot.versions.push_back(static_cast<uint32_t>(weight_version));
  ++tokens_sampled_;
  const auto& stops = request.stop_ids;
  if (std::find(stops.begin(), stops.end(), drawn.token) != stops.end() ||
      (request.ends_turn && request.ends_turn(drawn.token)))
    end_turn(slot, TurnStop::stop, now);
  else if (position + 1 >= static_cast<size_t>(request.max_new_tokens) ||
           slot.tokens.size() >= static_cast<size_t>(context_limit()))
    end_turn(slot, TurnStop::length, now);
}

void LaneScheduler::complete(const LogitsView& logits, uint64_t weight_version, double now,
                             LaneRunner* lane) {
  drawing_.clear();
  for (size_t i = 0; i < batch_.size(); ++i)
    if (batch_[i].is_sampled) drawing_.push_back(batch_slots_[i]);
  drawn_.assign(drawing_.size(), {});
  const auto draw_row = [&](int64_t row, uint32_t member) {
    const auto at = static_cast<size_t>(row);
    drawn_[at] = draw(*drawing_[at], logits.data + row * logits.ld, samplers_[member]);
  };
  const auto rows = static_cast<int64_t>(drawing_.size());
  if (lane != nullptr) {
    if (samplers_.size() < lane->members())
      samplers_.resize(lane->members(), Sampler(options_.vocab_size));
    lane->share(rows, draw_row);
  } else {
    for (int64_t row = 0; row < rows; ++row) draw_row(row, 0);
  }
  size_t row = 0;
  for (size_t i = 0; i < batch_.size(); ++i) {
    Slot& slot = *batch_slots_[i];
    slot.cached += static_cast<size_t>(batch_[i].count);
    prefill_tokens_ += static_cast<uint64_t>(batch_[i].count) - (batch_[i].is_sampled ? 1 : 0);
    if (batch_[i].is_sampled) accept(slot, drawn_[row++], weight_version, now);
  }
  ++iterations_;
  clear_batch();
}

void LaneScheduler::fail(double now) {
  for (Slot* slot : batch_slots_) end_turn(*slot, TurnStop::error, now);
  clear_batch();
}

/// Ends the iteration: slots whose turn ended become idle, or leave if the turn was the last.
void LaneScheduler::clear_batch() {
  for (Slot* slot : batch_slots_) slot->is_in_batch = false;
  batch_slots_.clear();
  batch_.clear();
  std::erase_if(active_, [](const Slot* slot) { return !slot->has_turn; });
}

std::vector<LaneOutput> LaneScheduler::take_outputs() {
  std::vector<LaneOutput> taken = std::exchange(outputs_, {});
  for (const LaneOutput& out : taken)
    if (out.is_last) remove(out.output.request_id);
  return taken;
}

void LaneScheduler::report(WorkerStats& stats) const {
  stats.iterations = iterations_;
  stats.tokens_sampled = tokens_sampled_;
  stats.prefill_tokens = prefill_tokens_;
  stats.evictions = evictions_;
  stats.running = static_cast<uint32_t>(slots_.size());
  stats.waiting = static_cast<uint32_t>(waiting_.size());
  stats.blocks_free = pool_.free_count();
  stats.blocks_total = pool_.block_count();
}

void LaneScheduler::assert_invariants() const {
  pool_.assert_invariants();
  size_t owned = 0;
  for (const auto& [id, slot] : slots_) {
    owned += slot->blocks.size();
    COHORT_CHECK(slot->cached <= slot->tokens.size(), "SCHED-1: more tokens cached than there are");
    COHORT_CHECK(slot->cached <= slot->blocks.size() * static_cast<size_t>(options_.block_tokens),
                 "SCHED-1: cached tokens have no block");
  }
  COHORT_CHECK(
      owned + static_cast<size_t>(pool_.free_count()) == static_cast<size_t>(pool_.block_count()),
      "SCHED-1: blocks are lost");
  COHORT_CHECK(slots_.size() <= options_.max_running, "SCHED-1: more slots than max_running");
}

}  // namespace cohort::compute
