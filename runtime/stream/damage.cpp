#include "runtime/stream/damage.hpp"

#include <fmt/format.h>

namespace cohort::stream {

std::string Damage::describe() const {
  if (id.offset == 0)
    return fmt::format("segment {} (its first record is {}): {}", id.segment, record, what);
  std::string text = type ? std::string(to_string(*type)) : "type unknown";
  if (key) text += " " + proto::to_string(*key);
  return fmt::format("record {} ({}) in segment {} at {}: {}", record, text, id.segment, id.offset,
                     what);
}

}  // namespace cohort::stream
