#include "runtime/text/stop_strings.hpp"

#include <algorithm>
#include <utility>

namespace cohort::text {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string StopStrings::next(std::string_view text) {
  if (is_stopped_) return "";
  std::string all = std::exchange(held_, {});
  all += text;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, all.find(stop));
  if (end != std::string::npos) {
    is_stopped_ = true;
    all.resize(end);
    return all;
  }
  size_t kept = 0;  // bytes at the end that a stop string begins with
  for (const std::string& stop : stops_) {
    size_t size = std::min(stop.size() - 1, all.size());
    while (size > kept && !std::string_view(all).ends_with(std::string_view(stop).substr(0, size)))
      --size;
    kept = std::max(kept, size);
  }
  held_ = all.substr(all.size() - kept);
  all.resize(all.size() - kept);
  return all;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace cohort::text
