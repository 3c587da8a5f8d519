cohort_test(tasks_unit unit SOURCES unit/frozen_lake_test.cpp unit/tasks_text_test.cpp DEPS cohort::tasks)
cohort_test(folder_chat_test unit SOURCES unit/folder_chat_test.cpp DEPS cohort::tasks nlohmann_json::nlohmann_json)
cohort_test(tool_loop_unit unit SOURCES unit/tool_calls_test.cpp unit/tool_world_test.cpp
  DEPS cohort::tasks nlohmann_json::nlohmann_json)
cohort_test(tasks_property property SOURCES property/scripted_test.cpp DEPS cohort::tasks)
cohort_test(tasks_golden golden SOURCES golden/frozen_lake_maps_test.cpp DEPS cohort::tasks)
cohort_test(sokoban_unit unit SOURCES unit/sokoban_test.cpp DEPS cohort::tasks)
cohort_test(sokoban_property property TSAN SOURCES property/sokoban_rooms_test.cpp DEPS cohort::tasks)
cohort_test(sokoban_golden golden SOURCES golden/sokoban_rooms_test.cpp DEPS cohort::tasks)
cohort_test(dataset_unit unit SOURCES unit/dataset_test.cpp unit/prompt_filter_test.cpp unit/sft_row_test.cpp
  DEPS cohort::tasks nlohmann_json::nlohmann_json)
cohort_test(data_order_property property SOURCES property/data_order_test.cpp DEPS cohort::tasks)
cohort_test(rule_rewards_unit unit SOURCES unit/rule_rewards_test.cpp unit/math_rule_test.cpp DEPS cohort::tasks
  APART)
find_package(fmt REQUIRED)
cohort_test(math_rule_property property SOURCES property/math_rule_test.cpp DEPS cohort::tasks fmt::fmt)
