cohort_test(model_test unit TSAN SOURCES unit/model_test.cpp DEPS cohort::model)
