#pragma once
/// A planned job for programs: what `actor-node plan --json` prints and a run keeps as plan.json
/// and as the stream's plan record. Names are stable and documented in docs/plan.md; new ones may
/// be added. Pure. Bound: the size of the plan.
#include <nlohmann/json_fwd.hpp>

#include "runtime/job/job_spec.hpp"

namespace cohort::job {

/// Cards with equal contents share an entry of a phase. Bytes are whole numbers of bytes, times are
/// seconds.
nlohmann::ordered_json job_json(const config::RunConfig& config, const Job& job,
                                const plan::JobPlan& plan);

/// Cards of one phase that hold the same bytes of the same things, ascending.
struct CardRange {
  std::vector<CardId> cards;
  const plan::CardPhase* phase = nullptr;  // of the first of them
};
std::vector<CardRange> equal_cards(const plan::JobPhase& phase);

/// Bytes that count against the card. On the cpu platform work space lies in the process, outside
/// the cards' budgets.
uint64_t counted_bytes(const Job& job, const plan::CardPhase& phase);

}  // namespace cohort::job
