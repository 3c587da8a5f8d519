find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
cohort_test(observe_unit_test unit TSAN
  SOURCES unit/observe_test.cpp unit/observe_console_test.cpp unit/dashboard_test.cpp
  DEPS cohort::observe nlohmann_json::nlohmann_json)
cohort_test(token_page_test unit SOURCES unit/token_page_test.cpp DEPS cohort::observe)
cohort_test(top_picture_test unit SOURCES unit/top_picture_test.cpp DEPS cohort::observe)
cohort_test(otlp_test unit SOURCES unit/otlp_test.cpp
  DEPS cohort::observe nlohmann_json::nlohmann_json)
cohort_test(observe_golden_test golden
  SOURCES golden/observe_console_test.cpp golden/observe_tensorboard_test.cpp golden/observe_report_test.cpp golden/observe_trace_test.cpp golden/dashboard_metrics_test.cpp
  DEPS cohort::observe nlohmann_json::nlohmann_json)
cohort_test(dashboard_property_test property SOURCES property/dashboard_test.cpp
  DEPS cohort::observe nlohmann_json::nlohmann_json)
cohort_test(observe_files_test integration TSAN
  SOURCES integration/observe_files_test.cpp
  DEPS cohort::observe nlohmann_json::nlohmann_json)
