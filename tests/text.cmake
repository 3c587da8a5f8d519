find_package(nlohmann_json REQUIRED)
cohort_test(text_unit unit TSAN SOURCES unit/hf_tokenizer_test.cpp unit/text_bpe_test.cpp unit/text_regex_test.cpp
  unit/text_unicode_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
cohort_test(text_property property TSAN SOURCES property/text_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
cohort_test(tokenizer_golden golden TSAN SOURCES golden/tokenizer_vectors_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
