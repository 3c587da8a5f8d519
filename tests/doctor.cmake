cohort_test(doctor_rules_test unit TSAN
  SOURCES unit/hccl_count_rules_test.cpp unit/hccl_network_rules_test.cpp unit/hccl_process_rules_test.cpp
    unit/environment_rules_test.cpp unit/rescale_test.cpp
  DEPS cohort::doctor)
cohort_test(doctor_rules_property_test property TSAN SOURCES property/hccl_rules_test.cpp DEPS cohort::doctor)
cohort_test(doctor_text_test unit SOURCES unit/platform_text_test.cpp DEPS cohort::doctor)
cohort_test(doctor_probe_test integration SOURCES integration/platform_probe_test.cpp DEPS cohort::doctor)
if(TARGET cohort_doctor_command)
  cohort_test(doctor_test integration
    SOURCES integration/doctor_test.cpp unit/rescale_command_test.cpp
    DEPS cohort::doctor_command)
endif()
