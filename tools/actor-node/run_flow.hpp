#pragma once
/// What the processes of a run wait for and what its links pass on, for the page of the dataflow.
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/observe/browse_data.hpp"

namespace cohort {

/// The counters of the last look, from which rates are made.
struct LinkSample {
  double at = 0;  // now_seconds(); 0: none yet
  // By process, link and end: messages and bytes.
  std::map<std::tuple<std::string, std::string, bool>, std::pair<uint64_t, uint64_t>> counts;
};

/// Reads them; takes some 40 ms, in which it watches whether the processes compute, and the first
/// time a second more, until they have told of their links.
observe::FlowView read_flow(const std::filesystem::path& run, LinkSample& last);

}  // namespace cohort
