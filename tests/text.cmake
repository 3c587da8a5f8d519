find_package(nlohmann_json REQUIRED)
cohort_test(text_unit unit TSAN SOURCES unit/hf_tokenizer_test.cpp unit/text_bpe_test.cpp unit/text_regex_test.cpp
  unit/text_unicode_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
cohort_test(text_property property TSAN SOURCES property/text_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
cohort_test(tokenizer_golden golden TSAN SOURCES golden/tokenizer_vectors_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
cohort_test(chat_template_test unit TSAN SOURCES unit/chat_template_test.cpp DEPS cohort::text)
cohort_test(chat_template_property property TSAN SOURCES property/chat_template_test.cpp DEPS cohort::text)
cohort_test(chat_template_golden golden TSAN SOURCES golden/chat_template_test.cpp DEPS cohort::text)
cohort_test(chat_encoder_property property TSAN SOURCES property/chat_encoder_test.cpp DEPS cohort::text nlohmann_json::nlohmann_json)
