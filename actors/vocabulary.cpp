#include "actors/vocabulary.hpp"

#include <fmt/format.h>

namespace cohort::actors {

Expected<tasks::WordVocabulary> vocabulary_of(const config::ModelSection& model) {
  if (model.vocabulary.empty()) {
    if (model.tokenizer == "frozen_lake") return tasks::frozen_lake_vocabulary();
    return Error{
        Errc::config,
        fmt::format("model.tokenizer: no built-in vocabulary '{}'; there is frozen_lake, or give "
                    "a list of words",
                    model.tokenizer)};
  }
  tasks::WordVocabulary vocabulary;
  vocabulary.specials = {"<pad>", "<|im_end|>"};
  for (const std::string& word : model.vocabulary)
    if (word != "<pad>" && word != "<|im_end|>") vocabulary.words.push_back(word);
  return vocabulary;
}

Expected<int64_t> vocab_size_of(const config::ModelSection& model, int64_t tokenizer_size) {
  if (model.vocab_size == 0) return tokenizer_size;
  if (model.vocab_size < tokenizer_size)
    return Error{Errc::config, fmt::format("model.vocab_size: {} rows for the tokenizer's {} "
                                           "tokens; give at least as many, or 0",
                                           model.vocab_size, tokenizer_size)};
  return model.vocab_size;
}

}  // namespace cohort::actors
