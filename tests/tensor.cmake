cohort_test(tensor_test unit SOURCES unit/tensor_test.cpp DEPS cohort::tensor TSAN)
