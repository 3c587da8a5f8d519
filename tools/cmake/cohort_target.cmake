# cohort_library(NAME plan HEADERS a.hpp … SOURCES a.cpp … DEPS cohort::base … PRIVATE_DEPS …)
#   one static library per folder, alias cohort::NAME; headers are in a file set, so that the target
#   all_verify_interface_header_sets compiles each of them alone. SYSTEM_INCLUDES: third-party include folders.
# cohort_test(NAME tier SOURCES a_test.cpp … DEPS cohort::x …)
#   one gtest binary = one ctest entry with the label `tier`. TIMEOUT seconds (default by tier), TSAN marks it fit for the tsan preset.
# cohort_executable(NAME SOURCES … DEPS …): a binary in bin/.
# All three take PCH NAME (a precompiled header of cohort_precompiled; std and gtest by default, or none), OPTIMIZE n (-On in
#   Release, where more costs compile time and buys nothing) and APART (no unity build, COHORT_UNITY: its local names clash).
#   Unity builds (presets release, ci, asan) share what templates cost: 8 sources of a library are one translation unit.
find_package(Threads REQUIRED)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

add_library(cohort_warnings INTERFACE)
target_compile_options(cohort_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 at -O3 sees overlapping copies in std::string concatenation (GCC bug 105651): never true.
  target_compile_options(cohort_warnings INTERFACE -Wno-restrict)
endif()
if(COHORT_WERROR)
  target_compile_options(cohort_warnings INTERFACE -Werror)
endif()
# tests/fuzz.cmake: the libraries are instrumented too, or the fuzzer would not see into them.
if(COHORT_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(COHORT_SANITIZE STREQUAL "address")
  # CAF 0.17 binds null references in init_fun_factory.hpp: the null check alone stays off.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(COHORT_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

# Everything is position-independent code, so that one precompiled header fits libraries, programs and tests.
add_compile_options(-fPIC)
# cohort_precompiled(NAME HEADERS…): a precompiled header that any target may take with PCH NAME.
function(cohort_precompiled name)
  cmake_parse_arguments(A "" "" "HEADERS;DEPS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp CONTENT "")
  add_library(cohort_pch_${name} OBJECT ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)
  target_include_directories(cohort_pch_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  # With our warnings: -Wpedantic takes a macro away.
  target_link_libraries(cohort_pch_${name} PRIVATE cohort_warnings ${A_DEPS})
  target_precompile_headers(cohort_pch_${name} PRIVATE ${A_HEADERS})
endfunction()
set(cohort_std_headers <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdlib>
  <cstring> <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span>
  <sstream> <string> <string_view> <thread> <utility> <variant> <vector> <fmt/format.h>)
find_package(fmt REQUIRED)
cohort_precompiled(std HEADERS ${cohort_std_headers} DEPS fmt::fmt)

# cohort_shape(TARGET PCH O APART BATCH): how the sources of a target are compiled.
function(cohort_shape target pch optimize apart batch)
  if(NOT pch)
    set(pch std)
  endif()
  if(NOT pch STREQUAL "none" AND NOT COHORT_LIBFUZZER)
    target_precompile_headers(${target} REUSE_FROM cohort_pch_${pch})
  endif()
  if(optimize AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O${optimize})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # GCC 12 at -O1 does not see what std::string has checked (GCC bug 105562).
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds)
    endif()
  endif()
  if(COHORT_UNITY AND NOT apart)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
    # GCC takes the sources for headers there, and inlines more of std::string and of JSON than it understands (GCC bug 105329).
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage -Wno-array-bounds -Wno-stringop-overflow>)
  endif()
endfunction()

function(cohort_library)
  cmake_parse_arguments(A "APART" "NAME;PCH;OPTIMIZE" "HEADERS;SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target cohort_${A_NAME})
  if(A_SOURCES)
    add_library(${target} STATIC ${A_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE cohort_warnings ${A_PRIVATE_DEPS})
    cohort_shape(${target} "${A_PCH}" "${A_OPTIMIZE}" "${A_APART}" 8)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(cohort::${A_NAME} ALIAS ${target})
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} ${scope} ${A_DEPS})
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${A_HEADERS})
endfunction()

function(cohort_test name tier)
  cmake_parse_arguments(A "TSAN;NO_MAIN;APART" "TIMEOUT;PCH;OPTIMIZE" "SOURCES;DEPS;ENVIRONMENT;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  if(NOT TARGET cohort_pch_gtest)
    cohort_precompiled(gtest HEADERS ${cohort_std_headers} <gtest/gtest.h> DEPS fmt::fmt GTest::gtest)
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE cohort_warnings fmt::fmt ${A_DEPS} GTest::gtest)
  if(NOT A_NO_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  if(NOT A_PCH)
    set(A_PCH gtest)
  endif()
  if(NOT A_OPTIMIZE)
    set(A_OPTIMIZE 1)
  endif()
  cohort_shape(${name} ${A_PCH} ${A_OPTIMIZE} "${A_APART}" 0)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${tier}.${name} COMMAND ${name})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  set(labels ${tier} ${A_LABELS})
  if(A_TSAN)
    list(APPEND labels tsan)
  endif()
  set_tests_properties(${tier}.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${A_TIMEOUT}
    ENVIRONMENT "OMP_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1;COHORT_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};COHORT_SOURCE_DIR=${PROJECT_SOURCE_DIR};${A_ENVIRONMENT}")
endfunction()

function(cohort_executable name)
  cmake_parse_arguments(A "APART" "PCH" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE cohort_warnings fmt::fmt ${A_DEPS})
  cohort_shape(${name} "${A_PCH}" 1 "${A_APART}" 8)
endfunction()
