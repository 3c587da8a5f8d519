cohort_test(doctor_test integration
  SOURCES integration/doctor_test.cpp unit/rescale_command_test.cpp
  DEPS cohort::doctor)
