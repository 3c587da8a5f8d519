#pragma once
/// A dialogue with a model as token ids: what the user says is rendered by the folder's chat
/// template and appended, what the model samples is appended as it was sampled. One thread.
///
/// DIALOGUE-1: the ids of an answer are never made from its text again, as long as the template
/// renders what came before as it did (blanks around an answer aside). A template that changes
/// earlier turns (Qwen3 drops their thoughts) has the dialogue encoded again from the first change
/// on, and has_changed_text() says so.
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/tokenizer_folder.hpp"

namespace cohort::text {

class Dialogue {
 public:
  struct Options {
    const TokenizerFolder* folder = nullptr;  // outlives the dialogue
    std::string system = {};                  // the first message; empty: none
    nlohmann::ordered_json kwargs = nullptr;  // variables of the template: an object, or null
    std::tm local_time = {};                  // what strftime_now tells
  };
  /// Returns Errc::not_found if the folder has no chat template, and the error of one that cannot
  /// be read.
  static Expected<Dialogue> begin(Options options);

  /// Appends what the user says and the head of the answer. Returns Errc::invalid_argument for text
  /// that is not UTF-8 and where the template raises, Errc::capacity where a text takes too long;
  /// the dialogue is as before then. REQUIRES: each ask() is followed by an answer().
  Expected<void> ask(std::string_view text);
  /// Appends the answer: sampled ids, the one that ends it included, if there is one.
  void answer(std::span<const TokenId> ids);
  /// Forgets all turns.
  void reset();

  /// Everything so far. Behind ask() it is what the answer is sampled after.
  std::vector<TokenId> ids() const;
  bool has_changed_text() const { return has_changed_text_; }

 private:
  /// A part of the dialogue that is encoded, or was sampled, as one.
  struct Piece {
    std::string text;
    std::vector<TokenId> ids;
    bool is_sampled = false;
  };
  Dialogue(Options options, ChatTemplate compiled);
  Expected<std::string> render(const nlohmann::ordered_json& messages) const;

  Options options_;
  ChatTemplate template_;
  nlohmann::ordered_json messages_;
  std::vector<Piece> pieces_;
  bool has_changed_text_ = false;
};

}  // namespace cohort::text
