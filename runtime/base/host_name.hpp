#pragma once
/// The name of this host.
#include <string>

namespace cohort {

/// Returns the name of this host, "unknown" if the system has none.
std::string host_name();

}  // namespace cohort
