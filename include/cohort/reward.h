/* A reward as a shared object: the C interface `cohort_reward_v1`. C99; C++ authors take
 * <cohort/reward.hpp>.
 *
 * A plugin exports one function,
 *     COHORT_EXPORT const cohort_reward_v1* cohort_reward_plugin(void);
 * which returns a table that lives as long as the shared object. `abi` and `size_bytes` stay the
 * first two fields of every version, so that a host can refuse a table of another version before
 * it reads on. Within one version structs only grow at their end: a plugin reads rows with
 * cohort_reward_row_at() and fields of the sink only below its size_bytes.
 *
 * Threads: score() is called from at most `concurrency` threads at once; create() and destroy()
 * from one. Nothing may be thrown or longjmp'ed through this interface.
 */
#ifndef COHORT_REWARD_H
#define COHORT_REWARD_H

#include "cohort/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COHORT_REWARD_ABI 1u
#define COHORT_REWARD_SYMBOL "cohort_reward_plugin"

/* One answer and what is known of its prompt. */
typedef struct cohort_reward_row {
  cohort_text id;       /* names the row in messages */
  cohort_text response; /* decoded answer, special tokens left out */
  cohort_text prompt;   /* the text the model read */
  cohort_text messages; /* JSON list of {"role", "content"}; empty: prompt is one user message */
  cohort_text ground_truth; /* may be empty */
  cohort_text data_source;  /* verl's data_source; ROLL's tag */
  cohort_text columns;      /* JSON object of the row's further columns; may be empty */
  uint32_t response_tokens;
  uint32_t is_finished; /* 1: the model ended its answer; 0: cut by the token budget */
} cohort_reward_row;

typedef struct cohort_reward_batch {
  uint32_t size_bytes; /* sizeof(cohort_reward_batch) of the host */
  uint32_t row_bytes;  /* distance of two rows */
  size_t count;
  const void* rows;
} cohort_reward_batch;

static inline const cohort_reward_row* cohort_reward_row_at(const cohort_reward_batch* batch,
                                                            size_t i) {
  return (const cohort_reward_row*)(const void*)((const char*)batch->rows + i * batch->row_bytes);
}

/* Takes what the rows are worth, by row index; `host` is the first argument of each call. A row
 * for which neither score() nor error() was called counts as an error. */
typedef struct cohort_reward_sink {
  size_t size_bytes; /* sizeof(cohort_reward_sink) of the host */
  void* host;
  void (*score)(void* host, size_t row, double score);
  void (*part)(void* host, size_t row, cohort_text name, double value); /* a further number */
  void (*detail)(void* host, size_t row, cohort_text text);             /* the verdict in words */
  void (*error)(void* host, size_t row, cohort_text text);              /* there is no score */
} cohort_reward_sink;

typedef struct cohort_reward_v1 {
  uint32_t abi;         /* COHORT_REWARD_ABI */
  uint32_t size_bytes;  /* sizeof(cohort_reward_v1) */
  uint32_t concurrency; /* threads that may be in score() at once; 0 counts as 1 */
  uint32_t is_batch; /* 0: rows are judged one by one and may come in any portions; 1: together */
  const char* name;  /* zero-terminated */
  /* Makes one reward from its options, a JSON object. Returns 0, or another number and a message.
   */
  int (*create)(cohort_text config_json, void** self, cohort_message* message);
  /* Scores the rows. Returns 0, or another number and a message: then the host asks again for each
   * row alone. With is_batch 0 a host may pass one row at a time, each with the deadline of a row;
   * with is_batch 1 a call has the deadlines of its rows together. */
  int (*score)(void* self, const cohort_reward_batch* batch, const cohort_reward_sink* sink,
               cohort_message* message);
  void (*destroy)(void* self);
} cohort_reward_v1;

typedef const cohort_reward_v1* (*cohort_reward_plugin_function)(void);

#ifdef __cplusplus
}
#endif
#endif
