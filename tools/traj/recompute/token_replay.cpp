#include "tools/traj/recompute/token_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "runtime/tasks/stop_strings.hpp"
#include "tools/traj/open_run.hpp"

namespace cohort::traj {

std::vector<Part> parts_of(const proto::Trajectory& t) {
  std::vector<Part> parts;
  for (uint32_t turn = 0; turn < t.turns.size(); ++turn) {
    const size_t answer = t.turns[turn].response_begin, over = t.turns[turn].response_end;
    for (size_t begin = answer; begin < over;) {
      size_t end = begin + 1;
      while (end < over && t.token_versions[end] == t.token_versions[begin]) ++end;
      parts.push_back({turn, answer, begin, end, end == over, t.token_versions[begin],
                       t.turns[turn].context_begin});
      begin = end;
    }
  }
  return parts;
}

std::string describe(const TokenDifference& x, const tasks::Tokenizer& tokenizer) {
  const auto told = [&](const std::optional<int32_t>& token, float logp) {
    if (!token) return std::string("the end of the answer");
    return fmt::format("token {} '{}' of log-prob {}", *token,
                       printable(tokenizer.decode(std::vector{*token})), logp);
  };
  return fmt::format("{}: turn {}, position {}: recorded is {}, generated {}",
                     proto::to_string(x.key), x.turn, x.position, told(x.recorded, x.recorded_logp),
                     told(x.sampled, x.sampled_logp));
}

std::optional<TokenDifference> compare(const proto::Trajectory& t, const Part& part,
                                       const compute::TurnOutput& output, bool compares_logp) {
  const size_t count = part.end - part.begin;
  const size_t compared = std::max(count, output.tokens.size());
  for (size_t i = 0; i < compared; ++i) {
    TokenDifference x{t.key, part.turn, part.begin + i, {}, {}, 0, 0};
    if (i < count) {
      x.recorded = t.tokens[part.begin + i];
      x.recorded_logp = t.behavior_logp[part.begin + i];
    }
    if (i < output.tokens.size()) {
      x.sampled = output.tokens[i];
      x.sampled_logp = output.logp[i];
    }
    const bool is_same_logp =
        std::bit_cast<uint32_t>(x.recorded_logp) == std::bit_cast<uint32_t>(x.sampled_logp);
    if (x.recorded != x.sampled || (compares_logp && !is_same_logp)) return x;
  }
  return std::nullopt;
}

/// The handler runs on the engine's threads, `play` on the caller's.
struct TokenReplay::State {
  struct Open {
    size_t part = 0;       // that is sampled
    size_t in_engine = 0;  // tokens of the part's context that the engine has
  };
  SamplingRules rules;
  compute::GenerationEngine& engine;
  std::mutex mutex;
  std::condition_variable changed;
  std::span<const Stretch> stretches;
  std::vector<Open> open;
  uint64_t first_id = 0;  // of the stretches: ids are never used twice
  size_t next = 0, over = 0;
  std::vector<TokenDifference> differences;
  std::optional<Error> error;

  compute::TurnRequest request_of(size_t slot) {
    const Stretch& stretch = stretches[slot];
    const proto::Trajectory& t = *stretch.trajectory;
    const Part& part = stretch.parts[open[slot].part];
    const size_t sampled = part.begin - part.answer;
    compute::TurnRequest request;
    request.request_id = first_id + slot;
    const auto kept = static_cast<ptrdiff_t>(part.context + open[slot].in_engine);
    request.append_tokens.assign(t.tokens.begin() + kept,
                                 t.tokens.begin() + static_cast<ptrdiff_t>(part.begin));
    request.kept_tokens = open[slot].in_engine;
    const actors::AnswerBounds& bounds = rules.bounds.at(t.tag);
    const auto before = std::span(t.turns).first(part.turn + 1);
    const size_t context = part.answer - part.context;
    const int room =
        actors::room_behind(bounds, actors::first_prompt(before, part.context, context), context);
    request.max_new_tokens = part.ends_turn ? actors::answer_limit(bounds, room, sampled)
                                            : static_cast<int>(part.end - part.begin);
    request.stop_ids = rules.stop_ids;
    request.ends_turn = tasks::watch_for(rules.tokenizer, rules.stop_strings);
    if (request.ends_turn)
      for (size_t at = part.answer; at < part.begin; ++at) request.ends_turn(t.tokens[at]);
    request.sampling =
        t.key.kind == proto::TrajectoryKind::val ? rules.held_out_sampling : rules.sampling;
    if (t.key.kind == proto::TrajectoryKind::val_greedy || t.is_greedy)
      request.sampling.greedy = true;
    request.rng_key = actors::rng_key_of(rules.seed, t.key);
    request.turn = part.turn;
    request.first_position = static_cast<uint32_t>(sampled);
    request.is_last = open[slot].part + 1 == stretch.parts.size();
    return request;
  }
  /// The next stretch, or nothing: called with the lock held.
  std::optional<size_t> take() {
    if (next == stretches.size() || error) return std::nullopt;
    return next++;
  }
  void fail(Error what) {
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(what);
    changed.notify_all();
  }
  void submit(size_t slot) {
    if (auto sent = engine.submit(request_of(slot)); !sent)
      fail(sent.error().with_context(proto::to_string(stretches[slot].trajectory->key)));
  }
  void on_output(const compute::TurnOutput& output) {
    const auto slot = static_cast<size_t>(output.request_id - first_id);
    const Stretch& stretch = stretches[slot];
    const Part& part = stretch.parts[open[slot].part];
    if (output.stop != compute::TurnStop::stop && output.stop != compute::TurnStop::length)
      return fail({Errc::compute, fmt::format("{}: a turn ended with '{}'",
                                              proto::to_string(stretch.trajectory->key),
                                              compute::to_string(output.stop))});
    auto difference = compare(*stretch.trajectory, part, output, rules.compares_logp);
    if (!difference && open[slot].part + 1 < stretch.parts.size()) {
      const bool goes_on = stretch.parts[++open[slot].part].context == part.context;
      open[slot].in_engine = goes_on ? part.end - part.context : 0;
      if (!goes_on) engine.finish(output.request_id);
      return submit(slot);
    }
    if (difference) engine.finish(output.request_id);
    std::optional<size_t> following;
    {
      const std::lock_guard lock(mutex);
      if (difference) differences.push_back(*std::move(difference));
      following = take();
      if (++over == stretches.size()) changed.notify_all();
    }
    if (following) submit(*following);
  }
};

TokenReplay::TokenReplay(SamplingRules rules, compute::GenerationEngine& engine)
    : state_(new State{std::move(rules), engine, {}, {}, {}, {}, 0, 0, 0, {}, {}}) {}

TokenReplay::~TokenReplay() = default;

void TokenReplay::on_outputs(std::vector<compute::TurnOutput> outputs) {
  for (const compute::TurnOutput& output : outputs) state_->on_output(output);
}

Expected<std::vector<TokenDifference>> TokenReplay::play(std::span<const Stretch> stretches) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.first_id += s.stretches.size();
  s.stretches = stretches;
  s.open.assign(stretches.size(), {});
  s.next = s.over = 0;
  s.differences.clear();
  for (size_t i = 0; i < s.rules.running_max; ++i) {
    const auto slot = s.take();
    if (!slot) break;
    lock.unlock();
    s.submit(*slot);
    lock.lock();
  }
  s.changed.wait(lock, [&] { return s.error || s.over == stretches.size(); });
  if (s.error) return *s.error;
  std::ranges::sort(s.differences, {}, &TokenDifference::key);
  return s.differences;
}

}  // namespace cohort::traj
