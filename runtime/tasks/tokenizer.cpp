#include "runtime/tasks/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "runtime/tasks/scorers/answer_text.hpp"

namespace cohort::tasks {
namespace {

/// Returns the UTF-8 character at the beginning of `text` (a broken one as its first byte).
std::string_view first_character(std::string_view text) {
  return text.substr(0, character_size(text, 0));
}

class WordTokenizer final : public Tokenizer {
 public:
  static Expected<std::unique_ptr<Tokenizer>> create(const WordVocabulary& vocabulary) {
    auto tokenizer = std::make_unique<WordTokenizer>();
    for (const auto* list : {&vocabulary.specials, &vocabulary.words}) {
      for (const std::string& text : *list) COHORT_TRY(tokenizer->add(text));
    }
    auto is_special = [&](const std::string& text) {
      return std::count(vocabulary.specials.begin(), vocabulary.specials.end(), text) == 1;
    };
    for (const std::string* text : {&vocabulary.pad, &vocabulary.eos}) {
      if (!is_special(*text))
        return Error{Errc::invalid_argument,
                     fmt::format("vocabulary: '{}' is not among the special tokens", *text)};
    }
    return std::unique_ptr<Tokenizer>(std::move(tokenizer));
  }

  Expected<std::vector<int32_t>> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      int32_t id = longest_match(text.substr(at));
      if (id < 0)
        return Error{Errc::invalid_argument,
                     fmt::format("tokenizer: no token for '{}' at offset {}",
                                 first_character(text.substr(at)), at)};
      ids.push_back(id);
      at += texts_[static_cast<size_t>(id)].size();
    }
    return ids;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (int32_t id : ids) {
      if (id >= 0 && id < vocab_size()) text += texts_[static_cast<size_t>(id)];
    }
    return text;
  }

  int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  std::optional<int32_t> token_id(std::string_view text) const override {
    auto found = ids_.find(std::string(text));
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  struct TrieNode {
    std::array<uint32_t, 256> next{};  // 0: no such edge, the root is nobody's child
    int32_t id = -1;
  };

  Expected<void> add(const std::string& text) {
    if (text.empty()) return Error{Errc::invalid_argument, "vocabulary: an empty token"};
    if (!ids_.emplace(text, vocab_size()).second)
      return Error{Errc::invalid_argument, fmt::format("vocabulary: '{}' is there twice", text)};
    size_t node = 0;
    for (char c : text) {
      uint32_t& edge = trie_[node].next[static_cast<unsigned char>(c)];
      bool is_new = edge == 0;
      if (is_new) edge = static_cast<uint32_t>(trie_.size());
      node = edge;
      if (is_new) trie_.emplace_back();  // `edge` is dangling from here
    }
    trie_[node].id = vocab_size();
    texts_.push_back(text);
    return {};
  }

  int32_t longest_match(std::string_view text) const {
    int32_t best = -1;
    size_t node = 0;
    for (char c : text) {
      uint32_t edge = trie_[node].next[static_cast<unsigned char>(c)];
      if (edge == 0) break;
      node = edge;
      if (trie_[node].id >= 0) best = trie_[node].id;
    }
    return best;
  }

  std::vector<TrieNode> trie_{1};
  std::vector<std::string> texts_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

Expected<std::unique_ptr<Tokenizer>> make_word_tokenizer(const WordVocabulary& vocabulary) {
  return WordTokenizer::create(vocabulary);
}

WordVocabulary frozen_lake_vocabulary(std::span<const std::string> texts) {
  WordVocabulary vocabulary;
  vocabulary.specials = {"<pad>", "<|im_start|>", "<|im_end|>"};
  vocabulary.words = {"<|im_start|>user\n",
                      "<|im_end|>\n<|im_start|>user\n",
                      "\n<|im_start|>user\n",
                      "<|im_end|>\n<|im_start|>assistant\n",
                      "<answer>",
                      "</answer>",
                      "Left",
                      "Down",
                      "Right",
                      "Up",
                      "√",
                      "moved",
                      "blocked",
                      "invalid",
                      "\n"};
  for (std::string_view characters : {"P_OGX", "0123456789"}) {
    for (char c : characters) vocabulary.words.emplace_back(1, c);
  }
  for (const std::string& text : texts) {
    for (std::string_view rest = text; !rest.empty();) {
      std::string character(first_character(rest));
      rest.remove_prefix(character.size());
      if (std::find(vocabulary.words.begin(), vocabulary.words.end(), character) ==
          vocabulary.words.end())
        vocabulary.words.push_back(std::move(character));
    }
  }
  return vocabulary;
}

}  // namespace cohort::tasks
