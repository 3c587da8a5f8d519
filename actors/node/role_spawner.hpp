#pragma once
/// Makes the role actors of the cards of this process, with their links: the same code for a node
/// that has all cards and for a process that has some (card_process.hpp). Owner: the node or the
/// card process. Not thread-safe. Holds the ZeroMQ context and the cards of this process; an actor
/// that may end after it keeps its part of them alive.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/hop.hpp"
#include "actors/roles/role_handles.hpp"
#include "actors/roles/rollout_actor.hpp"
#include "actors/roles/weight_exchange.hpp"
#include "actors/run/preflight.hpp"
#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace cohort::actors {

/// Begins the names of the roles of rewards with cards.
inline constexpr std::string_view k_model_reward = "rewards.";

/// The groups that actors of this process have joined. Thread-safe.
class GroupList {
 public:
  void add(const std::shared_ptr<compute::Collectives>& group);
  /// Ends what waits in them, so that nobody hangs on a rank that has failed.
  void abort(const std::string& reason);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<compute::Collectives>> groups_;
};

/// How the processes of a run reach each other's links. Neither folder nor host: there is one
/// process, links are inproc.
struct Wires {
  std::string socket_folder;   // processes of one host: ipc sockets
  std::string listen_host;     // processes of several hosts: tcp, on this address of this one
  transport::CurveKeys curve;  // of tcp
  bool is_insecure = false;    // tcp without keys, because the user said so
  bool is_one_process() const { return socket_folder.empty() && listen_host.empty(); }
};

struct RoleSpawnerOptions {
  const config::RunConfig* config = nullptr;  // outlives the spawner
  const Preflight* plan = nullptr;            // likewise
  std::string run_id;
  uint32_t run_attempt = 0;   // how often the run was resumed
  std::vector<CardId> cards;  // of this process
  Wires wires;
  /// Where ranks find each other.
  std::shared_ptr<compute::Rendezvous> rendezvous;
  uint32_t attempt = 0;         // of the process: how many have held its cards before
  std::string run_folder = {};  // of the run; needed from the second attempt on
  FailureSink fail;
};

/// Returns where the policy of step 0 is, which the reference stays; it may not be there yet.
std::string first_policy(const std::string& run_folder);

/// Returns the name that both ends of a link of the run must say: a process that an earlier attempt
/// of the run has left behind is refused.
std::string run_of_links(const std::string& run_id, uint32_t run_attempt);

/// Returns a link's name without the attempt of its producer's process, and that attempt; none for
/// a link whose name never says it.
std::pair<std::string, std::optional<uint32_t>> attempt_of_link(const std::string& link);

class RoleSpawner {
 public:
  /// Returns the error of a card's seat in the publishing of weights (shared memory, the table of
  /// the rendezvous).
  static Expected<std::unique_ptr<RoleSpawner>> create(RoleSpawnerOptions options);

  /// From here on collectives and publishes fail: the run ends.
  void end_waits(const std::string& reason) const;
  transport::Context* context() const { return context_.get(); }
  /// Returns the options of the link to `endpoint`, a name that is unique in the run.
  transport::LinkOptions link(const std::string& endpoint, const std::string& name) const;
  /// Returns the links of a role that trajectories pass, on a card if it has some: from the role
  /// before it, to each card of the next.
  HopOptions hop_links(std::string_view role, std::optional<CardId> card = {}) const;
  /// Returns the links on which rows of files, or recorded trajectories, go to the role that is
  /// first to have them.
  std::vector<transport::LinkOptions> rows_links() const;
  /// Returns the options of the link that brings a card in another process its batches.
  transport::LinkOptions batch_link(std::string_view role, CardId card) const;
  /// Returns the name of the link end through which a role on a card sends its trajectories.
  std::string producer(std::string_view role, CardId card, uint32_t attempt) const;
  /// Returns the names, without attempts, of the links that a role on a card has an end of.
  std::vector<std::string> links_of(const std::string& role, CardId card) const;
  /// Returns the plan's name of a role on a card, as a message names it: a reward with a card is
  /// "rewards" there, and each card has one of them at most.
  std::string role_at(Role role, CardId card) const;
  /// Returns the cards that get leases: each replica's first.
  std::vector<CardId> leading_cards() const;
  /// Returns true if a reference, a teacher or a reward's model computes in a phase of its own.
  bool has_reference_phase() const;
  /// Returns true if a reward's model does.
  bool has_reward_in_turns() const;

  /// Makes the actor of a role on a card of this process. One that learns is a TrainWorkerActor
  /// where the trainer is in this process, else a TrainRankActor.
  caf::strong_actor_ptr spawn(caf::actor_system& system, std::string_view role, CardId card) const;

 private:
  TrainWorkerActor train_worker(caf::actor_system& system, CardId card) const;
  TrainWorkerActor critic_worker(caf::actor_system& system, CardId card) const;
  TrainRankActor train_rank(caf::actor_system& system, std::string_view role, CardId card,
                            TrainWorkerActor worker) const;
  RolloutActor rollout(caf::actor_system& system, CardId card) const;
  ReferenceActor frozen(caf::actor_system& system, Role role, CardId card) const;
  ReferenceActor score_model(caf::actor_system& system, std::string_view role, CardId card) const;
  JudgeActor judge(caf::actor_system& system, const std::string& role, CardId card) const;
  explicit RoleSpawner(RoleSpawnerOptions options);
  Expected<void> open_exchanges();
  std::shared_ptr<const void> keeps(CardId card) const;
  uint64_t step_bytes() const;
  transport::LinkOptions tcp_link() const;
  std::vector<std::string> hop_names(std::string_view role) const;
  std::vector<std::string> hop_chain() const;
  bool takes_turns(std::string_view role) const;
  std::vector<transport::LinkOptions> links_between(const std::string& from,
                                                    std::string_view to) const;
  compute::EngineSetup engine_setup(CardId card, uint32_t replica) const;
  compute::GroupOptions group_of(const std::vector<CardId>& cards, CardId card) const;
  transport::LinkOptions values_link(CardId card) const;
  std::optional<compute::GroupOptions> train_group(Role role, CardId card) const;
  compute::TrainEngineOptions train_options(CardId card, Role role) const;
  compute::ZeroOptions zero_options(Role role) const;

  RoleSpawnerOptions options_;
  std::shared_ptr<GroupList> groups_ = std::make_shared<GroupList>();
  std::shared_ptr<transport::Context> context_;
  std::map<CardId, std::shared_ptr<compute::CardMemory>> cards_;
  /// Of these cards, by receiving role.
  std::map<CardId, std::map<std::string, std::shared_ptr<WeightExchange>>> exchanges_;
};

}  // namespace cohort::actors
