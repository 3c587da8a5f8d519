#pragma once
/// adapter_config.json of PEFT: which modules have matrices, of which rank and scale. What a model
/// that an adapter is merged into reads covers more than training does: ranks and alphas of their
/// own, and linear layers of any family. Pure value types and functions.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::model {

struct AdapterFile {
  LoraShape shape;                                     // targets as the file has them
  std::vector<std::pair<std::string, int64_t>> ranks;  // rank_pattern, in the file's order
  std::vector<std::pair<std::string, double>> alphas;  // alpha_pattern, likewise
  std::string base;  // base_model_name_or_path, which is not checked; empty: not said
};

/// Errors as parse_adapter_config, which refuses the patterns besides.
Expected<AdapterFile> parse_adapter_file(std::string_view text, const std::string& where);

/// A linear layer of the model, by full name without ".weight".
struct LinearModule {
  std::string name;
  bool is_end = false;  // lm_head, which all-linear leaves out
};

/// Returns rank and alpha (in `shape`) of each module that target_modules takes, by PEFT's rules: a
/// name hits what equals it or ends in a dot and it, a text is an expression that matches whole
/// names, and the first key of a pattern that matches a name's end decides. Returns
/// Errc::invalid_argument, naming `where` and the key, where nothing is hit, and text::Regex's
/// errors.
Expected<std::map<std::string, LoraShape>> adapted_modules(const AdapterFile& file,
                                                           const std::vector<LinearModule>& modules,
                                                           const std::string& where);

/// Reads adapter_config.json; targets are as the file has them, not resolved. Returns Errc::corrupt
/// or Errc::invalid_argument naming `where` and the key that asks for what is not built in
/// (use_dora, bias, rank_pattern, modules_to_save …).
Expected<LoraShape> parse_adapter_config(std::string_view text, const std::string& where);
/// Returns base_model_name_or_path, which is not checked; empty: the file does not say it.
std::string adapter_base_of(std::string_view text);
/// Returns adapter_config.json as PEFT reads it.
std::string write_adapter_config(const LoraShape& lora, const std::string& base);

}  // namespace cohort::model
