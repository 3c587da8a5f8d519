#pragma once
/// Environments of a shared object (include/cohort/environment.h), in the process that loads it;
/// plugin_environment.hpp runs them in sandboxed children. NativeEnvironments is thread-safe; a
/// world that it made belongs to one thread. Errors as load_native_reward().
#include <memory>
#include <string>
#include <string_view>

#include "cohort/environment.h"
#include "runtime/plugin/child/plugin_frames.hpp"
#include "runtime/plugin/native/native_library.hpp"

namespace cohort::plugin {

/// One world; its calls return the plugin's answer, or its message as an error.
class NativeWorld {
 public:
  ~NativeWorld();
  NativeWorld(const NativeWorld&) = delete;
  NativeWorld& operator=(const NativeWorld&) = delete;

  Expected<World> reset(uint64_t seed);
  Expected<World> step(std::string_view answer);

 private:
  friend class NativeEnvironments;
  NativeWorld(std::shared_ptr<const NativeLibrary> library, const cohort_environment_v1* table,
              void* self);
  std::shared_ptr<const NativeLibrary> library_;
  const cohort_environment_v1* table_;
  void* self_;
};

class NativeEnvironments {
 public:
  /// Loads the object and makes one world, to find out whether it takes the options.
  static Expected<std::unique_ptr<NativeEnvironments>> load(const std::string& path,
                                                            std::string config_json);
  Expected<std::unique_ptr<NativeWorld>> make() const;
  const char* name() const { return table_->name; }

 private:
  NativeEnvironments(std::shared_ptr<const NativeLibrary> library,
                     const cohort_environment_v1* table, std::string config_json);
  std::shared_ptr<const NativeLibrary> library_;
  const cohort_environment_v1* table_;
  std::string config_json_;
};

}  // namespace cohort::plugin
