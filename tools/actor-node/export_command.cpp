#include "tools/actor-node/export_command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "actors/run/run_folder.hpp"
#include "runtime/compute/train/export_folder.hpp"
#include "runtime/plan/place/residency.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using compute::ExportOptions;

/// A folder with a model in it is the checkpoint; a run's folder means its newest one.
Expected<fs::path> checkpoint_of(const fs::path& from) {
  std::error_code ignored;
  for (const char* file : {"config.json", "adapter_config.json"})
    if (fs::exists(from / file, ignored)) return from;
  if (const auto found = actors::list_checkpoints(from); !found.empty()) return found.back().folder;
  return Error{Errc::not_found, from.string() +
                                    ": neither a checkpoint (a folder with config.json and "
                                    "model.safetensors, or a LoRA adapter) nor a run's folder with "
                                    "checkpoints/"};
}

ExportOptions options_of(const ExportCommand& command, const fs::path& checkpoint) {
  ExportOptions options{.checkpoint = checkpoint, .folder = command.folder};
  if (command.dtype != "source")
    options.dtype = command.dtype == "bf16" ? tensor::Dtype::bf16 : tensor::Dtype::f32;
  options.merges_adapter = command.merges;
  options.base = command.base;
  options.shard_bytes_max = command.shard_bytes_max;
  if (command.has_no_text) options.text = ExportOptions::Text::none;
  if (!command.tokenizer.empty()) {
    options.text = ExportOptions::Text::of_folder;
    options.text_folder = command.tokenizer;
  }
  return options;
}

int refuse(const Error& error) {
  std::fprintf(stderr, "error: export: %s\n", error.detail.c_str());
  return error.code == Errc::io ? 1 : 2;
}

}  // namespace

CLI::App* add_export_command(CLI::App& app, ExportCommand& command) {
  CLI::App* sub = app.add_subcommand("export", "write a checkpoint as a Hugging Face folder");
  sub->add_option("from", command.from,
                  "a run's folder (its newest checkpoint), a checkpoint (RUN/checkpoints/step_N), "
                  "a Hugging Face folder, or with --merge a LoRA adapter (PEFT folder)")
      ->required();
  sub->add_option("folder", command.folder, "the folder to make; it may exist if it is empty")
      ->required();
  sub->add_option("--dtype", command.dtype,
                  "of the weights; source: bf16 if training started from bf16, else f32")
      ->check(CLI::IsMember({"source", "f32", "bf16"}))
      ->capture_default_str();
  CLI::Option* merge = sub->add_flag("--merge", command.merges,
                                     "write the model with its LoRA adapter merged, W + s B A");
  sub->add_option("--base", command.base,
                  "folder of the model under the adapter (default: the one that "
                  "adapter_config.json names)")
      ->needs(merge);
  sub->add_option("--shard-size", command.shard_bytes_max,
                  "bytes of a safetensors file, as 5GB or 512MiB; a larger model is several files")
      ->transform(CLI::AsSizeValue(true))
      ->capture_default_str();
  CLI::Option* tokenizer =
      sub->add_option("--tokenizer", command.tokenizer,
                      "folder to take tokenizer, chat template and generation_config.json from "
                      "(default: the one that training started from)");
  sub->add_flag("--no-tokenizer", command.has_no_text, "copy none of them")->excludes(tokenizer);
  sub->footer(
      "Exit codes: 0 done, 1 the folder cannot be written, 2 what is given cannot be used.");
  return sub;
}

int export_command(const ExportCommand& command) {
  const auto checkpoint = checkpoint_of(command.from);
  if (!checkpoint) return refuse(checkpoint.error());
  const auto report = compute::export_folder(options_of(command, *checkpoint));
  if (!report) return refuse(report.error());
  for (const std::string& notice : report->notices)
    std::fprintf(stderr, "notice: %s\n", notice.c_str());
  const std::string said = fmt::format(
      "{}: {} parameters in {}, {} bytes in {} file{}, {} files of text beside config.json, from "
      "{}",
      command.folder, plan::with_thousands(report->parameters), tensor::to_string(report->dtype),
      plan::with_thousands(report->bytes), report->files, report->files == 1 ? "" : "s",
      report->copied.size(), checkpoint->string());
  std::printf("%s\n", said.c_str());
  return 0;
}

}  // namespace cohort
