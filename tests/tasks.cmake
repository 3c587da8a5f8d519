cohort_test(tasks_unit unit SOURCES unit/frozen_lake_test.cpp unit/tasks_text_test.cpp DEPS cohort::tasks)
cohort_test(tasks_property property SOURCES property/scripted_test.cpp DEPS cohort::tasks)
cohort_test(tasks_golden golden SOURCES golden/frozen_lake_maps_test.cpp DEPS cohort::tasks)
cohort_test(rule_rewards_unit unit SOURCES unit/rule_rewards_test.cpp unit/math_rule_test.cpp DEPS cohort::tasks
  APART)
find_package(fmt REQUIRED)
cohort_test(math_rule_property property SOURCES property/math_rule_test.cpp DEPS cohort::tasks fmt::fmt)
