cohort_test(platform_test unit SOURCES unit/platform_text_test.cpp DEPS cohort::platform)
cohort_test(platform_probe_test integration SOURCES integration/platform_probe_test.cpp
  DEPS cohort::platform)
cohort_test(child_processes_test integration TSAN NO_MAIN SOURCES integration/child_processes_test.cpp DEPS cohort::platform)
