#pragma once
/// Folders from Hugging Face, small: a tokenizer with one token per byte and ChatML's, a chat
/// template, a model. Header only.
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tokenizer_file.hpp"

namespace cohort::tests {

inline constexpr const char* k_chatml_template =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Shows tools in a system message, and what they say as a user's turn.
inline constexpr const char* k_tool_template =
    "{% if tools %}{{ '<|im_start|>system\n' }}{% for t in tools %}{{ t | tojson }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}"
    "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}"
    "{% endif %}{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
    "{% else %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

inline constexpr int32_t k_end_of_text = 256, k_im_start = 257, k_im_end = 258;

/// The character that stands for a byte in a byte-level vocabulary.
inline std::string byte_character(int byte) {
  static constexpr auto is_shown = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int code = byte;
  if (!is_shown(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += is_shown(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

inline void write_tokenizer_folder(const std::filesystem::path& folder,
                                   const std::string& chat_template = k_chatml_template,
                                   const std::string& eos = "<|im_end|>",
                                   const std::vector<std::string>& more_tokens = {}) {
  using Json = nlohmann::ordered_json;
  std::filesystem::create_directories(folder);
  TokenizerFile file{.first_special = 256,
                     .specials = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}};
  file.specials.insert(file.specials.end(), more_tokens.begin(), more_tokens.end());
  for (int byte = 0; byte < 256; ++byte) file.vocabulary[byte_character(byte)] = byte;
  std::ofstream(folder / "tokenizer.json") << tokenizer_json(file).dump();
  Json config = {{"eos_token", eos}, {"pad_token", "<|endoftext|>"}};
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  std::ofstream(folder / "tokenizer_config.json") << config.dump();
}

/// Adds a qwen2 model with small random weights in bf16, drawn from `seed`.
inline void write_byte_model(const std::filesystem::path& folder, int64_t layers = 2,
                             uint32_t seed = 1) {
  using Json = nlohmann::ordered_json;
  constexpr int64_t k_rows = 264, k_hidden = 32, k_inner = 64, k_kv = 16;
  write_tokenizer_folder(folder);
  std::ofstream(folder / "config.json") << Json{
      {"architectures", {"Qwen2ForCausalLM"}},
      {"model_type", "qwen2"},
      {"hidden_act", "silu"},
      {"hidden_size", k_hidden},
      {"intermediate_size", k_inner},
      {"num_hidden_layers", layers},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},
      {"vocab_size", k_rows},
      {"rms_norm_eps", 1e-6},
      {"rope_theta", 10000.0},
      {"tie_word_embeddings", true},
      {"max_position_embeddings", 2048},
      {"eos_token_id", k_im_end},
      {"torch_dtype", "bfloat16"}}.dump();
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors = {
      {"model.embed_tokens.weight", {k_rows, k_hidden}}};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      tensors.push_back({at + norm + ".weight", {k_hidden}});
    for (const auto& [name, rows] : {std::pair{"q", k_hidden}, {"k", k_kv}, {"v", k_kv}}) {
      tensors.push_back({at + "self_attn." + name + "_proj.weight", {rows, k_hidden}});
      tensors.push_back({at + "self_attn." + name + "_proj.bias", {rows}});
    }
    tensors.push_back({at + "self_attn.o_proj.weight", {k_hidden, k_hidden}});
    for (const char* name : {"gate", "up"})
      tensors.push_back({at + "mlp." + name + "_proj.weight", {k_inner, k_hidden}});
    tensors.push_back({at + "mlp.down_proj.weight", {k_hidden, k_inner}});
  }
  tensors.push_back({"model.norm.weight", {k_hidden}});
  Json header;
  std::string bytes;
  uint32_t state = seed;
  for (const auto& [name, shape] : tensors) {
    const size_t begin = bytes.size();
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 1664525 + 1013904223;
      float value = (static_cast<float>(state >> 8) / 16777216.F - 0.5F) * 0.2F;
      if (name.ends_with("norm.weight")) value = 1;
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      bytes.append({static_cast<char>(bits & 0xFF), static_cast<char>(bits >> 8)});
    }
    header[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, bytes.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  for (uint64_t size = text.size(), i = 0; i < 8; ++i) out.put(static_cast<char>(size >> (8 * i)));
  out << text << bytes;
}

}  // namespace cohort::tests
