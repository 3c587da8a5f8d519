#include "runtime/tasks/folder_tokenizer.hpp"

#include <type_traits>
#include <utility>

namespace cohort::tasks {

static_assert(std::is_same_v<text::TokenId, int32_t>);

Expected<std::shared_ptr<const FolderTokenizer>> FolderTokenizer::open(const std::string& path) {
  COHORT_ASSIGN(text::TokenizerFolder folder, text::TokenizerFolder::read(path));
  return std::shared_ptr<const FolderTokenizer>(new FolderTokenizer(path, std::move(folder)));
}

Expected<std::vector<int32_t>> FolderTokenizer::encode(std::string_view text) const {
  COHORT_ASSIGN(text::Encoding encoding,
                folder_.tokenizer.encode(text, {.adds_special_tokens = false}));
  return std::move(encoding.ids);
}

std::string FolderTokenizer::decode(std::span<const int32_t> ids) const {
  return folder_.tokenizer.decode(ids);
}

int32_t FolderTokenizer::vocab_size() const { return folder_.tokenizer.id_end(); }

std::optional<int32_t> FolderTokenizer::token_id(std::string_view text) const {
  return folder_.tokenizer.id_of(text);
}

}  // namespace cohort::tasks
