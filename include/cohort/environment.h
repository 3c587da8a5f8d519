/* A text environment as a shared object: the C interface `cohort_environment_v1`. C99; C++ authors
 * take <cohort/environment.hpp>.
 *
 * A plugin exports
 *     COHORT_EXPORT const cohort_environment_v1* cohort_environment_plugin(void);
 * with the same rules as <cohort/reward.h>: `abi` and `size_bytes` first, structs grow at their
 * end. create() makes one world; many exist at once, each used by one thread at a time. The same
 * (config, seed, answers) must give the same observations and rewards in any process: the run
 * replays episodes by seed.
 */
#ifndef COHORT_ENVIRONMENT_H
#define COHORT_ENVIRONMENT_H

#include "cohort/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COHORT_ENVIRONMENT_ABI 1u
#define COHORT_ENVIRONMENT_SYMBOL "cohort_environment_plugin"

/* What one answer did; the host sets size_bytes and zeros the rest but actions_left (-1). */
typedef struct cohort_step {
  uint32_t size_bytes;
  uint32_t is_done;      /* the episode has ended */
  uint32_t is_valid;     /* an action was found in the answer */
  uint32_t is_effective; /* the action changed the world */
  uint32_t is_success;   /* the goal is reached */
  int32_t actions_left;  /* answers the episode still accepts; -1: not known */
  double reward;         /* paid for this turn */
} cohort_step;

/* Takes texts and numbers of a call; `host` is the first argument of each. */
typedef struct cohort_environment_sink {
  size_t size_bytes;
  void* host;
  void (*observation)(void* host, cohort_text text);
  void (*stop_reason)(void* host, cohort_text text); /* "goal", "hole", ... when is_done */
  void (*event)(void* host, cohort_text text);       /* "moved", "blocked", ... */
  void (*instructions)(void* host, cohort_text text);
  void (*metric)(void* host, cohort_text name, double value); /* of the episode so far */
} cohort_environment_sink;

typedef struct cohort_environment_v1 {
  uint32_t abi;        /* COHORT_ENVIRONMENT_ABI */
  uint32_t size_bytes; /* sizeof(cohort_environment_v1) */
  const char* name;
  int (*create)(cohort_text config_json, void** self, cohort_message* message);
  /* Starts the episode of `seed`; gives observation, and may set step->actions_left. */
  int (*reset)(void* self, uint64_t seed, cohort_step* step, const cohort_environment_sink* sink,
               cohort_message* message);
  /* Plays the model's answer. */
  int (*step)(void* self, cohort_text answer, cohort_step* step,
              const cohort_environment_sink* sink, cohort_message* message);
  /* Gives the rules as the first user message shows them. */
  int (*instructions)(void* self, const cohort_environment_sink* sink, cohort_message* message);
  void (*destroy)(void* self);
} cohort_environment_v1;

typedef const cohort_environment_v1* (*cohort_environment_plugin_function)(void);

#ifdef __cplusplus
}
#endif
#endif
