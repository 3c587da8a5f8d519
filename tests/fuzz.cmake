# cohort_fuzz(NAME SOURCES fuzz/NAME_fuzz.cpp DEPS cohort::x …): a LLVMFuzzerTestOneInput and its corpus tests/fuzz/corpus/NAME/.
#   Any compiler: replay_main.cpp runs the corpus and 5 seconds of mutations, as ctest fuzz.NAME, label fuzz.
#   COHORT_LIBFUZZER=ON with clang: a libFuzzer binary instead (fuzz_NAME -max_total_time=600 CORPUS); its ctest runs 5 seconds too.
option(COHORT_LIBFUZZER "fuzz targets link libFuzzer (clang)" OFF)
function(cohort_fuzz name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})
  add_executable(fuzz_${name} ${A_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE cohort_warnings ${A_DEPS})
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(COHORT_LIBFUZZER)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    # the folder that libFuzzer writes to comes first
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fuzz_${name}_found)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} -max_total_time=5 -rss_limit_mb=2048
      ${PROJECT_BINARY_DIR}/tests/fuzz_${name}_found ${corpus})
  else()
    target_sources(fuzz_${name} PRIVATE fuzz/replay_main.cpp)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${corpus} 5)
  endif()
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 60
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

if(TARGET cohort_config)
  cohort_fuzz(yaml SOURCES fuzz/yaml_fuzz.cpp DEPS cohort::config)
  cohort_fuzz(override SOURCES fuzz/override_fuzz.cpp DEPS cohort::config)
  cohort_fuzz(device_mapping SOURCES fuzz/device_mapping_fuzz.cpp DEPS cohort::config)
endif()
if(TARGET cohort_platform)
  cohort_fuzz(tool_output SOURCES fuzz/tool_output_fuzz.cpp DEPS cohort::platform)
endif()
if(TARGET cohort_tasks)
  cohort_fuzz(math_rule SOURCES fuzz/math_rule_fuzz.cpp DEPS cohort::tasks)
endif()
