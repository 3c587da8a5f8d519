/// C++17 over <cohort/tool.h>: write a class, name it once, build a shared object.
///
///   #include <cohort/options.hpp>
///   #include <cohort/tool.hpp>
///   struct Upper {
///     static constexpr const char* schema = R"({"type": "function", "function": {
///         "name": "upper", "description": "Writes a text in capital letters.",
///         "parameters": {"type": "object", "properties": {"text": {"type": "string"}},
///                        "required": ["text"]}}})";
///     std::string call(std::string_view arguments_json);
///   };
///   COHORT_TOOL(Upper)
///
/// The constructor may take the JSON options as std::string_view. cohort::sdk::Options reads the
/// arguments of a call too. What call() throws is its failure: the policy reads the text.
#ifndef COHORT_TOOL_HPP
#define COHORT_TOOL_HPP

#include <string>
#include <string_view>

#include "cohort/sdk.hpp"
#include "cohort/tool.h"

namespace cohort::sdk::detail {

template <class T>
struct ToolTable {
  static int create(cohort_text config, void** self, cohort_message* message) {
    return guarded(message, [&] { *self = make<T>(config); });
  }
  static int call(void* self, cohort_text arguments, const cohort_tool_sink* sink,
                  cohort_message* message) {
    return guarded(message, [&] {
      const std::string said = static_cast<T*>(self)->call(view(arguments));
      sink->text(sink->host, text(said));
    });
  }
  static void destroy(void* self) { delete static_cast<T*>(self); }
  static const cohort_tool_v1* get(const char* name) {
    static const cohort_tool_v1 table = {
        COHORT_TOOL_ABI, sizeof(cohort_tool_v1), name, T::schema, &create, &call, &destroy};
    return &table;
  }
};

}  // namespace cohort::sdk::detail

/// Exports the class as the tool of this shared object. Once, at namespace scope.
#define COHORT_TOOL(Class)                                                  \
  extern "C" COHORT_EXPORT const cohort_tool_v1* cohort_tool_plugin(void) { \
    return ::cohort::sdk::detail::ToolTable<Class>::get(#Class);            \
  }

#endif
