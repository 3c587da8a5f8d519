#pragma once
/// From a YAML file and `key=value` overrides to a RunConfig, or to an Error that lists what is
/// wrong. Stages: read (yaml-cpp, marks kept) -> compose (defaults lists) -> override ->
/// interpolate -> bind to the schema -> check across keys. Pure but for reading files and the
/// environment. No global state. CONF-1: an unknown key is never dropped silently: it is an error,
/// or a note with the reason. CONF-2: load(resolved_yaml) gives the same settings again.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

struct LoadOptions {
  bool check_files = true;  // whether `pretrain` and a resume path must exist now
};

/// Reads `path` and applies `overrides` ("a.b=c", "+a.b=c", "~a.b"; see override.hpp), in order.
/// Returns Errc::not_found if the file is missing, Errc::io if it cannot be read, else Errc::config
/// with up to ten lines "file:line:column: what", one for each problem.
Expected<RunConfig> load(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides = {},
                         const LoadOptions& options = {});

/// As load(), of a text; `name` stands for the file in messages, and relative files are looked up
/// in its folder. Also the resolved_yaml of a verl config (`dialect: verl`): the overrides of one
/// have verl's keys.
Expected<RunConfig> load_text(std::string_view text, const std::string& name,
                              const std::vector<std::string>& overrides = {},
                              const LoadOptions& options = {});

/// As load(), of a tree that is read already, overrides applied.
Expected<RunConfig> load_node(Node root, const LoadOptions& options = {});

}  // namespace cohort::config
