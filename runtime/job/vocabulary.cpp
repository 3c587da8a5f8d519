#include "runtime/job/vocabulary.hpp"

#include <fmt/format.h>

#include "runtime/config/env_manager.hpp"
#include "runtime/tasks/demo_data.hpp"
#include "runtime/tasks/worlds.hpp"

namespace cohort::job {

namespace {

/// `text` without its placeholders.
std::string fixed_text(std::string text) {
  for (size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open)) {
    size_t close = text.find('}', open);
    if (close == std::string::npos) break;
    text.erase(open, close - open + 1);
  }
  return text;
}

void add_world(const config::EnvTemplate& source, std::vector<std::string>& texts) {
  const config::EnvConfigSection& e = source.env_config;
  texts.push_back(fixed_text(source.agent_system_template));
  texts.push_back(fixed_text(source.agent_template));
  if (config::has_step_template(source))
    texts.push_back("0123456789(step:, observation:, action: )\n");
  if (e.env_instruction) texts.push_back(*e.env_instruction);
  if (config::is_hosted(source.env_type)) {  // it may show anything
    std::string ascii = "\n";
    for (char c = ' '; c <= '~'; ++c) ascii += c;
    texts.push_back(ascii);
    return;
  }
  auto world = tasks::make_world(source.env_type, {});
  if (world && !(*world)->shown().empty()) texts.push_back((*world)->shown());
  for (const auto& [number, glyph] : e.grid_lookup) texts.push_back(glyph);
  for (const auto& [glyph, meaning] : e.grid_vocab) texts.push_back(glyph + meaning);
  if (world && !e.env_instruction) texts.push_back((*world)->instructions());
}

/// What the played environments show.
std::vector<std::string> shown_texts(const config::RunConfig& config) {
  std::vector<std::string> texts;
  for (const auto* manager : {&config.train_env_manager, &config.val_env_manager})
    for (const std::string& tag : manager->tags)
      if (auto found = config.custom_envs.find(tag); found != config.custom_envs.end())
        add_world(found->second, texts);
  return texts;
}

}  // namespace

Expected<tasks::WordVocabulary> vocabulary_of(const config::RunConfig& config) {
  const config::ModelSection& model = config.model;
  if (model.vocabulary.empty()) {
    if (model.tokenizer == "frozen_lake") return tasks::frozen_lake_vocabulary(shown_texts(config));
    if (model.tokenizer == "arithmetic") return tasks::arithmetic_vocabulary();
    if (model.tokenizer == "word_problems") return tasks::word_problem_vocabulary();
    if (model.tokenizer == "bytes") return tasks::byte_vocabulary();
    return Error{
        Errc::config,
        fmt::format("model.tokenizer: no built-in vocabulary '{}'; there are frozen_lake, "
                    "arithmetic, word_problems and bytes, or give a list of words, or a folder "
                    "that has a tokenizer.json",
                    model.tokenizer)};
  }
  tasks::WordVocabulary vocabulary;
  vocabulary.specials = {"<pad>", "<|im_end|>"};
  for (const std::string& word : model.vocabulary)
    if (word != "<pad>" && word != "<|im_end|>") vocabulary.words.push_back(word);
  return vocabulary;
}

Expected<int64_t> vocab_size_of(const config::ModelSection& model, int64_t tokenizer_size) {
  if (model.shape.vocab_size == 0) return tokenizer_size;
  if (model.shape.vocab_size < tokenizer_size)
    return Error{Errc::config, fmt::format("model.vocab_size: {} rows for the tokenizer's {} "
                                           "tokens; give at least as many, or 0",
                                           model.shape.vocab_size, tokenizer_size)};
  return model.shape.vocab_size;
}

}  // namespace cohort::job
