/* A tool that a policy may call, as a shared object: the C interface `cohort_tool_v1`. C99; C++
 * authors take <cohort/tool.hpp>.
 *
 * A plugin exports
 *     COHORT_EXPORT const cohort_tool_v1* cohort_tool_plugin(void);
 * with the same rules as <cohort/reward.h>: `abi` and `size_bytes` first, structs grow at their
 * end. create() makes one tool, used by one thread at a time. The same arguments should give the
 * same text in any process: a run can then be repeated bit for bit.
 */
#ifndef COHORT_TOOL_H
#define COHORT_TOOL_H

#include "cohort/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COHORT_TOOL_ABI 1u
#define COHORT_TOOL_SYMBOL "cohort_tool_plugin"

/* Takes what a call says; `host` is the first argument. Several texts of a call are one. */
typedef struct cohort_tool_sink {
  size_t size_bytes;
  void* host;
  void (*text)(void* host, cohort_text text);
} cohort_tool_sink;

typedef struct cohort_tool_v1 {
  uint32_t abi;        /* COHORT_TOOL_ABI */
  uint32_t size_bytes; /* sizeof(cohort_tool_v1) */
  const char* name;    /* of the plugin; calls give the name in the schema */
  /* What the prompt shows: {"type": "function", "function": {"name", "description",
   * "parameters"}}, UTF-8. */
  const char* schema_json;
  int (*create)(cohort_text config_json, void** self, cohort_message* message);
  /* Runs one call; `arguments_json` is a JSON object. A return other than 0 with a message is an
   * answer that failed, for the policy to see. */
  int (*call)(void* self, cohort_text arguments_json, const cohort_tool_sink* sink,
              cohort_message* message);
  void (*destroy)(void* self);
} cohort_tool_v1;

typedef const cohort_tool_v1* (*cohort_tool_plugin_function)(void);

#ifdef __cplusplus
}
#endif
#endif
