/* A table that ends too early. */
#include <cohort/reward.h>

static const uint32_t table[64] = {COHORT_REWARD_ABI, 8};

COHORT_EXPORT const cohort_reward_v1* cohort_reward_plugin(void) {
  return (const cohort_reward_v1*)(const void*)table;
}
