# Training side of runtime/compute. The generation engine's binaries follow below.
cohort_test(compute_unit_test unit
  SOURCES unit/compute_kernels_test.cpp unit/compute_storage_test.cpp unit/compute_ops_test.cpp
  DEPS cohort::compute)
cohort_test(compute_train_test property
  SOURCES property/compute_train_test.cpp
  DEPS cohort::compute)
# The tests of torch code share the library's precompiled torch header: same flags, position independent.
set_target_properties(compute_unit_test compute_train_test PROPERTIES POSITION_INDEPENDENT_CODE ON)
foreach(target compute_unit_test compute_train_test)
  target_precompile_headers(${target} REUSE_FROM cohort_compute)
endforeach()
set_source_files_properties(unit/compute_kernels_test.cpp unit/compute_storage_test.cpp
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
