cohort_test(platform_test unit SOURCES unit/platform_text_test.cpp DEPS cohort::platform)
cohort_test(platform_probe_test integration SOURCES integration/platform_probe_test.cpp
  DEPS cohort::platform)
