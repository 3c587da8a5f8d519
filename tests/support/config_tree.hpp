#pragma once
/// Trees and folders of config files for tests of runtime/config's stages.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace cohort::test {

/// The tree of `text`, with marks in "t.yaml".
inline config::Node parsed(std::string_view text) {
  auto node = config::parse_yaml(text, "t.yaml");
  EXPECT_TRUE(node) << node.error().detail;
  return node ? *node : config::Node{};
}

/// What parse_yaml() says against `text`.
inline std::string yaml_fault(std::string_view text) {
  auto node = config::parse_yaml(text, "t.yaml");
  return node ? "(accepted) " + config::to_yaml(*node) : node.error().detail;
}

/// One variable, HOME_DIR, and a clock that shows its format.
inline config::InterpolationSources fixed_sources() {
  return {[](const std::string& name) -> std::optional<std::string> {
            return name == "HOME_DIR" ? std::optional<std::string>("/home/x") : std::nullopt;
          },
          [](const std::string& format) { return "<" + format + ">"; }};
}

/// The value at `path` after interpolation as YAML text, or all problems, one a line.
inline std::string interpolated(const config::Node& tree, std::string_view path) {
  config::Interpolated result = config::interpolate(tree, fixed_sources());
  std::string problems;
  for (const config::Problem& problem : result.problems)
    problems += problem.mark.file_line_column() + ": " + problem.text + "\n";
  if (!problems.empty()) return problems;
  const config::Node* node = result.root.at_path(path);
  return node == nullptr ? "(none)" : config::to_yaml(*node);
}

/// Files in a new folder, gone with the object.
class ConfigFolder {
 public:
  ConfigFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("cohort_config_" + std::to_string(::getpid()) + "_" + std::to_string(++count));
    std::filesystem::create_directories(path_);
  }
  ConfigFolder(const ConfigFolder&) = delete;
  ConfigFolder& operator=(const ConfigFolder&) = delete;
  ~ConfigFolder() { std::filesystem::remove_all(path_); }

  void write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

  /// The composed tree of file `name` as YAML text, or the fault with the folder cut out of it.
  std::string composed(const std::string& name) const {
    auto root = config::read_yaml(path_ / name);
    if (!root) return without_folder(root.error().detail);
    auto tree = config::compose(std::move(*root), (path_ / name).parent_path());
    return tree ? config::to_yaml(*tree) : without_folder(tree.error().detail);
  }

 private:
  std::string without_folder(std::string text) const {
    const std::string folder = path_.string() + "/";
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at))
      text.erase(at, folder.size());
    return text;
  }

  std::filesystem::path path_;
};

}  // namespace cohort::test
