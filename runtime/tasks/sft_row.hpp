#pragma once
/// Rows of files that train: dialogues to imitate (docs/sft.md), and pairs of answers to a prompt
/// (docs/preference.md). A row is a chat (a column of messages, with tools if any) or a prompt
/// with its answers. Pure but for the files.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/dataset.hpp"
#include "runtime/tasks/row_json.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::tasks {

/// Names of columns; empty: the usual ones, the first there is.
struct SftColumns {
  std::string messages = {};  // messages
  std::string system = {};    // none
  std::string prompt = {};    // prompt, instruction, question
  std::string query = {};     // beside instruction: input
  std::string response = {};  // response, output, answer, solution
  std::string tools = "tools";
};

/// Of pairs.
struct PairColumns {
  std::string chosen = "chosen", rejected = "rejected";
};

struct SftRow {
  std::string id;                         // "file:line"
  RowJson messages = RowJson::array();    // as a chat template takes them
  RowJson tools;                          // null: none
  RowJson variables = RowJson::object();  // of the template: chat_template_kwargs, enable_thinking
};

/// Reads one JSON object; the id stays empty. Returns Errc::config with the error and the expected
/// form, without file and line.
Expected<SftRow> read_sft_row(std::string_view line, const SftColumns& columns);
/// Returns a row of a built-in task with its worked answer.
SftRow sft_row_of(const Sample& sample);

/// Two dialogues with one beginning.
struct PairRow {
  SftRow chosen, rejected;
  size_t prompt_turns = 0;  // messages that they share, which no answer's log-probability counts
};

/// Likewise. A prompt is a text or messages; an answer is a text or messages that end with the
/// assistant's; without a prompt the answers are whole dialogues, which share their beginning.
Expected<PairRow> read_pair_row(std::string_view line, const SftColumns& columns,
                                const PairColumns& answers);
/// Returns a row of a built-in task with its worked answer, and the same with a wrong digit.
PairRow pair_row_of(const Sample& sample);

/// A dialogue as ids. mask: 1 = the assistant says it; entry 0 is 0, nothing predicts it.
struct MaskedTokens {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  bool is_truncated = false;  // tokens are left out
  bool has_lost_end = false;  // the assistant's last token is among them: not to stop is taught
  uint64_t counted() const;
};

/// Writes the dialogue in ChatML (prompt.hpp), the contents alone if `is_plain`, and counts each
/// answer and its <|im_end|>. Returns Errc::invalid_argument for a message that is not plain text,
/// a row without an answer, and a character the vocabulary lacks.
Expected<MaskedTokens> mask_of_chatml(const SftRow& row, const Tokenizer& tokenizer, bool is_plain);

/// Leaves the assistant's turns behind the first `prompt_turns` messages of the dialogue in the
/// mask. Returns Errc::invalid_argument if the mask does not tell its turns apart.
Expected<void> count_behind(MaskedTokens& row, const RowJson& messages, size_t prompt_turns);

enum class RowCut : uint8_t { error, left, right };  // what goes of a row that is too long

/// Leaves at most `room` tokens: right keeps the first. Returns Errc::config under `error`, with
/// both lengths.
Expected<void> fit_row(MaskedTokens& row, size_t room, RowCut cut);

}  // namespace cohort::tasks
