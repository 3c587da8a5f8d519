#include "tools/actor-node/doctor_config.hpp"

#include <fmt/format.h>

#include "runtime/config/load.hpp"
#include "runtime/config/verl/verl_load.hpp"

namespace cohort {

Expected<config::RunConfig> load_words(const ConfigWords& words) {
  config::LoadOptions options;
  options.check_files = false;  // weights may lie on the training hosts only
  if (words.dialect == "roll") return config::load(words.path, words.overrides, options);
  if (words.dialect != "verl")
    return Error{Errc::invalid_argument,
                 fmt::format("--dialect {}: one of roll, verl", words.dialect)};
  std::vector<std::string> all;
  if (!words.path.empty()) all.push_back(words.path);
  all.insert(all.end(), words.overrides.begin(), words.overrides.end());
  return config::load_verl(all, options);
}

}  // namespace cohort
