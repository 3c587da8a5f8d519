#include "tools/actor-node/top_source.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/status_reading.hpp"
#include "tools/actor-node/run_files.hpp"

namespace cohort {
namespace {

constexpr double k_quiet_s = 10;  // until pages that did not answer are asked again
// The first to ask for the dataflow sets off that it is read.
constexpr int k_flow_looks = 5;
constexpr std::chrono::milliseconds k_flow_pause{50};

}  // namespace

Expected<std::unique_ptr<TopSource>> TopSource::open(const std::string& where,
                                                     const ClusterAccess& access) {
  std::unique_ptr<TopSource> source(new TopSource);
  source->access_ = access;
  if (is_pages_address(where)) {
    COHORT_ASSIGN(source->pages_, PagesClient::open(where, access));
    return source;
  }
  auto run = SavedRun::open(where, source->board_);
  if (!run && run.error().code == Errc::not_found)
    return Error{Errc::not_found,
                 fmt::format("{}: neither a run's folder (it has no config.yaml) nor the address "
                             "of a dashboard, http://HOST:PORT/",
                             where)};
  if (!run) return run.error();
  source->run_ = std::move(*run);
  return source;
}

Expected<observe::TopData> TopSource::look() {
  if (run_) {
    if (auto live = own_pages()) return *live;
    return read_folder();
  }
  auto seen = read_pages(*pages_);
  if (seen) {
    last_ = *seen;
    seen_at_ = now_seconds();
  } else if (seen_at_ <= 0) {
    return seen.error();
  } else {
    last_.trouble = fmt::format("{}: this was so {} ago", seen.error().detail,
                                observe::format_duration(now_seconds() - seen_at_));
  }
  return last_;
}

Expected<observe::TopData> TopSource::read_pages(PagesClient& pages) {
  observe::TopData top;
  COHORT_ASSIGN(const std::string status, pages.get("/status.json"));
  COHORT_ASSIGN(top.data, observe::read_status_json(status, now_seconds()));
  if (top.data.run == nullptr) return top;
  for (int looks = 0; looks < k_flow_looks && top.flow == nullptr; ++looks) {
    if (looks > 0) std::this_thread::sleep_for(k_flow_pause);
    COHORT_ASSIGN(const std::string flow, pages.get("/flow.json"));
    COHORT_ASSIGN(top.flow, observe::read_flow_json(flow));
  }
  return top;
}

std::optional<observe::TopData> TopSource::own_pages() {
  if (now_seconds() < quiet_until_) return std::nullopt;
  const std::string url = read_pages_address(run_->folder());
  if (url.empty()) return std::nullopt;
  auto pages = PagesClient::open(url, access_);
  auto top = pages ? read_pages(*pages) : Expected<observe::TopData>(pages.error());
  // The port of a run that was killed may be another's now.
  const bool is_ours = top && top->data.run != nullptr && top->data.run->folder == run_->folder();
  if (is_ours) return std::move(*top);
  quiet_until_ = now_seconds() + k_quiet_s;
  return std::nullopt;
}

observe::TopData TopSource::read_folder() {
  run_->follow(board_);
  observe::TopData top;
  top.data = board_.data();
  if (observe::is_over(*top.data.run)) return top;
  top.flow = std::make_shared<const observe::FlowView>(read_flow(run_->folder(), links_));
  return top;
}

}  // namespace cohort
