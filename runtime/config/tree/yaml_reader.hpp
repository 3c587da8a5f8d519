#pragma once
/// Text -> Node tree. The only place that knows yaml-cpp. Reads what PyYAML reads for OmegaConf:
/// anchors, aliases, merge keys (<<), the core tags; a duplicate key is an error. Every error but
/// those of the file system starts with "file:line:column: ".
/// Bounds: the five constants; an alias counts as what it copies.
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

// A config is text by hand. yaml-cpp holds up to 200 times the bytes of a flow list it is given.
inline constexpr size_t k_max_text_bytes = size_t{1} << 20;
inline constexpr size_t k_max_nodes = 20'000;  // aliases can blow a small file up without bound
inline constexpr size_t k_max_scalar_bytes = size_t{4} << 20;  // of all nodes, aliases' copies too
inline constexpr size_t k_max_key_bytes = 200;  // YAML ends simple keys at 1024 characters, escaped
inline constexpr int k_max_depth = 64;

/// Parses one YAML document of UTF-8 text (a byte order mark is skipped).
/// Returns Errc::config "file:line:column: …".
Expected<Node> parse_yaml(std::string_view text, const std::string& source);

/// Returns the text of a file. Returns Errc::not_found, Errc::io (not a file, unreadable) or
/// Errc::config (larger than k_max_text_bytes).
Expected<std::string> read_text(const std::filesystem::path& path);

/// Reads and parses a file. Errors as of read_text() and parse_yaml().
Expected<Node> read_yaml(const std::filesystem::path& path);

}  // namespace cohort::config
