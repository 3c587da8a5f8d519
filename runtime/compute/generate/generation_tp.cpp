#include "runtime/compute/generate/generation_tp.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"

namespace cohort::compute {

TpLeader::TpLeader(TpLink& link, std::unique_ptr<LaneRunner> runner, int32_t block_count,
                   TpHooks hooks)
    : link_(link),
      runner_(std::move(runner)),
      block_count_(block_count),
      hooks_(std::move(hooks)) {}

Expected<LogitsView> TpLeader::forward(std::span<const BatchChunk> batch) {
  if (link_.error()) return *link_.error();
  auto compute = [&]() -> Expected<LogitsView> {
    COHORT_TRY(link_.announce(batch));
    // If not: the same verdict on every rank. This iteration is off, the next may be sound.
    COHORT_TRY(link_.agree(hooks_.state(block_count_)));
    auto logits = runner_->forward(batch);
    if (!logits) link_.abort(logits.error());  // the others wait for this rank
    return logits;
  };
  auto logits = compute();
  if (link_.error()) hooks_.lost(*link_.error());
  return logits;
}

TpFollower::TpFollower(TpLink& link, ServeGate& gate, TpHooks hooks)
    : link_(link), gate_(gate), hooks_(std::move(hooks)) {}

TpFollower::~TpFollower() {
  request_stop();
  join();
}

void TpFollower::start() {
  COHORT_CHECK(!thread_.joinable(), "generation follower started twice");
  thread_ = std::thread([this] { run(); });
}

void TpFollower::request_stop() {
  {
    std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    is_stopping_ = true;
  }
  link_.abort(Error{Errc::cancelled, "generation on this rank was stopped"});
}

void TpFollower::join() {
  if (thread_.joinable()) thread_.join();
}

void TpFollower::set_cache(std::unique_ptr<LaneRunner> runner, int32_t block_count) {
  runner_ = std::move(runner);
  block_count_ = block_count;
  std::lock_guard lock(mutex_);
  stats_.blocks_total = block_count;
}

WorkerStats TpFollower::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

/// Computes one announced iteration. Returns an error only if the lane cannot go on.
Expected<void> TpFollower::iterate(std::span<const BatchChunk> batch) {
  TpState state = hooks_.state(block_count_);
  for (const BatchChunk& chunk : batch) {
    const int64_t blocks =
        blocks_for(chunk.first_position + chunk.count, link_.limits().block_tokens);
    for (int64_t i = 0; i < blocks; ++i)
      state.is_ready = state.is_ready && chunk.blocks[i] >= 0 && chunk.blocks[i] < block_count_;
  }
  state.is_ready = state.is_ready && runner_ != nullptr;
  if (const auto agreed = link_.agree(state); !agreed) {
    if (link_.error()) return agreed;
    log::error("{}", agreed.error().to_string());
    return {};
  }
  auto logits = runner_->forward(batch);
  if (!logits) return logits.error();
  return {};
}

void TpFollower::run() {
  Expected<void> result;
  while (result) {
    auto order = link_.next();
    if (!order) {
      result = order.error();
      break;
    }
    if (order->kind == TpOrder::Kind::end) {
      std::lock_guard lock(mutex_);
      is_stopping_ = true;  // nobody waits for this rank any more
      return;
    }
    if (order->kind == TpOrder::Kind::beat) continue;
    const double begin = now_seconds();
    gate_.enter();
    result = iterate(order->batch);
    gate_.leave();
    uint64_t rows = 0;
    for (const BatchChunk& chunk : order->batch) rows += static_cast<uint64_t>(chunk.count);
    std::lock_guard lock(mutex_);
    ++stats_.iterations;
    stats_.prefill_tokens += rows;
    stats_.busy_seconds += now_seconds() - begin;
  }
  {
    std::lock_guard lock(mutex_);
    if (is_stopping_) return;
  }
  if (!link_.error()) link_.abort(result.error());
  hooks_.lost(result.error());
}

}  // namespace cohort::compute
