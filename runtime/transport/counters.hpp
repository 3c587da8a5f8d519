#pragma once
/// Counters of a link end. Internal to runtime/transport. Written by the pump, read by any thread.
#include <atomic>
#include <cstdint>

#include "runtime/transport/link.hpp"

namespace cohort::transport::detail {

struct Counters {
  std::atomic<uint64_t> messages{0}, bytes{0}, chunks{0}, resent{0}, acks{0}, corrupt{0}, gaps{0},
      reconnects{0}, rejected{0};

  LinkStats read() const {
    return {messages, bytes, chunks, resent, acks, corrupt, gaps, reconnects, rejected};
  }
};

}  // namespace cohort::transport::detail
