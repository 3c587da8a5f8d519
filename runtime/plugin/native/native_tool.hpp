#pragma once
/// A tool of a shared object (include/cohort/tool.h), in the process that loads it:
/// cohort-plugin-host in its sandbox. Owner: its loader. One thread at a time. Errors as
/// load_native_reward().
#include <memory>
#include <string>
#include <string_view>

#include "cohort/tool.h"
#include "runtime/plugin/native/native_library.hpp"

namespace cohort::plugin {

class NativeTool {
 public:
  static Expected<std::unique_ptr<NativeTool>> load(const std::string& path,
                                                    const std::string& config_json);
  ~NativeTool();
  NativeTool(const NativeTool&) = delete;
  NativeTool& operator=(const NativeTool&) = delete;

  const char* name() const { return table_->name; }
  const char* schema() const { return table_->schema_json; }
  /// Returns what the tool says, or its message as an error. Errc::capacity: more than `bytes_max`.
  Expected<std::string> call(std::string_view arguments, size_t bytes_max) const;

 private:
  NativeTool(std::shared_ptr<const NativeLibrary> library, const cohort_tool_v1* table, void* self);
  std::shared_ptr<const NativeLibrary> library_;
  const cohort_tool_v1* table_;
  void* self_;
};

}  // namespace cohort::plugin
