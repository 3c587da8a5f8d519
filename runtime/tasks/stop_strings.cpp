#include "runtime/tasks/stop_strings.hpp"

#include <algorithm>
#include <utility>

namespace cohort::tasks {

bool has_stop_string(std::string_view text, const std::vector<std::string>& stops) {
  return std::ranges::any_of(stops, [text](const std::string& stop) {
    return !stop.empty() && text.find(stop) != std::string_view::npos;
  });
}

std::function<bool(int32_t token)> watch_for(std::shared_ptr<const Tokenizer> tokenizer,
                                             std::vector<std::string> stops) {
  constexpr size_t k_more = 8;  // a character that begins before the string, and tokens of no text
  size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  if (longest == 0) return {};
  return [tokenizer = std::move(tokenizer), stops = std::move(stops), kept_max = longest + k_more,
          kept = std::vector<int32_t>()](int32_t token) mutable {
    if (kept.size() == kept_max) kept.erase(kept.begin());
    kept.push_back(token);
    return has_stop_string(tokenizer->decode(kept), stops);
  };
}

}  // namespace cohort::tasks
