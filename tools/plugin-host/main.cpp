#include "runtime/plugin/plugin_host.hpp"

int main() { return cohort::plugin::serve_plugin_host(); }
