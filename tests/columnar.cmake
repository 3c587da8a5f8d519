find_package(nlohmann_json REQUIRED)
cohort_test(parquet_test golden TSAN SOURCES golden/parquet_test.cpp DEPS cohort::columnar nlohmann_json::nlohmann_json)
