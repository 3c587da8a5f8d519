cohort_test(child_processes_test integration TSAN NO_MAIN SOURCES integration/child_processes_test.cpp DEPS cohort::platform)
