cohort_test(config_test unit
  SOURCES unit/config_load_test.cpp unit/config_errors_test.cpp unit/config_broken_test.cpp
    unit/config_seed_plan_test.cpp unit/config_schema_test.cpp unit/config_examples_test.cpp unit/config_distillation_test.cpp unit/config_foreign_test.cpp
  DEPS cohort::config)
cohort_test(config_compose_test unit
  SOURCES unit/config_compose_test.cpp unit/config_interpolate_test.cpp unit/config_override_test.cpp
    unit/config_seed_files_test.cpp unit/config_yaml_test.cpp unit/config_parts_test.cpp
  DEPS cohort::config)
cohort_test(config_property_test property SOURCES property/config_test.cpp property/config_parts_test.cpp DEPS cohort::config)
cohort_test(config_golden_test golden SOURCES golden/config_docs_test.cpp DEPS cohort::config)
cohort_test(verl_config_test unit SOURCES unit/verl_filter_test.cpp unit/verl_load_test.cpp unit/verl_loss_test.cpp unit/verl_scripts_test.cpp unit/verl_errors_test.cpp unit/verl_sft_test.cpp unit/verl_rows_test.cpp unit/verl_tools_test.cpp DEPS cohort::config)
cohort_test(verl_property_test property SOURCES property/verl_test.cpp DEPS cohort::config)
