#pragma once
/// GroupMember: a card's share of a plan::ReshardPlan by all-to-all exchanges, where all cards of
/// the plan are ranks of one group that has such an exchange of its own (c10d's alltoallv: Gloo on
/// hosts, NCCL and HCCL between devices). One exchange for each round and hop of the plan; what
/// goes to one peer in it is one message. Else as member.hpp, whose options and report it takes:
/// PUBLISH-1 and 2 hold as there, and publish() ends alike at all cards, because they tell each
/// other: a version has arrived everywhere or nowhere.
///
/// PUBLISH-3 here: outside the layouts' buffers a card holds what it sends and what it receives in
/// one exchange (two buckets if the plan was made with one), and what it passes on. Packing does
/// not overlap sending: the exchange returns when it is done. No delta, no timeouts of its own: the
/// group's are the bound of every wait.
///
/// Owner: whoever owns the card's engine. Not thread-safe; publish() blocks.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/publish/member.hpp"

namespace cohort::publish {

/// Collective. send[i] goes to the card i of ReshardPlan::cards, receive[i] is filled by it (own:
/// copied); sizes may differ and be 0. Errors name the card and end every later exchange.
using AllToAll = std::function<Expected<void>(std::span<const std::span<const std::byte>> send,
                                              std::span<const std::span<std::byte>> receive)>;

class GroupMember {
 public:
  /// Returns what Member::open returns.
  static Expected<std::unique_ptr<GroupMember>> open(MemberOptions options, AllToAll exchange);
  ~GroupMember();
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  /// Collective: every card, the same version. Errors are the same everywhere and name the card
  /// that has failed: Errc::invalid_argument (version or plan differ, or the version is not newer
  /// than all before; a part of another size), Errc::corrupt (sums differ); or the exchange's.
  Expected<PublishReport> publish(uint64_t version);
  /// Returns Errc::protocol unless the version has arrived; a repeat is harmless.
  Expected<void> commit(uint64_t version);
  std::optional<uint64_t> served() const;
  /// As Member's.
  uint64_t shard_checksum() const;

 private:
  class Impl;
  explicit GroupMember(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::publish
