cohort_test(control_golden_test golden SOURCES golden/control_messages_test.cpp DEPS cohort::control)
if(TARGET cohort_keys_command)
  cohort_test(credentials_test unit SOURCES unit/credentials_test.cpp DEPS cohort::keys_command)
endif()
