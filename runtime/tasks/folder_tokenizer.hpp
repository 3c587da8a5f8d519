#pragma once
/// The tokenizer of a folder from Hugging Face. Thread-safe.
#include <memory>
#include <string>

#include "runtime/tasks/tokenizer.hpp"
#include "runtime/text/tokenizer_folder.hpp"

namespace cohort::tasks {

class FolderTokenizer final : public Tokenizer {
 public:
  /// Errors as text::TokenizerFolder::read.
  static Expected<std::shared_ptr<const FolderTokenizer>> open(const std::string& path);

  /// Special tokens in `text` are theirs; nothing is put in front.
  Expected<std::vector<int32_t>> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  /// Largest id + 1.
  int32_t vocab_size() const override;
  std::optional<int32_t> token_id(std::string_view text) const override;

  const text::TokenizerFolder& folder() const { return folder_; }
  const std::string& path() const { return path_; }

 private:
  FolderTokenizer(std::string path, text::TokenizerFolder folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}
  std::string path_;
  text::TokenizerFolder folder_;
};

}  // namespace cohort::tasks
