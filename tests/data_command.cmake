cohort_test(data_command_test unit SOURCES unit/data_command_test.cpp DEPS cohort::data_command)
