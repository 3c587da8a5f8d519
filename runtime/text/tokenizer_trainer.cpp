#include "runtime/text/tokenizer_trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/text/byte_level.hpp"
#include "runtime/text/normalizer.hpp"
#include "runtime/text/pre_tokenizer.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

using FileJson = nlohmann::ordered_json;

constexpr const char* k_special_tokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
static_assert(std::size(k_special_tokens) == k_chat_ml_tokens);
constexpr TokenId k_end_of_text = 0, k_turn_end = 2;

constexpr const char* k_qwen2_pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/// ChatML; what the assistant says, its end included, is marked as generated.
constexpr const char* k_chat_template =
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message['role'] + '\\n' -}}\n"
    "  {%- if message['role'] == 'assistant' -%}\n"
    "    {%- generation -%}{{- message['content'] + '<|im_end|>' -}}{%- endgeneration -%}\n"
    "  {%- else -%}\n"
    "    {{- message['content'] + '<|im_end|>' -}}\n"
    "  {%- endif -%}\n"
    "  {{- '\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

FileJson byte_level(bool is_pre_tokenizer) {
  FileJson json = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}};
  json["use_regex"] = !is_pre_tokenizer;  // Split has cut the text
  return json;
}

FileJson pre_tokenizer() {
  const FileJson split = {{"type", "Split"},
                          {"pattern", {{"Regex", k_qwen2_pattern}}},
                          {"behavior", "Isolated"},
                          {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", FileJson::array({split, byte_level(true)})}};
}

FileJson normalizer() { return {{"type", "NFC"}}; }

FileJson added_token(size_t index) {
  return {{"content", k_special_tokens[index]},
          {"lstrip", false},
          {"normalized", false},
          {"rstrip", false},
          {"single_word", false},
          {"special", true}};
}

FileJson tokenizer_json(const TrainedBpe& trained) {
  std::vector<std::string> names;
  for (const std::string& token : trained.tokens) names.push_back(characters_of_bytes(token));
  FileJson vocabulary = FileJson::object(), merges = FileJson::array(), added = FileJson::array();
  for (size_t i = 0; i < k_chat_ml_tokens; ++i) {
    FileJson token = {{"id", i}};
    token.update(added_token(i));
    added.push_back(std::move(token));
    vocabulary[k_special_tokens[i]] = i;
  }
  for (size_t i = 0; i < names.size(); ++i) vocabulary[names[i]] = i + k_chat_ml_tokens;
  for (const auto& [left, right] : trained.merges)
    merges.push_back(names[static_cast<size_t>(left)] + " " + names[static_cast<size_t>(right)]);
  FileJson model = {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", nullptr},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", false},
                    {"byte_fallback", false},
                    {"ignore_merges", false}};
  model["vocab"] = std::move(vocabulary);
  model["merges"] = std::move(merges);
  FileJson out = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  out["added_tokens"] = std::move(added);
  out["normalizer"] = normalizer();
  out["pre_tokenizer"] = pre_tokenizer();
  out["post_processor"] = nullptr;
  out["decoder"] = byte_level(false);
  out["model"] = std::move(model);
  return out;
}

FileJson config_json() {
  FileJson tokens;
  for (size_t i = 0; i < k_chat_ml_tokens; ++i) tokens[std::to_string(i)] = added_token(i);
  return {{"add_prefix_space", false},
          {"added_tokens_decoder", tokens},
          {"bos_token", nullptr},
          {"chat_template", k_chat_template},
          {"clean_up_tokenization_spaces", false},
          {"eos_token", k_special_tokens[k_turn_end]},
          {"model_input_names", {"input_ids", "attention_mask"}},   // no token_type_ids
          {"model_max_length", 1000000000000000019884624838656.0},  // none
          {"pad_token", k_special_tokens[k_end_of_text]},
          {"tokenizer_class", "PreTrainedTokenizerFast"},
          {"unk_token", nullptr}};
}

FileJson generation_json() {
  return {{"eos_token_id", {k_turn_end, k_end_of_text}}, {"pad_token_id", k_end_of_text}};
}

}  // namespace

/// Cuts a text into pieces as the tokenizer will.
struct TokenizerTrainer::Cutter {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::vector<TextPiece> pieces, spare;
};

TokenizerTrainer::TokenizerTrainer()
    : cutter_(std::make_unique<Cutter>(
          Cutter{Normalizer::read(nlohmann::json(normalizer())).value(),
                 PreTokenizer::read(nlohmann::json(pre_tokenizer())).value(),
                 {},
                 {}})) {}
TokenizerTrainer::~TokenizerTrainer() = default;

Expected<void> TokenizerTrainer::add(std::string_view text) {
  bytes_ += text.size();
  std::string valid;
  if (!is_valid_utf8(text)) {
    valid = to_valid_utf8(text);
    text = valid;
  }
  // No piece holds the end of a line and a character behind it that is no blank: cut there.
  constexpr size_t k_part = size_t{1} << 20;
  while (text.size() > k_part) {
    size_t end = k_part;
    const auto is_good = [&] {
      const auto next = static_cast<unsigned char>(text[end]);
      return text[end - 1] == '\n' && next > ' ' && next < 0x7F;
    };
    while (end < text.size() && !is_good()) ++end;
    COHORT_TRY(add_part(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return add_part(text);
}

Expected<void> TokenizerTrainer::add_part(std::string_view text) {
  TextBuffers buffers(false);
  StepBudget budget{UINT64_MAX};
  TextPiece whole{.text = text, .is_first = true};
  COHORT_TRY(cutter_->normalizer.apply(whole, buffers, budget));
  cutter_->pieces.assign(1, whole);
  COHORT_TRY(cutter_->pre_tokenizer.apply(cutter_->pieces, cutter_->spare, buffers, budget));
  for (const TextPiece& piece : cutter_->pieces) ++counts_[std::string(piece.text)];
  return {};
}

Expected<TokenizerTrainer::Files> TokenizerTrainer::train(const Options& options) const {
  if (options.size < k_tokenizer_size_min)
    return Error{Errc::invalid_argument,
                 fmt::format("a tokenizer has at least {} tokens: {} special ones and 256 bytes",
                             k_tokenizer_size_min, k_chat_ml_tokens)};
  const TrainedBpe trained =
      train_bpe(counts_, {options.size - k_chat_ml_tokens, options.frequency_min});
  Files files;
  files.tokens = trained.tokens.size() + k_chat_ml_tokens;
  files.texts["tokenizer.json"] = tokenizer_json(trained).dump(1) + "\n";
  files.texts["tokenizer_config.json"] = config_json().dump(2) + "\n";
  files.texts["generation_config.json"] = generation_json().dump(2) + "\n";
  return files;
}

}  // namespace cohort::text
