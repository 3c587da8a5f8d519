# find_package(cohort): what a plugin is built with.
#   cohort::plugin_sdk                       the headers (C99; C++17 for the wrappers)
#   cohort_add_reward(NAME a.cpp …)          NAME.so, to be loaded as a reward
#   cohort_add_environment(NAME a.cpp …)     NAME.so, to be loaded as an environment
#   cohort_add_tool(NAME a.cpp …)            NAME.so, to be loaded as a tool
get_filename_component(cohort_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET cohort::plugin_sdk)
  add_library(cohort::plugin_sdk INTERFACE IMPORTED)
  set_target_properties(cohort::plugin_sdk PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${cohort_PREFIX}/include")
  # A project without C++ has no use for the wrappers.
  if(CMAKE_CXX_COMPILER)
    set_target_properties(cohort::plugin_sdk PROPERTIES INTERFACE_COMPILE_FEATURES cxx_std_17)
  endif()
endif()

function(cohort_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE cohort::plugin_sdk)
  # Only what COHORT_EXPORT marks is seen: two plugins of one process cannot clash.
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so"
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

function(cohort_add_reward name)
  cohort_add_plugin(${name} ${ARGN})
endfunction()

function(cohort_add_environment name)
  cohort_add_plugin(${name} ${ARGN})
endfunction()

function(cohort_add_tool name)
  cohort_add_plugin(${name} ${ARGN})
endfunction()
