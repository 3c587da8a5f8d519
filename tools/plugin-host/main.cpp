#include "runtime/plugin/child/plugin_host.hpp"

int main() { return cohort::plugin::serve_plugin_host(); }
