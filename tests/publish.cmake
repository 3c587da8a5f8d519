cohort_test(publish_property_test property
  SOURCES property/publish_test.cpp
  DEPS cohort::publish)
