cohort_test(job_spec_test unit SOURCES unit/job_spec_test.cpp DEPS cohort::job)
cohort_test(plan_page_test unit SOURCES unit/plan_page_test.cpp DEPS cohort::plan_command)
cohort_test(plan_command_test integration SOURCES integration/plan_command_test.cpp
  DEPS cohort::plan_command)
cohort_test(plan_text_golden_test golden SOURCES golden/plan_text_test.cpp DEPS cohort::plan_command)
