cohort_test(plan_unit_test unit TSAN
  SOURCES unit/plan_ledger_test.cpp unit/plan_placement_test.cpp unit/plan_phases_test.cpp
    unit/plan_memory_test.cpp unit/plan_batch_test.cpp unit/plan_collector_test.cpp
  DEPS cohort::plan)
cohort_test(plan_property_test property TSAN
  SOURCES property/plan_phases_test.cpp property/plan_ledger_test.cpp property/plan_stream_test.cpp
  DEPS cohort::plan)
