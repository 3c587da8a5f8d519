#pragma once
/// What an owner of card objects adds to its answer, so that placement can compare the ledger with
/// the memory that is really taken (LEAK-1, LEAK-2).
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/control/messages.hpp"

namespace cohort::actors {

/// Fills card_bytes, card_peak_bytes, process and process_bytes of the reply.
void read_memory(const compute::CardMemory& card, control::CardReply& reply);

}  // namespace cohort::actors
