#pragma once
/// The words of the `model` section's tokenizer: a built-in vocabulary, or the section's own list.
/// Pure.
#include "runtime/config/run_config.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::job {

/// Returns Errc::config for a name that is not built in. frozen_lake also has every character that
/// the played environments show.
Expected<tasks::WordVocabulary> vocabulary_of(const config::RunConfig& config);
/// Returns model.vocab_size, or `tokenizer_size` where it is 0; Errc::config if it is smaller.
Expected<int64_t> vocab_size_of(const config::ModelSection& model, int64_t tokenizer_size);

}  // namespace cohort::job
