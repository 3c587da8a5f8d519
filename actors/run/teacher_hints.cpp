#include "actors/run/teacher_hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/tasks/data_row.hpp"
#include "runtime/tasks/row_json.hpp"
#include "runtime/tasks/text_template.hpp"

namespace cohort::actors {
namespace {

constexpr std::array<std::string_view, 2> k_fields{"problem", "solution"};

Expected<std::string> solution_of(const tasks::Sample& row, const std::string& key) {
  if (!row.columns.empty()) {
    COHORT_ASSIGN(const tasks::RowJson columns, tasks::json_of(row.columns));
    const tasks::RowJson* found = tasks::column(columns, key);
    if (found != nullptr && found->is_string()) return found->get<std::string>();
  }
  if (tasks::is_answer_column(key) && !row.answer.empty()) return row.answer;
  return Error{Errc::config,
               fmt::format("{}: no text in column '{}', the teacher's solution (opsd_solution_key)",
                           row.id, key)};
}

class Writer {
 public:
  Writer(const PromptSet& prompts, const tasks::Tokenizer& tokenizer,
         const tasks::TextTemplate& text, size_t room, size_t solution_room)
      : prompts_(prompts),
        tokenizer_(tokenizer),
        text_(text),
        room_(room),
        solution_room_(solution_room) {}

  Expected<std::vector<int32_t>> prompt(const tasks::Sample& row, std::string solution,
                                        bool& is_cut) const {
    COHORT_ASSIGN(std::vector<int32_t> ids, tokenizer_.encode(solution));
    if (ids.size() > solution_room_) {
      ids.resize(solution_room_);
      is_cut = true;
    }
    for (;;) {
      if (is_cut) solution = tokenizer_.decode(ids);
      COHORT_ASSIGN(std::vector<int32_t> written, opening(row, solution));
      if (written.size() <= room_) return written;
      if (ids.empty())
        return Error{
            Errc::config,
            fmt::format("{}: the teacher's prompt has {} tokens without a solution, and {} "
                        "are left of sequence_length; raise it",
                        row.id, written.size(), room_)};
      ids.resize(ids.size() - std::min(ids.size(), written.size() - room_));
      is_cut = true;
    }
  }

 private:
  Expected<std::vector<int32_t>> opening(const tasks::Sample& row,
                                         const std::string& solution) const {
    std::vector<tasks::ChatMessage> dialogue = prompts_.dialogue(row);
    const auto asked =
        std::ranges::find(dialogue.rbegin(), dialogue.rend(), "user", &tasks::ChatMessage::role);
    if (asked == dialogue.rend())
      return Error{Errc::config, row.id + ": no message of a user, which the teacher is to read"};
    const std::array<std::string, k_fields.size()> values{asked->content, solution};
    asked->content = text_.render(values);
    auto ids = prompts_.chat().opening(dialogue);
    if (!ids) return Error{Errc::config, fmt::format("{}: {}", row.id, ids.error().detail)};
    return ids;
  }

  const PromptSet& prompts_;
  const tasks::Tokenizer& tokenizer_;
  const tasks::TextTemplate& text_;
  size_t room_, solution_room_;  // [tokens] of a prompt; of a solution
};

}  // namespace

Expected<std::shared_ptr<const TeacherHints>> TeacherHints::open(
    const config::RunConfig& config, const PromptSet& prompts, const tasks::Tokenizer& tokenizer) {
  const config::OpdSection& x = config.opd;
  auto text = tasks::TextTemplate::create(x.teacher_template, k_fields);
  if (!text) return Error{Errc::config, "opsd_teacher_template: " + text.error().detail};
  const int64_t room = config.sequence_length - config.actor_infer.generating_args.max_new_tokens;
  const Writer writer(prompts, tokenizer, *text, static_cast<size_t>(std::max<int64_t>(room, 0)),
                      x.solution_tokens > 0 ? static_cast<size_t>(x.solution_tokens)
                                            : std::numeric_limits<size_t>::max());
  std::shared_ptr<TeacherHints> hints(new TeacherHints());
  for (size_t row = 0; row < prompts.train_rows(); ++row) {
    const tasks::Sample& sample = *prompts.at(row).sample;
    COHORT_ASSIGN(std::string solution, solution_of(sample, x.solution_key));
    bool is_cut = false;
    COHORT_ASSIGN(std::vector<int32_t> ids, writer.prompt(sample, std::move(solution), is_cut));
    hints->prompts_.push_back(std::move(ids));
    hints->cut_ += is_cut ? 1 : 0;
  }
  return std::shared_ptr<const TeacherHints>(std::move(hints));
}

}  // namespace cohort::actors
