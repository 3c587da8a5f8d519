#include "runtime/plan/place/version_table.hpp"

#include <algorithm>
#include <string>

namespace cohort::plan {
namespace {

std::string describe(PolicyVersion version, const Shard& shard) {
  return "weight version " + std::to_string(version.value) + ", bucket " +
         std::to_string(shard.bucket) + " on card " + std::to_string(shard.card.value);
}

}  // namespace

Expected<void> VersionTable::begin(PolicyVersion version, const std::vector<Shard>& shards) {
  if (publishing_)
    return Error{Errc::protocol, "weight version " + std::to_string(version.value) +
                                     " cannot be published: version " +
                                     std::to_string(publishing_->value) + " still waits for " +
                                     std::to_string(missing_) + " shards"};
  if (newest_ && version <= *newest_)
    return Error{Errc::invalid_argument, "weight version " + std::to_string(version.value) +
                                             " is not newer than " +
                                             std::to_string(newest_->value)};
  std::map<ShardKey, ShardState> states;
  for (const Shard& shard : shards)
    if (!states.emplace(ShardKey{shard.card, shard.bucket}, ShardState{shard.checksum, false})
             .second)
      return Error{Errc::invalid_argument, describe(version, shard) + " is listed twice"};
  if (states.empty())
    return Error{Errc::invalid_argument,
                 "weight version " + std::to_string(version.value) + " has no shards"};
  shards_ = std::move(states);
  missing_ = shards_.size();
  publishing_ = newest_ = version;
  return {};
}

Expected<void> VersionTable::ack(PolicyVersion version, const Shard& shard) {
  bool is_current = publishing_ == version;
  if (!is_current && servable_ != version)
    return Error{Errc::not_found, describe(version, shard) + ": the version is not in publication"};
  auto& shards = is_current ? shards_ : servable_shards_;
  auto found = shards.find(ShardKey{shard.card, shard.bucket});
  if (found == shards.end())
    return Error{Errc::not_found, describe(version, shard) + " is not part of the version"};
  if (found->second.checksum != shard.checksum)
    return Error{Errc::corrupt, "PLACE-5: " + describe(version, shard) + ": checksum " +
                                    std::to_string(shard.checksum) + " was acknowledged, " +
                                    std::to_string(found->second.checksum) + " was sent"};
  if (found->second.is_acked) return {};
  found->second.is_acked = true;
  if (--missing_ == 0) {
    servable_ = publishing_;
    servable_shards_ = std::move(shards_);
    shards_.clear();
    publishing_.reset();
  }
  return {};
}

void VersionTable::abandon() {
  shards_.clear();
  missing_ = 0;
  publishing_.reset();
}

void VersionTable::renew() {
  abandon();
  servable_shards_.clear();
  servable_.reset();
  newest_.reset();
}

void VersionTable::assert_invariants() const {
  auto is_acked = [](const auto& x) { return x.second.is_acked; };
  COHORT_CHECK(std::ranges::all_of(servable_shards_, is_acked),
               "PLACE-5: a servable version has an unacknowledged shard");
  COHORT_CHECK(servable_.has_value() != servable_shards_.empty(),
               "PLACE-5: a servable version without shards");
  auto acked = static_cast<size_t>(std::ranges::count_if(shards_, is_acked));
  COHORT_CHECK(shards_.size() - acked == missing_, "PLACE-5: the count of missing shards is wrong");
  COHORT_CHECK(publishing_.has_value() == (missing_ > 0),
               "PLACE-5: a version is in publication exactly while shards are missing");
  COHORT_CHECK(!servable_ || *servable_ <= *newest_, "PLACE-5: versions do not grow");
}

}  // namespace cohort::plan
