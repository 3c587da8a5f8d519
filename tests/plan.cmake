cohort_test(plan_unit_test unit TSAN
  SOURCES unit/plan_ledger_test.cpp unit/plan_placement_test.cpp unit/plan_phases_test.cpp
    unit/plan_timeshare_test.cpp unit/plan_phases_table_test.cpp support/phases_schedule.cpp unit/leak_watch_test.cpp unit/membership_test.cpp unit/first_step_test.cpp unit/plan_memory_test.cpp unit/plan_batch_test.cpp unit/plan_collector_test.cpp
  DEPS cohort::plan)
cohort_test(plan_property_test property TSAN
  SOURCES property/plan_phases_test.cpp property/node_table_test.cpp property/start_gate_test.cpp property/plan_ledger_test.cpp property/plan_stream_test.cpp property/membership_test.cpp property/phase_machine_test.cpp
  DEPS cohort::plan)
cohort_test(plan_job_test unit
  SOURCES unit/plan_model_test.cpp unit/plan_job_test.cpp DEPS cohort::plan)
cohort_test(plan_job_property_test property SOURCES property/plan_job_test.cpp DEPS cohort::plan)
# The explorers and the planners that they drive are compiled optimised in every build type: they visit tens of
# millions of states. No sanitizer runs them.
if(NOT COHORT_SANITIZE)
  set(plan_place_sources ${PROJECT_SOURCE_DIR}/runtime/plan/place/residency.cpp ${PROJECT_SOURCE_DIR}/runtime/plan/place/ledger.cpp
    ${PROJECT_SOURCE_DIR}/runtime/plan/place/version_table.cpp ${PROJECT_SOURCE_DIR}/runtime/plan/place/placement.cpp
    ${PROJECT_SOURCE_DIR}/runtime/plan/place/phases.cpp ${PROJECT_SOURCE_DIR}/runtime/plan/place/phases_table.cpp)
  cohort_test(plan_explore_test property PCH none TIMEOUT 300
    SOURCES property/plan_explore_test.cpp support/place_world.cpp support/place_explorer.cpp ${plan_place_sources}
    DEPS cohort::base)
  cohort_test(plan_random_walk_test property APART PCH none TIMEOUT 300
    SOURCES property/plan_random_walk_test.cpp ${plan_place_sources} DEPS cohort::base)
  foreach(test plan_explore_test plan_random_walk_test)
    target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_options(${test} PRIVATE -O2)
  endforeach()
endif()
cohort_test(plan_reshard_test property TSAN
  SOURCES property/plan_reshard_test.cpp property/reshard_absent_test.cpp DEPS cohort::plan)
cohort_test(plan_reshard_golden_test golden SOURCES golden/plan_reshard_golden_test.cpp golden/membership_table_test.cpp DEPS cohort::plan)
cohort_test(dispatch_test property TSAN SOURCES property/dispatch_test.cpp property/recorded_schedule_test.cpp property/stragglers_test.cpp property/suspects_test.cpp property/refill_test.cpp DEPS cohort::plan)
cohort_test(run_machine_test unit TSAN SOURCES unit/run_machine_test.cpp unit/run_machine_ahead_test.cpp unit/run_refill_test.cpp support/run_script.cpp DEPS cohort::plan)
cohort_test(run_machine_property_test property TSAN
  SOURCES property/run_machine_test.cpp support/run_world.cpp support/run_script.cpp DEPS cohort::plan)
cohort_test(run_machine_table_test golden
  SOURCES golden/run_machine_table_test.cpp support/run_script.cpp DEPS cohort::plan)
cohort_test(stall_test unit SOURCES unit/stall_test.cpp DEPS cohort::plan)
