# Tests of runtime/plugin.
cohort_test(plugin_frames_test unit SOURCES unit/plugin_frames_test.cpp DEPS cohort::plugin)
cohort_test(python_reward_test integration SOURCES integration/python_reward_test.cpp DEPS cohort::plugin)
cohort_test(plugin_environment_test integration SOURCES integration/plugin_environment_test.cpp DEPS cohort::plugin)
cohort_test(gem_world_test integration SOURCES integration/gem_world_test.cpp DEPS cohort::plugin)
find_package(nlohmann_json REQUIRED)
cohort_test(agent_world_test integration SOURCES integration/agent_world_test.cpp
  DEPS cohort::plugin nlohmann_json::nlohmann_json)
cohort_test(tool_plugin_test integration SOURCES integration/tool_plugin_test.cpp DEPS cohort::plugin)
if(TARGET cohort-plugin-host)
  find_package(nlohmann_json REQUIRED)
  cohort_test(reward_commands_test integration SOURCES integration/reward_commands_test.cpp
    DEPS cohort::reward_commands nlohmann_json::nlohmann_json)
  cohort_test(native_plugin_test integration SOURCES integration/native_plugin_test.cpp DEPS cohort::plugin)
  add_dependencies(native_plugin_test cohort-plugin-host)
  target_compile_definitions(native_plugin_test PRIVATE COHORT_CMAKE="${CMAKE_COMMAND}"
    COHORT_BUILD_DIR="${PROJECT_BINARY_DIR}" COHORT_CMAKE_GENERATOR="${CMAKE_GENERATOR}"
    COHORT_CXX_COMPILER="${CMAKE_CXX_COMPILER}")
endif()
cohort_test(judge_text_test unit SOURCES unit/judge_text_test.cpp DEPS cohort::plugin)
find_package(nlohmann_json REQUIRED)
cohort_test(http_reward_test integration SOURCES integration/http_reward_test.cpp
  DEPS cohort::plugin cohort_httplib nlohmann_json::nlohmann_json)
cohort_test(sandbox_escape_test integration SOURCES integration/sandbox_escape_test.cpp
  DEPS cohort::plugin)
cohort_test(sandbox_process_test integration NO_MAIN SOURCES integration/sandbox_process_test.cpp
  DEPS cohort::plugin)
cohort_test(code_task_test unit SOURCES unit/code_task_test.cpp DEPS cohort::plugin)
cohort_test(code_reward_test integration SOURCES integration/code_reward_test.cpp
  DEPS cohort::plugin)
# Heavy on processes, and some count them: one at a time.
foreach(name sandbox_escape_test sandbox_process_test code_reward_test python_reward_test plugin_environment_test
        reward_commands_test native_plugin_test tool_plugin_test gem_world_test agent_world_test)
  if(TEST integration.${name})
    set_tests_properties(integration.${name} PROPERTIES RESOURCE_LOCK sandbox)
  endif()
endforeach()
