#pragma once
/// Rounds: the order of transfers under a bound of staged bytes per receiver. Internal to
/// runtime/plan/reshard/reshard*. Pure.
#include <cstdint>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {

/// Cuts the plan's transfers at whole units into rounds in which no card receives more than
/// `bucket` bytes and no card sends more than its fair share, sorts them, and fills rounds,
/// staging_peak and critical_bytes. A relayed transfer (hop 1) is not before the round in which its
/// sender received the units.
Expected<void> pack_rounds(ReshardBuilder& builder, uint64_t bucket);

/// Local copies first, then by round, hop and receiver.
void sort_transfers(ReshardPlan& plan);

/// Fills critical_bytes from the sorted transfers.
void fill_critical_bytes(ReshardBuilder& builder);

}  // namespace cohort::plan
