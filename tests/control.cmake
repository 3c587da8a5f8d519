cohort_test(control_golden_test golden SOURCES golden/control_messages_test.cpp DEPS cohort::control)
