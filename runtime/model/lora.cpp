#include "runtime/model/lora.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "runtime/text/regex.hpp"

namespace cohort::model {
namespace {

constexpr std::string_view k_weight = ".weight";

bool is_adaptable(const Tensor& tensor) {
  return (tensor.kind == Kind::linear || tensor.kind == Kind::residual) &&
         tensor.where == Where::layers;
}

std::string without_weight(std::string name) {
  if (name.ends_with(k_weight)) name.resize(name.size() - k_weight.size());
  return name;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// Calls `on_ending` with what a target may call a module: its name, and what is behind each dot.
/// Stops where it returns true. A pattern may have been written out as thousands of targets, the
/// name of each expert of each layer, so that a search must not compare each with each.
template <class OnEnding>
bool any_ending(std::string_view module, OnEnding on_ending) {
  for (;;) {
    if (on_ending(module)) return true;
    const size_t dot = module.find('.');
    if (dot == module.npos) return false;
    module.remove_prefix(dot + 1);
  }
}

/// Whether one of `targets`, which are sorted, hits the module.
bool is_target(const std::string& module, const std::vector<std::string>& targets) {
  return any_ending(module, [&](std::string_view ending) {
    return std::binary_search(targets.begin(), targets.end(), ending, std::less<>());
  });
}

std::string module_name(const Tensor& tensor, int64_t layer, int64_t expert) {
  return without_weight(tensor_name(tensor, layer, expert));
}

/// Calls `on_module` with the full name of each linear layer of the blocks.
template <class OnModule>
void each_module(const std::vector<Tensor>& tensors, OnModule on_module) {
  for (const Tensor& tensor : tensors)
    for (int64_t layer = tensor.first_layer; is_adaptable(tensor) && layer < tensor.end_layer;
         ++layer)
      for (int64_t expert = 0; expert < std::max<int64_t>(tensor.experts, 1); ++expert)
        on_module(module_name(tensor, layer, expert));
}

/// All that a target may say.
std::set<std::string, std::less<>> endings_of(const std::vector<Tensor>& tensors) {
  std::set<std::string, std::less<>> endings;
  each_module(tensors, [&](const std::string& module) {
    any_ending(module, [&](std::string_view ending) {
      endings.emplace(ending);
      return false;
    });
  });
  return endings;
}

/// A pattern that is to match the name of a module whole.
Expected<text::Regex> whole_name(const std::string& pattern) {
  return text::Regex::compile("\\A(?:" + pattern + ")\\z");
}

text::Regex::Result match(const text::Regex& pattern, const std::string& module) {
  constexpr uint64_t k_steps = 100'000;
  text::StepBudget budget{k_steps};
  text::Span span{};
  return pattern.find(module, 0, span, budget);
}

/// Returns the modules that the pattern matches whole: by last part where it matches all of them.
Expected<std::set<std::string>> matching(const std::vector<Tensor>& tensors,
                                         const std::string& pattern) {
  COHORT_ASSIGN(const text::Regex regex, whole_name(pattern));
  std::map<std::string, std::vector<std::string>> hits, all;
  bool is_too_long = false;
  each_module(tensors, [&](const std::string& module) {
    const auto found = match(regex, module);
    is_too_long = is_too_long || found == text::Regex::Result::out_of_steps;
    if (found == text::Regex::Result::found) hits[last_part(module)].push_back(module);
    all[last_part(module)].push_back(module);
  });
  if (is_too_long)
    return Error{Errc::invalid_argument, fmt::format("'{}' takes too long to match", pattern)};
  std::set<std::string> targets;
  for (const auto& [part, modules] : hits) {
    if (modules.size() == all[part].size())
      targets.insert(part);
    else
      targets.insert(modules.begin(), modules.end());
  }
  return targets;
}

/// Experts of a layer have adapters all or none: they lie in one matrix.
Expected<void> check_experts(const std::vector<Tensor>& tensors,
                             const std::vector<std::string>& targets) {
  for (const Tensor& tensor : tensors)
    for (int64_t layer = tensor.first_layer;
         is_adaptable(tensor) && tensor.experts > 0 && layer < tensor.end_layer; ++layer) {
      const bool is_in = is_target(module_name(tensor, layer, 0), targets);
      for (int64_t expert = 1; expert < tensor.experts; ++expert)
        if (is_target(module_name(tensor, layer, expert), targets) != is_in)
          return Error{Errc::invalid_argument,
                       fmt::format("the targets take {} and not {}: of the routed experts of a "
                                   "layer all have adapters, or none",
                                   module_name(tensor, layer, is_in ? 0 : expert),
                                   module_name(tensor, layer, is_in ? expert : 0))};
    }
  return {};
}

Tensor half_of(const Tensor& weight, int64_t rank, bool is_a) {
  Tensor half = weight;
  half.kind = is_a ? Kind::lora_a : Kind::lora_b;
  half.name = without_weight(weight.name) + (is_a ? ".lora_A.weight" : ".lora_B.weight");
  half.family = without_weight(weight.name) + (is_a ? ".lora_A" : ".lora_B");
  half.is_joined = half.is_stacked = half.tp_first = false;
  half.kept = 0;
  (is_a ? half.rows : half.columns) = rank;
  const bool is_cut = weight.cut == (is_a ? Cut::columns : Cut::rows);
  if (is_cut) return half;
  half.cut = Cut::whole;
  half.parts = 1;
  half.may_repeat = half.experts > 0;  // each card that has a part of an expert has it whole
  return half;
}

}  // namespace

double LoraShape::scale() const {
  const auto divisor = static_cast<double>(rank);
  return alpha / (is_rank_stabilised ? std::sqrt(divisor) : divisor);
}

Expected<LoraShape> resolve_lora(const ModelShape& shape, LoraShape asked) {
  const auto refused = [](const std::string& what) {
    return Error{Errc::invalid_argument, "lora: " + what};
  };
  if (shape.mla) return refused("latent attention (kv_lora_rank) has no adapters in this version");
  constexpr int64_t k_rank_max = 65536;
  if (asked.rank < 1 || asked.rank > k_rank_max)
    return refused(fmt::format("rank {} is not in 1..{}", asked.rank, k_rank_max));
  if (!(asked.alpha > 0)) return refused(fmt::format("alpha {} is not positive", asked.alpha));
  std::set<std::string> names, targets;
  const std::vector<Tensor> tensors = tensors_of(shape);
  for (const Tensor& tensor : tensors)
    if (is_adaptable(tensor)) names.insert(last_part(without_weight(tensor.name)));
  const std::set<std::string, std::less<>> endings = endings_of(tensors);
  for (const std::string& target : asked.targets) {
    std::set<std::string> hit;
    if (target == "all-linear" || target == "all") {
      hit = names;
    } else if (asked.is_pattern) {
      auto matched = matching(tensors, target);
      if (!matched) return refused(matched.error().detail);
      hit = *std::move(matched);
    } else if (endings.contains(target)) {
      hit = {target};
    }
    if (hit.empty())
      return refused(
          fmt::format("target '{}' is no linear layer of the blocks; there are {}, and "
                      "all-linear for all of them{}",
                      target, fmt::join(names, ", "),
                      asked.is_pattern ? "; an expression must match a module's full name, as "
                                         "model.layers.0.self_attn.q_proj"
                                       : ""));
    targets.merge(hit);
  }
  if (targets.empty()) return refused("no target; all-linear takes every linear layer");
  asked.targets.assign(targets.begin(), targets.end());
  asked.is_pattern = false;
  if (const auto checked = check_experts(tensors, asked.targets); !checked)
    return refused(checked.error().detail);
  return asked;
}

std::vector<LoraModule> lora_modules_of(const ModelShape& shape, const LoraShape& lora) {
  std::vector<LoraModule> modules;
  int64_t next_row = 0;
  for (const Tensor& tensor : tensors_of(shape)) {
    const int64_t first_row = tensor.is_joined ? next_row : 0;
    next_row = first_row + tensor.rows;
    if (!is_adaptable(tensor)) continue;
    for (int64_t layer = tensor.first_layer, end = layer; layer < tensor.end_layer; layer = end) {
      const bool is_in = is_target(module_name(tensor, layer, 0), lora.targets);
      for (end = layer + 1; end < tensor.end_layer; ++end)
        if (is_target(module_name(tensor, end, 0), lora.targets) != is_in) break;
      if (!is_in) continue;
      modules.push_back({tensor, first_row});
      modules.back().weight.first_layer = layer;
      modules.back().weight.end_layer = end;
    }
  }
  return modules;
}

std::vector<Tensor> lora_tensors_of(const ModelShape& shape, const LoraShape& lora) {
  std::vector<Tensor> tensors;
  for (const LoraModule& module : lora_modules_of(shape, lora))
    for (bool is_a : {true, false}) tensors.push_back(half_of(module.weight, lora.rank, is_a));
  return tensors;
}

std::string lora_tensor_name(const Tensor& tensor, int64_t layer, int64_t expert) {
  return "base_model.model." + tensor_name(tensor, layer, expert);
}

bool is_target_pattern(std::string_view text) {
  return text.find_first_of("*+?|([^$\\") != std::string_view::npos;
}

std::vector<std::string> target_names(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    std::istringstream parts(text);
    for (std::string name; std::getline(parts, name, ',');) {
      std::erase(name, ' ');
      if (!name.empty()) names.push_back(name);
    }
  }
  return names;
}

}  // namespace cohort::model
