#include "tools/actor-node/data_command.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "runtime/tasks/data_gsm8k.hpp"
#include "tools/actor-node/data_tokenizer.hpp"
#include "tools/actor-node/new_file.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> k_splits{"train", "test"};

struct Split {
  std::string text;  // of the new file
  uint64_t rows = 0;
};

Expected<Split> convert(const fs::path& path, const char* name, std::string_view prompt_template) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{Errc::not_found,
                 fmt::format("{}: {}; GSM8K's train.jsonl and test.jsonl are in "
                             "grade_school_math/data of github.com/openai/grade-school-math",
                             path.string(), std::strerror(errno))};
  Split split;
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto row = tasks::gsm8k_line({line, name, split.rows}, prompt_template);
    if (!row) return row.error().with_context(fmt::format("{}:{}", path.string(), number));
    split.text += *row + '\n';
    ++split.rows;
  }
  if (file.bad()) return file_error(path, "cannot be read");
  if (split.rows == 0) return Error{Errc::config, path.string() + ": no rows"};
  return split;
}

}  // namespace

CLI::App* add_data_command(CLI::App& app, DataCommand& command) {
  CLI::App* data = app.add_subcommand("data", "make data files that a run can read");
  data->require_subcommand(1);
  CLI::App* gsm8k = data->add_subcommand(
      "gsm8k",
      "DIR/train.jsonl and DIR/test.jsonl {question, answer} become gsm8k_train.jsonl and "
      "gsm8k_test.jsonl with verl's columns");
  gsm8k->add_option("folder", command.folder, "folder of train.jsonl and test.jsonl")->required();
  gsm8k->add_option("--out", command.out, "folder of the new files; default: the same");
  gsm8k->add_option("--template", command.prompt_template,
                    "text of the prompt, with {question} in it; default: verl's, which asks for "
                    "the answer after ####");
  gsm8k->callback([&command] { command.kind = "gsm8k"; });
  add_data_tokenizer(*data, command.tokenizer)->callback([&command] {
    command.kind = "tokenizer";
  });
  data->footer(
      "Exit codes: 0 done, 1 a file or a row is bad (nothing is written), 2 an option is wrong.\n"
      "Formats and columns: docs/data.md.");
  return data;
}

Expected<std::string> data_text(const DataCommand& command) {
  if (command.kind == "tokenizer") return make_tokenizer_files(command.tokenizer);
  if (command.kind != "gsm8k")
    return Error{Errc::invalid_argument, fmt::format("no data set \"{}\"", command.kind)};
  const std::string prompt_template = command.prompt_template.empty()
                                          ? std::string(tasks::k_gsm8k_template)
                                          : command.prompt_template;
  COHORT_TRY(tasks::check_gsm8k_template(prompt_template));
  const fs::path out = command.out.empty() ? command.folder : command.out;
  std::error_code error;
  fs::create_directories(out, error);
  if (error) return Error{Errc::io, fmt::format("{}: {}", out.string(), error.message())};
  std::vector<NewFile> files;
  std::string text, first;
  for (const char* name : k_splits) {
    const fs::path source = fs::path(command.folder) / fmt::format("{}.jsonl", name);
    const fs::path target = out / fmt::format("gsm8k_{}.jsonl", name);
    COHORT_ASSIGN(Split split, convert(source, name, prompt_template));
    COHORT_ASSIGN(NewFile file, NewFile::write(target, split.text));
    files.push_back(std::move(file));
    text += fmt::format("{}: {} rows\n", target.string(), split.rows);
    if (first.empty()) first = split.text.substr(0, split.text.find('\n'));
  }
  for (NewFile& file : files) COHORT_TRY(file.put_in_place());
  return text + "first row: " + first + "\n";
}

int data_command(const DataCommand& command) {
  auto text = data_text(command);
  if (text) {
    std::fputs(text->c_str(), stdout);
    return 0;
  }
  std::fprintf(stderr, "error: data %s: %s\n", command.kind.c_str(), text.error().detail.c_str());
  return text.error().code == Errc::invalid_argument ? 2 : 1;
}

}  // namespace cohort
