# The device seam. Kinds without a device on this machine skip (tools/cuda_check runs them on one that has).
cohort_test(device_test unit
  SOURCES unit/device_test.cpp unit/device_group_test.cpp
  DEPS cohort::compute LABELS gpu)

# Libraries that play a torch_npu which cannot be used.
function(cohort_stand_in name)
  add_library(npu_stand_in_${name} SHARED support/npu_stand_in.cpp)
  target_compile_definitions(npu_stand_in_${name} PRIVATE ${ARGN})
  set_target_properties(npu_stand_in_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()
cohort_stand_in(plain)
cohort_stand_in(old_abi COHORT_STAND_IN_SYMBOL=_ZN3c106detail14torchCheckFailEPKcS2_jRKSs)
cohort_stand_in(other_torch COHORT_STAND_IN_SYMBOL=_ZN2at17no_call_of_this_oneEv)
cohort_stand_in(python COHORT_STAND_IN_SYMBOL=PyErr_Occurred)
cohort_stand_in(no_device COHORT_STAND_IN_GUARD)
target_link_libraries(npu_stand_in_no_device PRIVATE cohort::torch)
cohort_test(npu_library_test unit SOURCES unit/npu_library_test.cpp DEPS cohort::compute)
foreach(name plain old_abi other_torch python no_device)
  string(TOUPPER ${name} upper)
  target_compile_definitions(npu_library_test PRIVATE COHORT_STAND_IN_${upper}="$<TARGET_FILE:npu_stand_in_${name}>")
  add_dependencies(npu_library_test npu_stand_in_${name})
endforeach()

# The engines on a card that is a device.
cohort_test(device_train_test integration PCH torch SOURCES integration/device_train_test.cpp DEPS cohort::compute LABELS gpu)
