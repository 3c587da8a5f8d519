cohort_test(tasks_unit unit SOURCES unit/frozen_lake_test.cpp unit/tasks_text_test.cpp DEPS cohort::tasks)
cohort_test(tasks_property property SOURCES property/scripted_test.cpp DEPS cohort::tasks)
cohort_test(tasks_golden golden SOURCES golden/frozen_lake_maps_test.cpp DEPS cohort::tasks)
