#include "runtime/model/lora_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "runtime/base/outside_json.hpp"
#include "runtime/base/text.hpp"
#include "runtime/text/regex.hpp"

namespace cohort::model {
namespace {

using AdapterJson = nlohmann::ordered_json;  // of a pattern's keys the first decides

/// Whether a key says nothing: absent, null, false, "none", or an empty list or object.
bool is_off(const AdapterJson& config, const char* key) {
  auto it = config.find(key);
  return it == config.end() || it->is_null() || *it == false || *it == "none" ||
         (it->is_structured() && it->empty());
}

/// Starts that leave the weights of the model as they are, so that W + s B A is what was trained.
/// The others (pissa, olora, corda, loftq, lora_ga) take a part of W away when training begins, and
/// the folder holds the rest alone.
bool keeps_weights(const AdapterJson& config) {
  const auto it = config.find("init_lora_weights");
  if (it == config.end() || it->is_null() || it->is_boolean()) return true;
  return it->is_string() &&
         (to_lower(it->get<std::string>()) == "gaussian" || *it == "eva" || *it == "orthogonal");
}

/// Reads rank_pattern or alpha_pattern; returns the key at fault, or "".
template <class T>
std::string read_pattern(const AdapterJson& config, const char* key,
                         std::vector<std::pair<std::string, T>>& out) {
  const AdapterJson pattern = is_off(config, key) ? AdapterJson::object() : config.at(key);
  if (!pattern.is_object()) return key;
  for (const auto& [name, value] : pattern.items()) {
    const bool is_rank = std::is_integral_v<T>;
    if (is_rank ? !value.is_number_integer() || value.template get<int64_t>() < 1
                : !value.is_number())
      return key;
    out.emplace_back(name, value.template get<T>());
  }
  return "";
}

/// What a text matches: a whole name, or its end behind a dot.
class Matcher {
 public:
  static Expected<Matcher> of_name(const std::string& text) {
    return of("\\A(?:" + text + ")\\z", text);
  }
  static Expected<Matcher> of_end(const std::string& text) {
    return of("\\A(?:.*\\.)?(?:" + text + ")\\z", text);
  }
  Expected<bool> matches(const std::string& name) const {
    constexpr uint64_t k_steps = 100'000;
    text::StepBudget budget{k_steps};
    text::Span span{};
    const auto found = regex_.find(name, 0, span, budget);
    if (found == text::Regex::Result::out_of_steps)
      return Error{Errc::invalid_argument, fmt::format("'{}' takes too long to match", text_)};
    return found == text::Regex::Result::found;
  }

 private:
  Matcher(text::Regex regex, std::string text) : regex_(std::move(regex)), text_(std::move(text)) {}
  static Expected<Matcher> of(const std::string& pattern, const std::string& text) {
    COHORT_ASSIGN(text::Regex regex, text::Regex::compile(pattern));
    return Matcher(std::move(regex), text);
  }
  text::Regex regex_;
  std::string text_;
};

/// A pattern's keys, compiled.
template <class T>
class Pattern {
 public:
  static Expected<Pattern> of(const std::vector<std::pair<std::string, T>>& entries) {
    Pattern out;
    for (const auto& [key, value] : entries) {
      COHORT_ASSIGN(Matcher matcher, Matcher::of_end(key));
      out.entries_.emplace_back(std::move(matcher), value);
    }
    return out;
  }
  Expected<T> of_module(const std::string& name, T fallback) const {
    for (const auto& [matcher, value] : entries_) {
      COHORT_ASSIGN(const bool is_hit, matcher.matches(name));
      if (is_hit) return value;
    }
    return fallback;
  }

