#include "tools/traj/flat_config.hpp"

#include <yaml-cpp/yaml.h>

namespace cohort::traj {
namespace {

void flatten(const YAML::Node& node, const std::string& path,
             std::map<std::string, std::string>& out) {
  if (node.IsMap())
    for (const auto& each : node)
      flatten(each.second, (path.empty() ? "" : path + ".") + each.first.Scalar(), out);
  else
    out[path] = YAML::Dump(node);
}

}  // namespace

std::map<std::string, std::string> flat_config(const std::string& yaml) {
  std::map<std::string, std::string> out;
  try {
    flatten(YAML::Load(yaml), "", out);
  } catch (const YAML::Exception&) {
    out.clear();
  }
  return out;
}

}  // namespace cohort::traj
