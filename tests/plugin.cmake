# Tests of runtime/plugin.
cohort_test(judge_text_test unit SOURCES unit/judge_text_test.cpp DEPS cohort::plugin)
find_package(nlohmann_json REQUIRED)
cohort_test(http_reward_test integration SOURCES integration/http_reward_test.cpp
  DEPS cohort::plugin cohort_httplib nlohmann_json::nlohmann_json)
