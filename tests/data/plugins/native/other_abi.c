/* What a plugin of a later version begins with. */
#include <cohort/reward.h>

static const uint32_t table[64] = {2, sizeof(table)};

COHORT_EXPORT const cohort_reward_v1* cohort_reward_plugin(void) {
  return (const cohort_reward_v1*)(const void*)table;
}
