#include "runtime/model/lora.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
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
         tensor.where == Where::layers && tensor.experts == 0;
}

std::string without_weight(std::string name) {
  if (name.ends_with(k_weight)) name.resize(name.size() - k_weight.size());
  return name;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool is_hit(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

bool is_target(const Tensor& tensor, int64_t layer, const std::vector<std::string>& targets) {
  const std::string module = without_weight(tensor_name(tensor, layer, 0));
  return std::ranges::any_of(targets,
                             [&](const std::string& target) { return is_hit(module, target); });
}

/// Calls `on_module` with the full name of each linear layer of the blocks.
template <class OnModule>
void each_module(const std::vector<Tensor>& tensors, OnModule on_module) {
  for (const Tensor& tensor : tensors)
    for (int64_t layer = tensor.first_layer; is_adaptable(tensor) && layer < tensor.end_layer;
         ++layer)
      on_module(without_weight(tensor_name(tensor, layer, 0)));
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

/// Whether a target means more than attention, as PEFT reads it: it takes routed experts, too.
Expected<bool> is_beside_attention(const std::vector<Tensor>& tensors, const std::string& target,
                                   bool is_pattern) {
  if (target == "all-linear" || target == "all") return true;
  std::optional<text::Regex> pattern;
  if (is_pattern) {
    COHORT_ASSIGN(pattern, whole_name(target));
  }
  for (const Tensor& tensor : tensors) {
    if (tensor.where != Where::layers) continue;
    for (int64_t layer = tensor.first_layer; layer < tensor.end_layer; ++layer) {
      const std::string module = without_weight(tensor_name(tensor, layer, 0));
      if (module.find(".self_attn.") != module.npos) continue;
      if (pattern ? match(*pattern, module) == text::Regex::Result::found : is_hit(module, target))
        return true;
    }
  }
  return false;
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
  half.may_repeat = false;
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
  for (const std::string& target : asked.targets) {
    std::set<std::string> hit;
    if (target == "all-linear" || target == "all") {
      hit = names;
    } else if (asked.is_pattern) {
      auto matched = matching(tensors, target);
      if (!matched) return refused(matched.error().detail);
      hit = *std::move(matched);
    } else {
      each_module(tensors, [&](const std::string& module) {
        if (is_hit(module, target)) hit = {target};
      });
    }
    if (shape.moe) {
      COHORT_ASSIGN(const bool is_beside, is_beside_attention(tensors, target, asked.is_pattern));
      if (is_beside)
        return refused(fmt::format(
            "target '{}' names more than attention, and beside routed experts (num_experts) only "
            "its layers have adapters in this version: give q_proj, k_proj, v_proj and o_proj",
            target));
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
      const bool is_in = is_target(tensor, layer, lora.targets);
      for (end = layer + 1; end < tensor.end_layer; ++end)
        if (is_target(tensor, end, lora.targets) != is_in) break;
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

std::string lora_tensor_name(const Tensor& tensor, int64_t layer) {
  return "base_model.model." + tensor_name(tensor, layer, 0);
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
