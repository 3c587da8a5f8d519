#pragma once
/// The words of the FrozenLake demo.
#include <memory>

#include "runtime/tasks/tokenizer.hpp"

namespace cohort::tests {

inline std::shared_ptr<const tasks::Tokenizer> lake_tokenizer() {
  return tasks::make_word_tokenizer(tasks::frozen_lake_vocabulary()).value();
}

}  // namespace cohort::tests
