#include "tools/traj/parallel_scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <compare>
#include <thread>
#include <utility>

#include "runtime/stream/index_proof.hpp"
#include "runtime/stream/reader.hpp"
#include "runtime/stream/segment.hpp"

namespace cohort::traj {
namespace {

using stream::ScanItem;
using stream::ScanState;

struct Seen {
  proto::TrajectoryKey key;
  uint64_t number = 0;  // of its record
  auto operator<=>(const Seen&) const = default;
};

struct Match {
  Seen of;
  std::string text;
};

/// Where a segment began and ended, to see whether the next one follows on it.
struct Reach {
  uint32_t segment = 0;
  bool is_begun = false;         // its header holds
  uint64_t first = 0, next = 0;  // numbers of its first record and behind its last one
  uint64_t end = 0;              // [bytes]
  bool is_cut = false;           // inside a record, and named
};

/// What one thread found.
struct Share {
  std::vector<Seen> seen;
  std::vector<Match> matches;
  std::vector<std::pair<stream::RecordId, std::string>> damages;
  std::vector<Reach> reaches;
  Expected<void> result;
};

class Scan {
 public:
  Scan(const std::filesystem::path& folder, const stream::StreamInfo& stream,
       const ScanQuestion& question)
      : folder_(folder), stream_(stream), question_(question) {}

  /// Takes segments until none is left.
  void run(Share& share) {
    for (size_t i; (i = next_++) < stream_.segments.size() && share.result;)
      share.result = scan(i, share);
    std::ranges::sort(share.seen);
  }

 private:
  Expected<void> scan(size_t place, Share& share) {
    const uint32_t segment = stream_.segments[place];
    COHORT_ASSIGN(auto scanner,
                  stream::SegmentScanner::open(folder_, segment, stream_.stream_id, std::nullopt,
                                               stream::ScanDepth::body));
    Reach reach{segment, scanner.offset() > 0, scanner.next_number(), 0, 0, false};
    COHORT_TRY(scan(scanner, place + 1 == stream_.segments.size(), reach, share));
    reach.next = scanner.next_number();
    reach.end = scanner.offset();
    share.reaches.push_back(reach);
    return {};
  }

  Expected<void> scan(stream::SegmentScanner& scanner, bool is_last, Reach& reach, Share& share) {
    while (true) {
      COHORT_ASSIGN(ScanItem item, scanner.next());
      if (item.state == ScanState::end || (item.state == ScanState::torn && is_last)) return {};
      if (item.state == ScanState::record) {
        take(item, share);
        continue;
      }
      if (item.info.id.offset == 0) reach.is_begun = false;
      const bool is_known = item.is_prefix_intact && is_asked(item.info);
      if (is_known)
        share.seen.push_back(
            {*item.info.key.trajectory, item.info.number});  // it replaces others all the same
      if (is_known || !item.is_prefix_intact)
        share.damages.emplace_back(item.info.id,
                                   fmt::format("{}: record {} at {}: {}", scanner.path().string(),
                                               item.info.number, item.info.id.offset, item.what));
      reach.is_cut = item.state == ScanState::torn;
      if (reach.is_cut) return {};
    }
  }

  bool is_asked(const stream::RecordInfo& info) const {
    const auto& key = info.key.trajectory;
    return key && (!question_.step || key->step == *question_.step) &&
           (!question_.kind || key->kind == *question_.kind);
  }

  void take(ScanItem& item, Share& share) {
    if (!is_asked(item.info)) return;
    const Seen seen{*item.info.key.trajectory, item.info.number};
    share.seen.push_back(seen);
    const stream::Record record{item.info, std::move(item.body), item.columns_bytes};
    if (question_.may_match && !question_.may_match(record.text())) return;
    const auto trajectory = record.trajectory();
    if (!trajectory) {
      share.damages.emplace_back(item.info.id, trajectory.error().detail);
      return;
    }
    if (auto text = question_.match(*trajectory)) share.matches.push_back({seen, std::move(*text)});
  }

  const std::filesystem::path& folder_;
  const stream::StreamInfo& stream_;
  const ScanQuestion& question_;
  std::atomic<size_t> next_{0};
};

/// Adds the sorted `more` to the sorted `all`.
void merge_into(std::vector<Seen>& all, const std::vector<Seen>& more) {
  const auto middle = static_cast<std::ptrdiff_t>(all.size());
  all.insert(all.end(), more.begin(), more.end());
  std::inplace_merge(all.begin(), all.begin() + middle, all.end());
}

/// Adds what is missing between the segments and behind them.
void add_losses(const stream::IndexProof& proof, std::vector<Reach> reaches,
                std::vector<std::pair<stream::RecordId, std::string>>& damages) {
  std::ranges::sort(reaches, {}, &Reach::segment);
  const auto add = [&](const stream::Damage& damage) {
    damages.emplace_back(damage.id, damage.describe());
  };
  uint64_t next = 0;
  for (const Reach& reach : reaches) {
    if (reach.is_begun && reach.first != next)
      add({{reach.segment, 0},
           next,
           fmt::format("the segment starts with record {}: records are missing", reach.first),
           {},
           {}});
    next = std::max(reach.next, next);
    const auto lost = proof.lost_in(reach.segment, reach.end, next);
    if (lost && !reach.is_cut) add(*lost);
    if (lost) next = std::max(next, proof.next_record_in(reach.segment));
  }
  for (const stream::Damage& lost : proof.lost_behind(reaches.back().segment, next)) add(lost);
}

ScanAnswer answer_of(const stream::IndexProof& proof, std::vector<Share>& shares) {
  ScanAnswer answer;
  std::vector<Seen> seen;
  std::vector<Match> matches;
  std::vector<std::pair<stream::RecordId, std::string>> damages;
  std::vector<Reach> reaches;
  for (Share& share : shares) {
    merge_into(seen, share.seen);
    std::ranges::move(share.matches, std::back_inserter(matches));
    std::ranges::move(share.damages, std::back_inserter(damages));
    std::ranges::move(share.reaches, std::back_inserter(reaches));
  }
  add_losses(proof, std::move(reaches), damages);
  for (size_t i = 0; i < seen.size(); ++i)
    if (i + 1 == seen.size() || seen[i].key != seen[i + 1].key) ++answer.trajectories;
  std::ranges::sort(matches, {}, &Match::of);
  for (Match& match : matches) {
    const auto after = std::ranges::upper_bound(seen, match.of);
    if (after == seen.end() || after->key != match.of.key)  // else a later record replaces it
      answer.matches.push_back(std::move(match.text));
  }
  std::ranges::sort(damages);
  for (auto& [id, what] : damages) answer.damages.push_back(std::move(what));
  return answer;
}

}  // namespace

Expected<ScanAnswer> scan_newest(const std::filesystem::path& stream, const ScanQuestion& question,
                                 size_t threads) {
  COHORT_ASSIGN(const stream::Reader reader, stream::Reader::open(stream));
  const auto proof = stream::IndexProof::read(stream, reader.stream().stream_id);
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  threads = std::min(threads, reader.stream().segments.size());
  std::vector<Share> shares(threads);
  Scan scan(stream, reader.stream(), question);
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back([&, i] { scan.run(shares[i]); });
  scan.run(shares[0]);
  for (std::thread& helper : helpers) helper.join();
  for (const Share& share : shares) COHORT_TRY(share.result);
  return answer_of(proof, shares);
}

}  // namespace cohort::traj
