find_package(nlohmann_json REQUIRED)
cohort_test(tokenizer_golden golden TSAN SOURCES golden/tokenizer_vectors_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
