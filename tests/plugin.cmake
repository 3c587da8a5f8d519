# Tests of runtime/plugin.
cohort_test(sandbox_escape_test integration SOURCES integration/sandbox_escape_test.cpp
  DEPS cohort::plugin)
cohort_test(sandbox_process_test integration NO_MAIN SOURCES integration/sandbox_process_test.cpp
  DEPS cohort::plugin)
cohort_test(code_task_test unit SOURCES unit/code_task_test.cpp DEPS cohort::plugin)
cohort_test(code_reward_test integration SOURCES integration/code_reward_test.cpp
  DEPS cohort::plugin)
