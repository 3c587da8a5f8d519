#include "runtime/tasks/worlds.hpp"

#include <fmt/format.h>

namespace cohort::tasks {
namespace {

WorldPtr make(catalog::EnvType type, const WorldOptions& options, Options& own) {
  using catalog::EnvType;
  switch (type) {
#define COHORT_BUILT(id, ...) \
  case EnvType::id:           \
    return make_##id(options, own);
#define COHORT_HOSTED(id, ...) \
  case EnvType::id:            \
    break;
#define COHORT_PLANNED COHORT_HOSTED
#include "runtime/catalog/environments.def"
#undef COHORT_BUILT
#undef COHORT_HOSTED
#undef COHORT_PLANNED
  }
  return Error{Errc::unsupported,
               fmt::format("environment {} is not built in", catalog::to_string(type))};
}

}  // namespace

WorldPtr make_world(catalog::EnvType type, const WorldOptions& options) {
  COHORT_ASSIGN(Options own, Options::parse(fmt::format("environment {}", catalog::to_string(type)),
                                            options.own));
  COHORT_ASSIGN(std::unique_ptr<Environment> world, make(type, options, own));
  COHORT_TRY(own.finish());
  return world;
}

}  // namespace cohort::tasks
