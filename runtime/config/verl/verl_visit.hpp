#pragma once
/// Kinds of keys that verl has and ROLL has not: a bool that may be null, lists of numbers, maps of
/// free content. In terms of Visitor::value(). Not thread-safe per object.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/bind/visitor.hpp"
#include "runtime/config/tree/yaml_node.hpp"
#include "runtime/config/verl/verl_config.hpp"

namespace cohort::config {

void optional_boolean(Visitor& v, const Key& key, std::optional<bool>& x);
void number_list(Visitor& v, const Key& key, std::vector<double>& x);
/// A text, or a number taken as it is written, or ~.
void loose_text(Visitor& v, const Key& key, std::string& x);
/// A section whose keys are somebody else's.
void free_map(Visitor& v, const Key& key, Node& x);

// Sections that several roles have.
void describe_verl_log_prob(Visitor& v, VerlMicro& x);
void describe_verl_optim(Visitor& v, VerlOptim& x);
void describe_verl_fsdp(Visitor& v, const Key& key, VerlFsdp& x);
void describe_verl_megatron(Visitor& v, VerlMegatron& x);
/// A critic has its fsdp_config here.
void describe_verl_model(Visitor& v, const Key& key, VerlModel& x, bool is_critic);

/// The value at `path` of a free map, if one is there.
std::optional<bool> free_boolean(const Node& map, std::string_view path);
std::string free_text(const Node& map, std::string_view path);

}  // namespace cohort::config
