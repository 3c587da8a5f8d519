cohort_test(proto_unit_test unit SOURCES unit/trajectory_test.cpp DEPS cohort::proto)
cohort_test(proto_property_test property SOURCES property/codec_test.cpp DEPS cohort::proto)
cohort_test(proto_golden_test golden SOURCES golden/codec_golden_test.cpp DEPS cohort::proto)
