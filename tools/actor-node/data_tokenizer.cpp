#include "tools/actor-node/data_tokenizer.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "runtime/base/read_file.hpp"
#include "runtime/text/tokenizer_trainer.hpp"
#include "tools/actor-node/new_file.hpp"

namespace cohort {

CLI::App* add_data_tokenizer(CLI::App& data, DataTokenizer& options) {
  CLI::App* sub = data.add_subcommand(
      "tokenizer",
      "train a byte-level BPE tokenizer (Qwen2's pieces, ChatML) on texts: tokenizer.json, "
      "tokenizer_config.json with a chat template, generation_config.json");
  sub->add_option("texts", options.texts, "files of UTF-8 text, each one document")->required();
  sub->add_option("--size", options.size,
                  "tokens, of which 3 are special and 256 bytes; fewer if the texts have no more")
      ->required()
      ->check(CLI::Range(text::k_tokenizer_size_min, size_t{1} << 21));
  sub->add_option("--out", options.out, "folder of the new files")->required();
  sub->add_option("--min-count", options.frequency_min, "a pair that is rarer is not joined")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  return sub;
}

Expected<std::string> make_tokenizer_files(const DataTokenizer& options) {
  namespace fs = std::filesystem;
  constexpr uintmax_t k_text_bytes_max = uintmax_t{1} << 30;
  text::TokenizerTrainer trainer;
  for (const std::string& path : options.texts) {
    COHORT_ASSIGN(const std::string text, read_file(path, k_text_bytes_max));
    if (auto added = trainer.add(text); !added) return added.error().with_context(path);
  }
  if (trainer.bytes() == 0) return Error{Errc::config, "the texts are empty"};
  COHORT_ASSIGN(const text::TokenizerTrainer::Files files,
                trainer.train({options.size, options.frequency_min}));
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) return Error{Errc::io, fmt::format("{}: {}", options.out, error.message())};
  std::vector<NewFile> written;
  for (const auto& [name, text] : files.texts) {
    COHORT_ASSIGN(NewFile file, NewFile::write(fs::path(options.out) / name, text));
    written.push_back(std::move(file));
  }
  for (NewFile& file : written) COHORT_TRY(file.put_in_place());
  std::string said = fmt::format("{}: {} tokens of {} bytes in {} files\n",
                                 (fs::path(options.out) / "tokenizer.json").string(), files.tokens,
                                 trainer.bytes(), options.texts.size());
  if (files.tokens < options.size)
    said += fmt::format("no further pair occurs {} times\n", options.frequency_min);
  return said;
}

}  // namespace cohort
