cohort_test(config_test unit
  SOURCES unit/config_parts_test.cpp unit/config_load_test.cpp unit/config_errors_test.cpp
  DEPS cohort::config)
cohort_test(config_property_test property SOURCES property/config_test.cpp DEPS cohort::config)
cohort_test(config_golden_test golden SOURCES golden/config_docs_test.cpp DEPS cohort::config)
