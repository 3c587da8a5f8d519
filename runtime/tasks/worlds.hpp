#pragma once
/// The environments that are built in, by name. Each built row of runtime/catalog/environments.def
/// has its factory make_<id>() in a file of this folder; docs/extending.md adds one.
#include <memory>
#include <string>

#include "runtime/catalog/catalog.hpp"
#include "runtime/tasks/json_options.hpp"
#include "runtime/tasks/text_environment.hpp"

namespace cohort::tasks {

/// What an entry of custom_envs says.
struct WorldOptions {
  int max_steps = 10;  // [turns]
  float format_penalty = -0.01F;
  std::string action_pattern = "<answer>(.*?)</answer>";
  std::string own = "{}";  // JSON object: the world's own settings
};

using WorldPtr = Expected<std::unique_ptr<Environment>>;

/// make_<id>() reads its own settings and leaves Options::finish() to make_world().
#define COHORT_BUILT(id, ...) WorldPtr make_##id(const WorldOptions& options, Options& own);
#define COHORT_HOSTED(id, ...)
#define COHORT_PLANNED(id, ...)
#include "runtime/catalog/environments.def"
#undef COHORT_BUILT
#undef COHORT_HOSTED
#undef COHORT_PLANNED

/// Returns a world. Errc::config for a setting that it has not, or that does not fit;
/// Errc::unsupported for a row that is not a world of this folder.
WorldPtr make_world(catalog::EnvType type, const WorldOptions& options);

}  // namespace cohort::tasks
