#include "runtime/plugin/native/native_tool.hpp"

#include <fmt/format.h>

#include <utility>

namespace cohort::plugin {

NativeTool::NativeTool(std::shared_ptr<const NativeLibrary> library, const cohort_tool_v1* table,
                       void* self)
    : library_(std::move(library)), table_(table), self_(self) {}

NativeTool::~NativeTool() { table_->destroy(self_); }

Expected<std::unique_ptr<NativeTool>> NativeTool::load(const std::string& path,
                                                       const std::string& config_json) {
  COHORT_ASSIGN(auto library, NativeLibrary::open(path));
  COHORT_ASSIGN(const void* found,
                library->table(COHORT_TOOL_SYMBOL, COHORT_TOOL_ABI, sizeof(cohort_tool_v1)));
  const auto* table = static_cast<const cohort_tool_v1*>(found);
  if (table->create == nullptr || table->call == nullptr || table->destroy == nullptr ||
      table->schema_json == nullptr)
    return Error{Errc::unsupported, path + ": its table lacks a function or the schema"};
  NativeMessage message;
  void* self = nullptr;
  if (table->create(to_abi(config_json), &self, &message.abi) != 0)
    return Error{Errc::config, fmt::format("{}: {}", path, message.words())};
  return std::unique_ptr<NativeTool>(new NativeTool(std::move(library), table, self));
}

Expected<std::string> NativeTool::call(std::string_view arguments, size_t bytes_max) const {
  std::string said;
  const cohort_tool_sink sink = {
      .size_bytes = sizeof(cohort_tool_sink), .host = &said, .text = [](void* host, cohort_text x) {
        static_cast<std::string*>(host)->append(from_abi(x));
      }};
  NativeMessage message;
  if (table_->call(self_, to_abi(arguments), &sink, &message.abi) != 0)
    return Error{Errc::compute, message.words()};
  if (said.size() > bytes_max)
    return Error{Errc::capacity,
                 fmt::format("gave {} bytes, more than {}", said.size(), bytes_max)};
  return said;
}

}  // namespace cohort::plugin
