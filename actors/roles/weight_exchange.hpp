#pragma once
/// One card's seat in the publishing of weights to one role: a publish::Member that a train engine,
/// a receiving engine, or in timeshare both of one card, take part through. Owner: RoleSpawner,
/// which opens the seats of its cards before it spawns their actors, and shares them. Thread-safe.
///
/// A version starts at a card when each of its sides has said where its weights lie (offer,
/// accept), and ends with one report or error for all of them, on the member's thread. Every wait
/// has an end: a peer that is gone, timeout_ms without a move, or abort(). Seats find each other
/// through the run's Rendezvous: endpoints are put there when a seat opens and read at its first
/// version. A group that has lost a member is of no more use: all seats open again under a higher
/// epoch (reseat), without the cards that are away then, and what they publish may be a version
/// that was published before. Bound and invariants: publish::Member (PUBLISH-1 … 5), RESHARD-5.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/publish/member.hpp"
#include "runtime/publish/ports.hpp"

namespace cohort::actors {

struct WeightExchangeOptions {
  std::shared_ptr<const plan::ReshardPlan> plan;  // train cards to those of `receiver`
  std::string receiver;                           // role, e.g. "actor_infer"
  CardId card;
  tensor::Dtype dtype = tensor::Dtype::f32;
  std::shared_ptr<compute::Rendezvous> rendezvous;
  std::shared_ptr<publish::InprocHub> hub;  // cards are in one process
  /// Cards are on several hosts: the links of their seats. Neither: in several processes of one.
  std::shared_ptr<transport::Context> context;
  transport::LinkOptions link;
  uint64_t epoch = 0;      // of the group of seats; a process that is not the first of its cards
  int timeout_ms = 60000;  // without a byte moved
};

class WeightExchange {
 public:
  static Expected<std::shared_ptr<WeightExchange>> open(WeightExchangeOptions options);
  ~WeightExchange();
  WeightExchange(const WeightExchange&) = delete;
  WeightExchange& operator=(const WeightExchange&) = delete;

  /// The train engine's side of `version`. What `source` names must stay as it is until `on_end`.
  /// Errors come through `on_end` too, which may be called before this returns.
  void offer(uint64_t version, publish::Source source, publish::OnEnd on_end);
  /// The receiving engine's side; what `target` names is not what the engine serves.
  void accept(uint64_t version, publish::Target target, publish::OnEnd on_end);
  /// Opens the seat of a later epoch in place of this one, in a group without the replicas of
  /// `absent`; no effect for its own epoch. Returns Errc::protocol for an earlier epoch, or while a
  /// version is under way; Errc::closed when the run's table is gone; errors of plan_without.
  Expected<void> reseat(uint64_t epoch, const std::vector<uint32_t>& absent);
  /// Says that the engine serves a version that has arrived.
  Expected<void> commit(uint64_t version);
  /// Ends what is under way, here and at all peers, and refuses what comes after. Returns when
  /// nothing reads or writes the engines' buffers any more.
  void abort(const std::string& reason);

 private:
  struct Side {
    bool is_needed = false, is_in = false;
    publish::OnEnd on_end;
  };
  explicit WeightExchange(WeightExchangeOptions options) : options_(std::move(options)) {}
  void enter(Side& side, uint64_t version, publish::OnEnd on_end,
             const std::function<void()>& keep);
  Expected<void> open_member();  // under mutex_, as the next two
  Expected<void> start(uint64_t version);
  Expected<void> connect();
  void end(const Expected<publish::PublishReport>& report);

  const WeightExchangeOptions options_;
  std::mutex mutex_;  // all below; not held while a member waits
  Side train_, receive_;
  publish::Source source_;
  publish::Target target_;
  uint64_t version_ = 0;  // of the sides that are in
  uint64_t epoch_ = 0;
  std::shared_ptr<const plan::ReshardPlan> plan_;  // of this epoch
  bool is_connected_ = false;
  std::string aborted_;                      // the reason
  std::shared_ptr<publish::Member> member_;  // null: its seat could not be opened again
};

/// For an actor on a thread of its own: enters with `enter(on_end)` and waits for the end.
Expected<publish::PublishReport> wait_for(const std::function<void(publish::OnEnd)>& enter);

}  // namespace cohort::actors
