cohort_test(actors_unit_test unit
  SOURCES unit/placement_actor_test.cpp unit/environment_actor_test.cpp unit/preflight_test.cpp
    unit/fill_advantages_test.cpp unit/policy_update_test.cpp unit/critic_update_test.cpp unit/weight_parts_test.cpp unit/reward_test.cpp unit/prompt_tasks_test.cpp
    unit/group_sieve_test.cpp unit/quarantine_test.cpp unit/rollout_actor_test.cpp unit/sample_masks_test.cpp
    unit/run_book_test.cpp unit/first_facts_test.cpp unit/batch_views_test.cpp
  DEPS cohort::actors nlohmann_json::nlohmann_json)
cohort_test(run_integration_test integration TIMEOUT 300
  SOURCES integration/run_test.cpp integration/rlvr_run_test.cpp integration/timeshare_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(dapo_run_test integration TIMEOUT 240
  SOURCES integration/dapo_run_test.cpp integration/remax_run_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
if(TARGET traj-compute)
  cohort_test(traj_recompute_test integration TIMEOUT 120
    SOURCES integration/traj_recompute_test.cpp DEPS cohort::base cohort::stream nlohmann_json::nlohmann_json)
  cohort_test(traj_html_test integration TIMEOUT 120
    SOURCES integration/traj_html_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
  cohort_test(from_stream_test integration TIMEOUT 240
    SOURCES integration/from_stream_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
  cohort_test(traj_replay_test integration TIMEOUT 240
    SOURCES integration/traj_replay_test.cpp
    DEPS cohort::base cohort::plugin cohort::proto cohort::stream nlohmann_json::nlohmann_json)
endif()
cohort_test(verl_run_test integration TIMEOUT 300 SOURCES integration/verl_run_test.cpp DEPS cohort::config nlohmann_json::nlohmann_json)
cohort_test(critic_run_test integration TIMEOUT 300
  SOURCES integration/critic_run_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(distill_run_test integration TIMEOUT 300
  SOURCES integration/distill_run_test.cpp integration/distill_pipeline_test.cpp integration/demonstration_run_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(expert_run_test integration TIMEOUT 300 SOURCES integration/expert_run_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(loss_run_test integration TIMEOUT 120 SOURCES integration/loss_run_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(self_checks_test integration TIMEOUT 240
  SOURCES integration/self_checks_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(lora_run_test integration TIMEOUT 300 SOURCES integration/lora_run_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(export_integration_test integration TIMEOUT 240
  SOURCES integration/export_test.cpp integration/chat_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
# The example is built outside the tree by native_plugin_test; here it scores a run.
add_library(exact_answer_plugin MODULE ${PROJECT_SOURCE_DIR}/examples/cpp_reward/exact_answer.cpp)
target_include_directories(exact_answer_plugin PRIVATE ${PROJECT_SOURCE_DIR}/include)
set_target_properties(exact_answer_plugin PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_dependencies(run_integration_test exact_answer_plugin)
target_compile_definitions(run_integration_test PRIVATE COHORT_EXACT_ANSWER_PLUGIN="$<TARGET_FILE:exact_answer_plugin>")
cohort_test(processes_integration_test integration TIMEOUT 240
  SOURCES integration/processes_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(bad_folder_test integration TIMEOUT 240
  SOURCES integration/bad_folder_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(folder_run_test integration TIMEOUT 240
  SOURCES integration/folder_run_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(cluster_test integration TIMEOUT 300
  SOURCES integration/cluster_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
# Silence of 2.5 s is a loss there: not beside other tests on two cores.
set_tests_properties(integration.cluster_test PROPERTIES RUN_SERIAL TRUE)
cohort_test(dashboard_run_test integration TIMEOUT 180
  SOURCES integration/dashboard_run_test.cpp DEPS cohort::observe nlohmann_json::nlohmann_json cohort_httplib)
cohort_test(diagnose_test integration TIMEOUT 300
  SOURCES integration/diagnose_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json cohort_httplib)
cohort_test(host_waits_test unit SOURCES unit/host_waits_test.cpp DEPS cohort::cluster)
cohort_test(cluster_diagnose_test integration TIMEOUT 300
  SOURCES integration/cluster_diagnose_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
# As cluster_test.
set_tests_properties(integration.cluster_diagnose_test PROPERTIES RUN_SERIAL TRUE)
cohort_test(top_test integration TIMEOUT 240
  SOURCES integration/top_test.cpp DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(telemetry_test integration TIMEOUT 120
  SOURCES integration/telemetry_test.cpp DEPS cohort::actors nlohmann_json::nlohmann_json cohort_httplib)
# Its collector has deadlines of a request: not beside other tests on two cores.
set_tests_properties(integration.telemetry_test PROPERTIES RUN_SERIAL TRUE)
cohort_test(recovery_integration_test integration TIMEOUT 240
  SOURCES integration/recovery_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(async_integration_test integration TIMEOUT 240
  SOURCES integration/async_run_test.cpp integration/flowing_run_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(quarantine_integration_test integration TIMEOUT 240
  SOURCES integration/quarantine_test.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
# Long: tests/run_chaos_test --kills 200 with COHORT_BIN_DIR and COHORT_SOURCE_DIR set.
cohort_test(run_chaos_test integration NO_MAIN TIMEOUT 240
  SOURCES chaos/run_chaos.cpp DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(node_integration_test integration TIMEOUT 120
  SOURCES integration/node_test.cpp DEPS cohort::actors)
cohort_test(elastic_test integration TIMEOUT 120
  SOURCES integration/elastic_test.cpp DEPS cohort::actors cohort::proto cohort::stream nlohmann_json::nlohmann_json)
# Ranks in several processes.
cohort_test(collectives_test integration
  SOURCES integration/collectives_test.cpp support/control_table.cpp DEPS cohort::actors)
cohort_test(tensor_parallel_ranks_test integration
  SOURCES integration/tensor_parallel_ranks_test.cpp support/control_table.cpp DEPS cohort::actors)
cohort_test(zero_process_test integration PCH torch
  SOURCES integration/zero_process_test.cpp support/control_table.cpp DEPS cohort::actors)
set_source_files_properties(support/control_table.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
if(TARGET cohort_flow_rig)
  cohort_test(flow_test integration SOURCES integration/flow_test.cpp DEPS cohort::flow_rig)
endif()
cohort_test(metric_names_test golden SOURCES golden/metric_names_test.cpp
  DEPS cohort::actors nlohmann_json::nlohmann_json)
cohort_test(sft_reference_test golden SOURCES golden/sft_reference_test.cpp DEPS cohort::actors nlohmann_json::nlohmann_json)
cohort_test(tool_run_test integration TIMEOUT 240 SOURCES integration/tool_run_test.cpp
  DEPS cohort::base nlohmann_json::nlohmann_json)
cohort_test(dpo_run_test integration TIMEOUT 240 SOURCES integration/dpo_run_test.cpp
  DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(rm_run_test integration TIMEOUT 240 SOURCES integration/rm_run_test.cpp
  DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(reward_model_test integration TIMEOUT 240 SOURCES integration/reward_model_test.cpp
  DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(judge_run_test integration TIMEOUT 240 SOURCES integration/judge_run_test.cpp
  DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
cohort_test(sft_run_test integration TIMEOUT 240 SOURCES integration/sft_run_test.cpp
  DEPS cohort::base cohort::proto cohort::stream nlohmann_json::nlohmann_json)
