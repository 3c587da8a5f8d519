#pragma once
/// What the processes of a run wait for and what its links pass on, for the page of the dataflow.
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/observe/browse_data.hpp"

namespace cohort {

/// The counters of the last look, from which rates are made.
struct LinkSample {
  double at = 0;  // now_seconds(); 0: none yet
  std::map<std::pair<std::string, bool>, std::pair<uint64_t, uint64_t>> counts;  // messages, bytes
};

/// Reads them; takes some 40 ms, in which it watches whether the processes compute. `links` may be
/// empty.
observe::FlowView read_flow(const std::filesystem::path& run,
                            const std::function<std::vector<observe::LinkLine>()>& links,
                            LinkSample& last);

}  // namespace cohort
