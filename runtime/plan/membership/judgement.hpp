#pragma once
/// What the driver says to the node of the process that holds a card.
#include <cstdint>

namespace cohort::plan {

enum class Judgement : uint8_t {
  shared = 0,  // its losses count
  alone = 1,   // it plays one suspect alone: until it has played it, or is lost, none counts
  pardon = 2,  // its last loss was a prompt's fault, and does not count
  hung = 3,    // it does not get on with its groups: to be ended
};

}  // namespace cohort::plan
