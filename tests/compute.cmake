# Training side of runtime/compute. The generation engine's binaries follow below.
cohort_test(compute_unit_test unit PCH torch
  SOURCES unit/compute_kernels_test.cpp unit/compute_storage_test.cpp unit/compute_ops_test.cpp
  DEPS cohort::compute)
cohort_test(compute_train_test property PCH torch
  SOURCES property/compute_train_test.cpp
  DEPS cohort::compute)
set_source_files_properties(unit/compute_kernels_test.cpp unit/compute_storage_test.cpp
 
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)

# Generation: torch-free but for the agreement with the training forward.
cohort_test(generation_unit_test unit
  SOURCES unit/generation_parts_test.cpp unit/decode_kernels_test.cpp unit/gemm_test.cpp unit/row_kernels_test.cpp unit/work_team_test.cpp unit/trailing_hash_test.cpp
  DEPS cohort::compute TSAN)
cohort_test(generation_property_test property
  SOURCES property/generation_engine_test.cpp property/generation_invariance_test.cpp property/generation_seam_test.cpp
  DEPS cohort::compute)
cohort_test(card_memory_test property SOURCES property/card_memory_test.cpp DEPS cohort::compute cohort::plan)
cohort_test(language_models_test golden PCH torch SOURCES golden/language_models_test.cpp DEPS cohort::compute nlohmann_json::nlohmann_json)
cohort_test(engine_greedy_test golden SOURCES golden/engine_greedy_test.cpp DEPS cohort::compute nlohmann_json::nlohmann_json)
cohort_test(train_gradients_test golden PCH torch SOURCES golden/train_gradients_test.cpp DEPS cohort::compute nlohmann_json::nlohmann_json)
cohort_test(expert_train_test property PCH torch SOURCES property/expert_train_test.cpp DEPS cohort::compute cohort::plan)
cohort_test(adapter_folder_test golden PCH torch SOURCES golden/adapter_folder_test.cpp DEPS cohort::compute nlohmann_json::nlohmann_json)
cohort_test(lora_train_test property PCH torch SOURCES property/lora_train_test.cpp DEPS cohort::compute cohort::plan nlohmann_json::nlohmann_json)
cohort_test(export_folder_test golden SOURCES golden/export_folder_test.cpp DEPS cohort::compute nlohmann_json::nlohmann_json)
cohort_test(compute_memory_test unit SOURCES unit/compute_memory_test.cpp DEPS cohort::compute cohort::plan)

# Cards together: tensor parallelism and replicas.
cohort_test(model_tp_test unit SOURCES unit/model_tp_test.cpp DEPS cohort::compute cohort::plan)
cohort_test(tensor_parallel_test property SOURCES property/tensor_parallel_test.cpp DEPS cohort::compute)
cohort_test(replicas_test property SOURCES property/replicas_test.cpp DEPS cohort::compute cohort::plan)

# Ranks: threads. Those in several processes meet over control messages: tests/actors.cmake.
cohort_test(zero_train_test property PCH torch SOURCES property/zero_train_test.cpp DEPS cohort::compute cohort::plan)
cohort_test(taught_train_test property PCH torch SOURCES property/taught_train_test.cpp DEPS cohort::compute)
cohort_test(blas_core_test unit SOURCES unit/blas_core_test.cpp DEPS cohort::compute)
