#include "runtime/observe/board.hpp"

#include <algorithm>
#include <array>

namespace cohort::observe {

std::string_view to_string(RunState state) {
  constexpr std::array<std::string_view, 5> k_names = {"starting", "running", "stopping",
                                                       "finished", "failed"};
  const auto number = static_cast<size_t>(state);
  return number < k_names.size() ? k_names[number] : "unknown";
}

ClusterView follow(const ClusterView& before, ClusterView now) {
  for (NodeView& node : now.nodes) {
    node.losses = 0;
    auto old = std::ranges::find(before.nodes, node.node, &NodeView::node);
    if (old == before.nodes.end()) continue;
    const bool is_another = node.pid != old->pid || node.host != old->host;
    node.losses = old->losses.value_or(0) + (!old->is_lost && (node.is_lost || is_another) ? 1 : 0);
  }
  return now;
}

namespace {

/// What is on the cards after `moves`, if `before` was there.
std::vector<Transition> held_after(const std::vector<Transition>* before,
                                   std::span<const std::shared_ptr<const Transition>> moves) {
  std::map<std::pair<uint32_t, std::string>, Transition> on_card;
  auto take = [&](const Transition& move) {
    if (move.to == "card")
      on_card.insert_or_assign({move.card, move.object}, move);
    else
      on_card.erase({move.card, move.object});
  };
  if (before != nullptr) std::ranges::for_each(*before, take);
  for (const auto& move : moves) take(*move);
  std::vector<Transition> held;
  for (auto& [key, move] : on_card) held.push_back(std::move(move));
  return held;
}

}  // namespace

void Board::publish() {
  auto copy = std::make_shared<const RunView>(draft_);
  std::lock_guard lock(mutex_);
  std::swap(published_.run, copy);  // the old one ends outside of the lock
}

void Board::begin_run(RunView run) {
  std::lock_guard writing(writing_);
  draft_ = std::move(run);
  eta_.start(draft_.started);
  publish();
}

void Board::set_stage(const std::string& stage, const std::string& phase, double done) {
  std::lock_guard writing(writing_);
  draft_.stage = stage;
  draft_.phase = phase;
  draft_.stage_done = done;
  if (draft_.state == RunState::starting) draft_.state = RunState::running;
  publish();
}

void Board::set_state(RunState state, const std::string& error) {
  std::lock_guard writing(writing_);
  draft_.state = state;
  draft_.error = error;
  publish();
}

void Board::set_folder(const std::string& run_id, const std::string& folder,
                       const std::vector<ReferenceLine>& references,
                       std::span<const MetricRow> rows) {
  std::lock_guard writing(writing_);
  draft_.references = references;
  draft_.run_id = run_id;
  draft_.folder = folder;
  add_rows_locked(rows);
  draft_.phase_seconds.clear();  // an earlier process spent them
  publish();
}

void Board::add_rows_locked(std::span<const MetricRow> rows) {
  for (const MetricRow& row : rows)
    add_row_locked(row, static_cast<uint64_t>(row.number("trajectories").value_or(0)));
}

void Board::add_rows(std::span<const MetricRow> rows) {
  std::lock_guard writing(writing_);
  add_rows_locked(rows);
  publish();
}

void Board::add_event(EventView event) {
  std::lock_guard writing(writing_);
  auto count = draft_.event_counts.find(event.kind);
  if (count != draft_.event_counts.end())
    ++count->second;
  else if (draft_.event_counts.size() < k_event_kinds_max)
    draft_.event_counts.emplace(event.kind, 1);
  if (draft_.events.size() >= k_shown_events) draft_.events.erase(draft_.events.begin());
  draft_.events.push_back(std::move(event));
  publish();
}

void Board::add_row_locked(const MetricRow& row, uint64_t trajectories) {
  draft_.step = row.step();
  draft_.trajectories = trajectories;
  draft_.tokens += row.number("tokens").value_or(0);
  if (auto sampled = row.number("val/success"))
    draft_.evaluations.push({row.step(), trajectories, *sampled,
                             row.number("val/success_greedy").value_or(k_not_measured)});
  for (const StepTimes& times : step_times_of({&row, 1}))
    for (const auto& [phase, seconds] : times.phases)
      draft_.phase_seconds[phase] += std::max(0.0, seconds);
  draft_.last = std::make_shared<const MetricRow>(row);
  draft_.rows.push(draft_.last);
}

void Board::add_row(const MetricRow& row, uint64_t trajectories, double now) {
  std::lock_guard writing(writing_);
  add_row_locked(row, trajectories);
  eta_.step_done(now);
  const uint64_t left = draft_.total_steps > draft_.step ? draft_.total_steps - draft_.step : 0;
  draft_.eta.reset();
  if (auto seconds = eta_.remaining_seconds(left, now)) draft_.eta = now + *seconds;
  publish();
}

void Board::set_bytes(std::span<const std::pair<uint32_t, uint64_t>> bytes) {
  std::lock_guard writing(writing_);
  for (const auto& [id, used] : bytes) {
    auto card = std::ranges::find(draft_.cards, id, &CardView::card);
    if (card == draft_.cards.end()) continue;
    card->used_bytes = used;
    card->peak_bytes = std::max(card->peak_bytes, used);
  }
  publish();
}

void Board::set_peaks(std::span<const std::pair<uint32_t, uint64_t>> bytes) {
  std::lock_guard writing(writing_);
  for (const auto& [id, peak] : bytes) {
    auto card = std::ranges::find(draft_.cards, id, &CardView::card);
    if (card != draft_.cards.end()) card->peak_bytes = std::max(card->peak_bytes, peak);
  }
  publish();
}

void Board::add_moves(std::span<const Transition> moves) {
  std::lock_guard writing(writing_);
  auto& kept = draft_.transitions;
  for (const Transition& move : moves) kept.push_back(std::make_shared<const Transition>(move));
  if (kept.size() <= k_shown_moves) return;
  const auto cut = static_cast<std::ptrdiff_t>(kept.size() - k_shown_moves / 2);
  draft_.held = std::make_shared<const std::vector<Transition>>(
      held_after(draft_.held.get(), std::span(kept).first(static_cast<size_t>(cut))));
  kept.erase(kept.begin(), kept.begin() + cut);
}

void Board::add_span(ComputeSpan span) {
  std::lock_guard writing(writing_);
  if (draft_.compute.size() >= k_shown_spans)
    draft_.compute.erase(draft_.compute.begin(), draft_.compute.begin() + k_shown_spans / 2);
  draft_.compute.push_back(std::make_shared<const ComputeSpan>(std::move(span)));
}

void Board::set_lost(std::span<const uint32_t> cards, bool is_lost) {
  std::lock_guard writing(writing_);
  for (CardView& card : draft_.cards) {
    if (std::ranges::find(cards, card.card) == cards.end() || card.is_lost == is_lost) continue;
    card.is_lost = is_lost;
    ++(is_lost ? card.losses : card.restarts);
  }
  publish();
}

void Board::set_cluster(ClusterView cluster) {
  auto next = std::make_shared<const ClusterView>(std::move(cluster));
  std::lock_guard lock(mutex_);
  std::swap(published_.cluster, next);
}

DashboardData Board::data() const {
  std::lock_guard lock(mutex_);
  return published_;
}

}  // namespace cohort::observe
