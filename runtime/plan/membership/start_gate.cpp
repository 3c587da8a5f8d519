#include "runtime/plan/membership/start_gate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

namespace cohort::plan {
namespace {

std::optional<uint32_t> number_of(std::string_view text) {
  uint32_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number == 0) return std::nullopt;
  return number;
}

}  // namespace

Expected<NodeRange> parse_node_range(const std::string& text) {
  const size_t colon = text.find(':');
  const auto least = number_of(std::string_view(text).substr(0, colon));
  NodeRange range{least.value_or(0), {}};
  if (colon != std::string::npos) range.count = number_of(std::string_view(text).substr(colon + 1));
  if (!least || (colon != std::string::npos && (!range.count || *range.count < *least)))
    return Error{Errc::invalid_argument,
                 fmt::format("--nodes {}: say MIN or MIN:MAX, numbers of nodes, e.g. 2:4", text)};
  return range;
}

bool StartGate::is_enough() const {
  auto is_there = [this](uint32_t node) { return !missing_.contains(node); };
  return wanted_.count - missing_.size() >= wanted_.least &&
         std::ranges::all_of(wanted_.required, is_there) &&
         std::ranges::any_of(wanted_.replicas, [&](const std::set<uint32_t>& nodes) {
           return std::ranges::all_of(nodes, is_there);
         });
}

StartGate::Verdict StartGate::judge(const std::set<uint32_t>& joined, double now) {
  missing_.clear();
  for (uint32_t node = 0; node < wanted_.count; ++node)
    if (!joined.contains(node)) missing_.insert(node);
  if (missing_.empty()) return Verdict::start;
  const bool is_over = now - began_ > wanted_.wait_s;
  if (wanted_.least == wanted_.count || !is_enough()) {
    enough_since_.reset();
    return is_over ? Verdict::give_up : Verdict::wait;
  }
  if (!enough_since_) enough_since_ = now;
  return is_over || now - *enough_since_ >= wanted_.wait_more_s ? Verdict::start : Verdict::wait;
}

std::string StartGate::text(const std::string& word) const {
  std::string text =
      fmt::format("{} of {} nodes have joined; missing: {} {}", wanted_.count - missing_.size(),
                  wanted_.count, word, fmt::join(missing_, ", "));
  if (wanted_.least == wanted_.count || is_enough()) return text;
  std::set<uint32_t> needed;
  std::ranges::set_intersection(missing_, wanted_.required, std::inserter(needed, needed.end()));
  if (!needed.empty())
    return text + fmt::format(
                      "; {} {} cannot be done without: cards there are not the rollout's "
                      "alone",
                      word, fmt::join(needed, ", "));
  if (wanted_.count - missing_.size() >= wanted_.least)
    return text + "; no replica of actor_infer has all of its nodes";
  return text + fmt::format("; --nodes says that {} are enough", wanted_.least);
}

}  // namespace cohort::plan
