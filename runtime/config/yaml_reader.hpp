#pragma once
/// Text -> Node tree. The only place that knows yaml-cpp.
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/config/node.hpp"

namespace cohort::config {

inline constexpr size_t k_max_text_bytes = size_t{4}
                                           << 20;  // a config is text by hand: 4 MiB is a mistake
inline constexpr size_t k_max_nodes = 20'000;      // aliases can blow a small file up without bound
inline constexpr int k_max_depth = 64;

/// Parses one YAML document. Duplicate keys are errors, merge keys (<<) are not known.
/// Returns Errc::config "file:line:column: …".
Expected<Node> parse_yaml(std::string_view text, const std::string& source);

/// Parses a value given on the command line; every mark in it names the override and has no line.
Expected<Node> parse_override_value(std::string_view text, const Mark& mark);

/// Reads a file. Returns Errc::not_found, Errc::io (not a file, unreadable, too large), or as
/// parse_yaml.
Expected<Node> read_yaml(const std::filesystem::path& path);

}  // namespace cohort::config
