cohort_test(catalog_test golden SOURCES unit/catalog_test.cpp DEPS cohort::catalog)