 private:
  std::vector<std::pair<Matcher, T>> entries_;
};

bool is_named(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

Expected<std::vector<std::string>> hits_of(const LoraShape& shape,
                                           const std::vector<LinearModule>& modules) {
  std::vector<std::string> hits;
  std::optional<Matcher> matcher;
  if (shape.is_pattern) {
    COHORT_ASSIGN(matcher, Matcher::of_name(shape.targets.front()));
  }
  for (const LinearModule& module : modules) {
    bool is_hit = std::ranges::any_of(shape.targets, [&](const std::string& target) {
      return target == "all-linear" ? !module.is_end : is_named(module.name, target);
    });
    if (matcher) {
      COHORT_ASSIGN(is_hit, matcher->matches(module.name));
    }
    if (is_hit) hits.push_back(module.name);
  }
  return hits;
}

Expected<std::map<std::string, LoraShape>> shapes_of(const AdapterFile& file,
                                                     const std::vector<LinearModule>& modules) {
  std::map<std::string, LoraShape> out;
  COHORT_ASSIGN(const Pattern<int64_t> ranks, Pattern<int64_t>::of(file.ranks));
  COHORT_ASSIGN(const Pattern<double> alphas, Pattern<double>::of(file.alphas));
  COHORT_ASSIGN(const std::vector<std::string> hits, hits_of(file.shape, modules));
  for (const std::string& name : hits) {
    LoraShape& shape = out[name];
    shape.is_rank_stabilised = file.shape.is_rank_stabilised;
    COHORT_ASSIGN(shape.rank, ranks.of_module(name, file.shape.rank));
    COHORT_ASSIGN(shape.alpha, alphas.of_module(name, file.shape.alpha));
    shape.targets = {name};
  }
  return out;
}

void read_targets(const AdapterJson& targets, LoraShape& lora) {
  if (targets.is_null()) lora.targets = {"q_proj", "v_proj"};  // PEFT's, of the families that are
  if (targets.is_string()) {
    lora.targets = {targets.get<std::string>()};
    lora.is_pattern = lora.targets.front() != "all-linear";
  }
  for (const AdapterJson& target : targets.is_array() ? targets : AdapterJson::array())
    lora.targets.push_back(target.get<std::string>());
}

}  // namespace

Expected<AdapterFile> parse_adapter_file(std::string_view text, const std::string& where) {
  const Expected<AdapterJson> parsed = parse_outside_object<AdapterJson>(text);
  if (!parsed) return Error{Errc::corrupt, where + ": " + parsed.error().detail};
  const AdapterJson& config = *parsed;
  const auto refused = [&](const std::string& what) {
    return Error{Errc::invalid_argument, where + ": " + what};
  };
  if (config.value("peft_type", AdapterJson()) != "LORA") return refused("peft_type is not LORA");
  for (const char* key :
       {"use_dora", "bias", "modules_to_save", "fan_in_fan_out", "lora_bias", "layer_replication",
        "target_parameters", "trainable_token_indices", "use_qalora", "use_bdlora",
        "alora_invocation_tokens", "exclude_modules", "layers_to_transform", "layers_pattern"})
    if (!is_off(config, key)) return refused(fmt::format("{} is not built in", key));
  if (!keeps_weights(config))
    return refused(fmt::format(
        "init_lora_weights {} is not built in: such a start changes the weights of the model, and "
        "the folder holds the change since then alone; PEFT's save_pretrained converts it with "
        "path_initial_model_for_weight_conversion",
        config["init_lora_weights"].dump().substr(0, 64)));
  const AdapterJson rank = config.value("r", AdapterJson(8)),
                    alpha = config.value("lora_alpha", AdapterJson(8));
  if (!rank.is_number_integer() || rank.get<int64_t>() < 1 || !alpha.is_number())
    return refused("r must be a number from 1, lora_alpha a number");
  AdapterFile file;
  file.shape = {rank.get<int64_t>(), alpha.get<double>(), !is_off(config, "use_rslora"), {}};
  const std::string bad_rank = read_pattern(config, "rank_pattern", file.ranks),
                    bad_alpha = read_pattern(config, "alpha_pattern", file.alphas);
  for (const std::string& bad : {bad_rank, bad_alpha})
    if (!bad.empty()) return refused(bad + ": not an object of module: number");
  const AdapterJson targets = config.value("target_modules", AdapterJson());
  const bool is_list =
      targets.is_array() &&
      std::ranges::all_of(targets, [](const AdapterJson& target) { return target.is_string(); });
  if (!targets.is_null() && !targets.is_string() && !is_list)
    return refused("target_modules: not a list of names");
  read_targets(targets, file.shape);
  const AdapterJson base = config.value("base_model_name_or_path", AdapterJson());
  if (base.is_string()) file.base = base.get<std::string>();
  return file;
}

Expected<std::map<std::string, LoraShape>> adapted_modules(const AdapterFile& file,
                                                           const std::vector<LinearModule>& modules,
                                                           const std::string& where) {
  auto shapes = shapes_of(file, modules);
  if (!shapes) return Error{shapes.error().code, where + ": " + shapes.error().detail};
  if (shapes->empty())
    return Error{Errc::invalid_argument,
                 fmt::format("{}: target_modules: no linear layer of the model is [{}]", where,
                             fmt::join(file.shape.targets, ", "))};
  return shapes;
}

Expected<LoraShape> parse_adapter_config(std::string_view text, const std::string& where) {
  COHORT_ASSIGN(AdapterFile file, parse_adapter_file(text, where));
  if (!file.ranks.empty() || !file.alphas.empty())
    return Error{Errc::invalid_argument,
                 fmt::format("{}: {}_pattern is not built in: modules of one rank and alpha are "
                             "trained; logprobs and export --merge take it",
                             where, file.ranks.empty() ? "alpha" : "rank")};
  return std::move(file.shape);
}

std::string adapter_base_of(std::string_view text) {
  const Expected<AdapterJson> config = parse_outside_object<AdapterJson>(text);
  const AdapterJson base =
      config.has_value() ? config->value("base_model_name_or_path", AdapterJson()) : AdapterJson();
  return base.is_string() ? base.get<std::string>() : "";
}

std::string write_adapter_config(const LoraShape& lora, const std::string& base) {
  const bool is_whole = lora.alpha == std::floor(lora.alpha);
  AdapterJson config = {
      {"base_model_name_or_path", base},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", 0.0},
      {"peft_type", "LORA"},
      {"r", lora.rank},
      {"target_modules", lora.targets},
      {"task_type", "CAUSAL_LM"},
      {"use_rslora", lora.is_rank_stabilised},
  };
  if (is_whole) config["lora_alpha"] = static_cast<int64_t>(lora.alpha);  // as PEFT writes it
  return config.dump(2) + "\n";
}

}  // namespace cohort::model
