# Only the unit test is fit for TSan: Debian's libzmq is not instrumented, so every hand-over through it looks like a race.
cohort_test(transport_unit_test unit SOURCES unit/frame_test.cpp unit/link_session_test.cpp DEPS cohort::transport cohort::proto)
cohort_test(transport_integration_test integration
  SOURCES integration/link_conformance_test.cpp integration/link_hostile_test.cpp
    integration/link_resolve_test.cpp integration/link_security_test.cpp
  DEPS cohort::transport cohort::proto)
cohort_test(transport_chaos_test chaos NO_MAIN
  SOURCES chaos/link_faults_test.cpp
  DEPS cohort::transport cohort::proto)
# Long: tests/link_close_test --rounds 1000.
cohort_test(link_close_test chaos NO_MAIN
  SOURCES chaos/link_close_test.cpp
  DEPS cohort::transport cohort::proto)
