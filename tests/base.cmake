cohort_test(failpoint_test unit SOURCES unit/failpoint_test.cpp DEPS cohort::base)
