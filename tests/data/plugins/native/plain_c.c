/* A reward in C: the length of the answer, in bytes; options are refused. */
#include <cohort/reward.h>
#include <stdio.h>
#include <stdlib.h>

static int create(cohort_text config, void** self, cohort_message* message) {
  if (config.size > 2) {
    snprintf(message->data, message->capacity, "takes no options");
    return 1;
  }
  *self = malloc(1);
  return 0;
}

static int score(void* self, const cohort_reward_batch* batch, const cohort_reward_sink* sink,
                 cohort_message* message) {
  (void)self;
  (void)message;
  for (size_t i = 0; i < batch->count; ++i) {
    const cohort_reward_row* row = cohort_reward_row_at(batch, i);
    if (row->response.size == 0) {
      const cohort_text why = {"no answer", 9};
      sink->error(sink->host, i, why);
    } else {
      sink->score(sink->host, i, (double)row->response.size);
    }
  }
  return 0;
}

COHORT_EXPORT const cohort_reward_v1* cohort_reward_plugin(void) {
  static const cohort_reward_v1 table = {
      COHORT_REWARD_ABI, sizeof(cohort_reward_v1), 1, 0, "plain_c", create, score, free};
  return &table;
}
