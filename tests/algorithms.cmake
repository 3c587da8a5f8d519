cohort_test(algorithms_unit unit SOURCES unit/algorithms_test.cpp unit/estimators_test.cpp unit/group_filter_test.cpp unit/loss_test.cpp unit/sample_metrics_test.cpp DEPS cohort::algorithms)
cohort_test(algorithms_property property SOURCES property/loss_property_test.cpp DEPS cohort::algorithms)
