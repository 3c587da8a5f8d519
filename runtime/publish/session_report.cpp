// What a session says of itself: its counts, its sums, and what it waits for.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/clock.hpp"
#include "runtime/publish/session.hpp"

namespace cohort::publish {

std::string Session::waits_for() const {
  std::string text;
  auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (!is_open_)
    add(fmt::format("the wire to give up {} bytes of an older version", port_->held_bytes()));
  for (size_t i = 0; i < lanes_.size(); ++i)
    if (!lanes_[i].is_stored)
      add(fmt::format("{} of {} bytes from {}", program_->senders[i].bytes - lanes_[i].bytes,
                      program_->senders[i].bytes, name(program_->senders[i].card)));
  for (size_t i = 0; i < streams_.size(); ++i) {
    const Stream& x = streams_[i];
    if (x.is_stored) continue;
    std::string card = name(program_->destinations[i].card);
    if (!x.in_flight.empty())
      add(fmt::format("{} to take {} chunks", card, x.in_flight.size()));
    else if (x.next < program_->destinations[i].sends.size())
      add("a grant of " + card);
    else
      add("the acknowledgement of " + card);
  }
  return text.empty() ? "nothing" : text;
}

PublishReport Session::report() const {
  PublishReport report = report_;
  const auto& cards = setup_->copies->plan().cards;
  for (size_t i = 0; i < streams_.size(); ++i)
    report.sent_to.push_back(
        {cards[program_->destinations[i].card], streams_[i].bytes, streams_[i].sum});
  if (report.kept_bytes > 0)
    report.sent_to.push_back({cards[program_->card], report.kept_bytes, report_.sum});
  std::ranges::sort(report.sent_to, {}, &ShardSum::card);
  for (const Lane& lane : lanes_) report.sum += lane.sum;
  report.seconds = now_seconds() - start_;
  return report;
}

}  // namespace cohort::publish
