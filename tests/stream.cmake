cohort_test(stream_unit_test unit SOURCES unit/stream_format_test.cpp DEPS cohort::stream)
cohort_test(stream_property_test property SOURCES property/stream_test.cpp DEPS cohort::stream TSAN)
cohort_test(stream_integration_test integration
  SOURCES integration/stream_crash_test.cpp integration/traj_test.cpp DEPS cohort::stream)
if(TARGET traj)
  cohort_test(import_rows_test unit SOURCES unit/import_rows_test.cpp DEPS cohort::traj_reading)
  add_dependencies(stream_integration_test traj)
endif()
