#pragma once
/// Dialogues as ids, and which of them the assistant says (docs/chat_templates.md, docs/sft.md).
/// Owner: who reads rows. One thread: templates are compiled once and kept.
///
/// MASK-1: a token counts if the assistant said it: its content, its tool calls and the token that
/// ends its turn; never a header, another role's text, or what a template writes behind the end.
/// MASK-2: ids are those of the whole text, encoded once, without special tokens of the
/// tokenizer's own: the template has written them.
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/tokenizer_folder.hpp"

namespace cohort::text {

struct EncodedChat {
  std::string text;
  std::vector<ByteRange> generated;  // of the text: what the assistant says
  std::vector<TokenId> ids;          // without a folder: none
  std::vector<bool> mask;            // of each id; true = the assistant says it
};

class ChatEncoder {
 public:
  struct Options {
    const TokenizerFolder* folder = nullptr;  // outlives the encoder; null: no ids
    std::optional<std::string> source{};      // in place of the folder's templates
    std::optional<std::string> bos{}, eos{};  // in place of the folder's
    std::optional<std::tm> local_time{};      // what strftime_now tells; none: it fails
  };
  explicit ChatEncoder(Options options) : options_(std::move(options)) {}

  /// Returns the text as the template writes it, and the mask of its {% generation %} blocks; a
  /// template without them gives an empty mask. `input.special_tokens` and its time are filled in.
  /// Returns the error of a template that cannot be read, raises, or takes too long, and of a
  /// folder without one.
  Expected<EncodedChat> encode(ChatInput input);

  /// Returns a dialogue to imitate, every turn of the assistant in the mask. A template without
  /// {% generation %} blocks is rendered turn by turn: what it writes behind the generation prompt
  /// is the assistant's. Returns Errc::invalid_argument for a dialogue without a turn of the
  /// assistant, an unknown role, and, unless `ignores_mismatch`, a template that writes earlier
  /// turns differently once later ones come (verl's ignore_input_ids_mismatch: each turn is then
  /// taken as it is written when it is the last).
  Expected<EncodedChat> imitate(ChatInput input, bool ignores_mismatch);

 private:
  class Turns;
  Expected<ChatTemplate> template_for(bool has_tools);
  void fill(ChatInput& input) const;
  Expected<EncodedChat> tokens_of(RenderedChat chat, bool is_whole_tokens) const;
  void drop_tails(EncodedChat& chat) const;

  Options options_;
  std::map<std::string, ChatTemplate, std::less<>> compiled_;  // by source
};

}  // namespace cohort::text
