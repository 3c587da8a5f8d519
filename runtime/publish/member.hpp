#pragma once
/// Member: one card's part in publishing weights: it executes the card's share of a
/// plan::ReshardPlan (any mode), as exporter (a card of the plan's `from`), importer (of `to`),
/// both (timeshare) or in between (a gathering mode's relay).
///
/// Owner: the actor of the card's engine (train worker, rollout). Thread: each member has one of
/// its own, which alone touches its Port; the methods may be called from any other thread, not from
/// on_end. Sources are packed (and cast) chunk by chunk straight into the receiver's window or a
/// message, while the chunk before is on its way and being unpacked; nothing is copied whole.
///
/// Two phases. begin(version) starts the exchange; a card of `to` writes into the target, which
/// must not be the buffer that the engine serves. When all bytes are here and verified the version
/// has arrived (wait(), on_end). commit(version), sent by the driver once every card has arrived,
/// makes it the served one. A version that fails or is aborted leaves the served one as it is; one
/// that has arrived here but failed elsewhere can no longer be committed once that is known.
///
/// PUBLISH-1 a version has arrived at a card only if each byte that the plan sends there came under
/// a checksum that fits, and the sums that its senders formed over what they sent agree with its
/// own. PUBLISH-2 only commit() of a version that has arrived changes the served version; a note of
/// another version changes nothing; versions grow. PUBLISH-3 outside the two layouts' buffers a
/// card holds at most two buckets of weights. PUBLISH-4 a sender writes only into rounds that the
/// receiver has granted.
///
/// Errors name the card by its label: Errc::closed (it died), Errc::timeout (nothing moved for
/// timeout_ms), Errc::corrupt (a chunk's checksum; names the tensor), Errc::cancelled (aborted).
/// Every member fails with the first cause. After a death open a new group; after any other failure
/// begin() a newer version. docs/reshard.md tells the protocol.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/reshard/reshard.hpp"
#include "runtime/publish/port.hpp"
#include "runtime/publish/weights.hpp"

namespace cohort::publish {

struct MemberOptions {
  std::shared_ptr<const plan::ReshardPlan> plan;  // the same at every member
  CardId card;
  std::vector<std::string> labels;  // by index of plan.cards, e.g. "card 3 (actor_infer.1)"
  /// Element types in memory; elements of `to` travel, and the plan's element_bytes are theirs. f32
  /// to bf16 rounds to nearest, ties to even; otherwise both are the same.
  tensor::Dtype from = tensor::Dtype::bf16, to = tensor::Dtype::bf16;
  Source source;             // cards of plan.from
  Target target;             // cards of plan.to
  uint64_t chunk_bytes = 0;  // at most, packed and verified at a time; 0: what suits the port
  int timeout_ms = 60000;
};

/// Bytes that went to one card and the sum over their checksums: the sums that all members report
/// for a card add up (wrapping) to what it reports as PublishReport::sum.
struct ShardSum {
  CardId card;
  uint64_t bytes = 0, sum = 0;
  bool operator==(const ShardSum&) const = default;
};

struct PublishReport {
  uint64_t version = 0;
  uint64_t sent_bytes = 0, received_bytes = 0;  // as the plan counts them
  uint64_t kept_bytes = 0;                      // copied on the card
  uint64_t packed_bytes = 0;                    // of sent_bytes, packed: the rest went along
  uint64_t staging_peak = 0;                    // most bytes outside the two layouts' buffers
  uint64_t sum = 0;                             // over what this card received and kept
  std::vector<uint64_t> received_by_step;       // of ReshardPlan::steps
  std::vector<ShardSum> sent_to;                // ascending cards; itself for what it kept
  double seconds = 0;
};

using OnEnd = std::function<void(Expected<PublishReport>)>;

class Member {
 public:
  /// Returns Errc::invalid_argument for a card in neither layout, a plan of byte tables only, or a
  /// type that does not fit the plan's element size.
  static Expected<std::unique_ptr<Member>> open(MemberOptions options, std::unique_ptr<Port> port);
  /// Aborts a publish in progress, which its peers are told. Joins the thread.
  virtual ~Member() = default;

  virtual const std::string& endpoint() const = 0;
  /// Endpoints of all members by index of plan.cards (own: ignored). All must be open.
  virtual Expected<void> connect(const std::vector<std::string>& endpoints) = 0;

  /// Starts, and returns at once. `on_end` runs once on the member's thread. Returns
  /// Errc::invalid_argument for a version that is not newer than all before, Errc::protocol while
  /// another runs, Errc::closed after a death.
  virtual Expected<void> begin(uint64_t version, OnEnd on_end = {}) = 0;
  /// Waits until the version has arrived (and what this card sent has arrived where it went), or
  /// failed.
  virtual Expected<PublishReport> wait(uint64_t version) = 0;
  /// begin() and wait().
  Expected<PublishReport> publish(uint64_t version);
  /// Returns Errc::protocol unless the version has arrived; a repeat is harmless.
  virtual Expected<void> commit(uint64_t version) = 0;
  /// Ends the version here and at all peers, also after it has arrived; no effect once committed or
  /// on another version. Returns after the member has let go of source and target.
  virtual void abort(uint64_t version, const std::string& reason) = 0;

  virtual std::optional<uint64_t> served() const = 0;  // committed last
  /// xxh3 of the card's shard in the target, in the layout's order: equal for replicas. REQUIRES: a
  /// version has arrived, none is under way.
  virtual uint64_t shard_checksum() const = 0;
};

}  // namespace cohort::publish
