# Tests of runtime/plugin.
cohort_test(judge_text_test unit SOURCES unit/judge_text_test.cpp DEPS cohort::plugin)
