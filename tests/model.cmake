cohort_test(model_test unit TSAN SOURCES unit/model_test.cpp unit/hf_config_test.cpp DEPS cohort::model)
cohort_test(hf_config_property_test property SOURCES property/hf_config_property_test.cpp DEPS cohort::model nlohmann_json::nlohmann_json)
