#include "actors/node/card_reading.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/platform/process.hpp"

namespace cohort::actors {

void read_memory(const compute::CardMemory& card, control::CardReply& reply) {
  reply.card_bytes = card.bytes_in_use();
  reply.card_peak_bytes = card.peak_bytes();
  reply.process = fmt::format("process {}", ::getpid());
  reply.process_bytes = platform::anonymous_bytes();
}

}  // namespace cohort::actors
