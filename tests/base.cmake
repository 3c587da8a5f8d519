cohort_test(failpoint_test unit SOURCES unit/failpoint_test.cpp DEPS cohort::base)
cohort_test(base_names_test unit
  SOURCES unit/base_names_test.cpp unit/numbers_test.cpp unit/read_file_test.cpp DEPS cohort::base)
cohort_test(waits_test unit SOURCES unit/waits_test.cpp DEPS cohort::base)
cohort_test(histogram_test unit SOURCES unit/histogram_test.cpp DEPS cohort::base)
