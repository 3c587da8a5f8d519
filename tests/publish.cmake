cohort_test(publish_property_test property
  SOURCES property/publish_test.cpp
  DEPS cohort::publish)
cohort_test(publish_member_test integration
  SOURCES integration/publish_member_test.cpp
  DEPS cohort::publish)
# One card of a group as a process; the test below starts them.
cohort_executable(publish_card SOURCES support/publish_card.cpp DEPS cohort::publish)
cohort_test(publish_processes_test integration
  SOURCES integration/publish_processes_test.cpp
  DEPS cohort::publish)
add_dependencies(publish_processes_test publish_card)
