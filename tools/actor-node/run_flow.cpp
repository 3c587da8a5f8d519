#include "tools/actor-node/run_flow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/base/clock.hpp"
#include "tools/actor-node/run_links.hpp"
#include "tools/actor-node/run_waits.hpp"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds k_window{40};
constexpr double k_stalled_after_s = 10;  // as `actor-node diagnose`

void add_rates(std::vector<observe::LinkLine>& links, LinkSample& last) {
  const double now = now_seconds(), seconds = now - last.at;
  for (observe::LinkLine& link : links) {
    const auto known = last.counts.find({link.process, link.name, link.is_producer});
    if (last.at <= 0 || seconds <= 0 || known == last.counts.end()) continue;
    const auto [messages, bytes] = known->second;
    if (link.messages < messages || link.bytes < bytes) continue;  // another link of that name
    link.messages_per_s = static_cast<double>(link.messages - messages) / seconds;
    link.bytes_per_s = static_cast<double>(link.bytes - bytes) / seconds;
  }
  last.at = now;
  last.counts.clear();
  for (const observe::LinkLine& link : links)
    last.counts[{link.process, link.name, link.is_producer}] = {link.messages, link.bytes};
}

}  // namespace

observe::FlowView read_flow(const std::filesystem::path& run, LinkSample& last) {
  observe::FlowView flow;
  RunLinks told = read_links(waits_folder(run));
  flow.links = std::move(told.links);
  flow.note = std::move(told.note);
  add_rates(flow.links, last);
  const auto waits = read_run_waits(run, k_stalled_after_s, k_window);
  if (!waits) return flow;
  if (!waits->input.processes.empty()) {
    const plan::Diagnosis found = plan::diagnose(waits->input);
    flow.sentence = found.sentence;
    flow.is_stalled = found.cause != plan::StallCause::none;
  }
  for (const ProcessWaits& process : waits->input.processes)
    for (const WaitEntry& wait : process.waits)
      flow.waits.push_back({process.name, std::string(to_string(wait.level)), wait.who, wait.what,
                            wait.ends_by, wait.where,
                            std::max(0.0, waits->input.now - wait.since)});
  std::ranges::stable_sort(flow.waits, std::ranges::greater(), &observe::WaitLine::seconds);
  for (const auto& [host, count] : waits->elsewhere)
    flow.note += fmt::format("{}{} processes on {} are not looked at",
                             flow.note.empty() ? "" : ", ", count, host);
  return flow;
}

}  // namespace cohort
