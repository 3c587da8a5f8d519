cohort_test(control_golden_test golden SOURCES golden/control_messages_test.cpp DEPS cohort::control)
cohort_test(wire_check_test unit SOURCES unit/wire_check_test.cpp DEPS cohort::control)
if(TARGET cohort_keys_command)
  cohort_test(credentials_test unit SOURCES unit/credentials_test.cpp DEPS cohort::keys_command)
endif()
if(TARGET cohort_dashboard_server)
  cohort_test(dashboard_browser_test integration TIMEOUT 120 SOURCES integration/dashboard_browser_test.cpp
    DEPS cohort::dashboard_server nlohmann_json::nlohmann_json cohort_httplib)
  cohort_test(dashboard_pages_test integration SOURCES integration/dashboard_pages_test.cpp
    DEPS cohort::dashboard_server nlohmann_json::nlohmann_json cohort_httplib)
  cohort_test(dashboard_server_test integration SOURCES integration/dashboard_server_test.cpp
    DEPS cohort::dashboard_server nlohmann_json::nlohmann_json cohort_httplib)
endif()
cohort_test(network_security_test integration SOURCES integration/network_security_test.cpp DEPS cohort::control ssl crypto)
