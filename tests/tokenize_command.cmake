cohort_test(tokenizer_folder_test unit SOURCES unit/tokenizer_folder_test.cpp unit/tokenize_chat_test.cpp DEPS cohort::tokenize_command)
