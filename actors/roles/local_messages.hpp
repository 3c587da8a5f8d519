#pragma once
/// Messages that never leave a node: they carry shared handles of data-plane objects (a delivered
/// frame, decoded trajectories, finished turns) from the thread that made them to the actor that
/// owns the next step. What they point to is immutable once sent. CAF refuses to serialise them,
/// which is the point.
#include <caf/all.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/reward_pool.hpp"
#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/publish/member.hpp"
#include "runtime/tasks/text_environment.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::actors {

/// A frame that a link's pump thread delivered; ack() when its trajectories are recorded downstream
/// (FLOW-2).
using DeliveryHandle = std::shared_ptr<transport::Delivery>;
/// Decoded trajectories, shared by collector, recorder and trainer without copies.
using TrajectoryBatch = std::shared_ptr<std::vector<proto::Trajectory>>;
/// Everything that finished a turn in one engine iteration.
using TurnOutputs = std::shared_ptr<std::vector<compute::TurnOutput>>;

/// What a reward's pool has scored.
using ScoredBatch = std::shared_ptr<std::vector<Scored>>;

/// How the exchange of a weight version ended at a card.
using Arrival = std::shared_ptr<Expected<publish::PublishReport>>;

/// What an environment says after reset or an action: the ids to append to the context, and what it
/// paid.
struct EnvTurn {
  uint64_t request = 0;         // of the rollout: which trajectory this answers
  std::string error;            // the game failed, empty if not
  std::vector<int32_t> prompt;  // ids of the rendered template
  bool begins_context = false;  // they are all that the policy is to read, without what came before
  std::string observation;      // the bare observation, for the record
  float reward = 0;
  bool is_done = false;
  bool is_valid = false;
  bool is_effective = false;
  bool is_success = false;
  std::string stop_reason;  // set when is_done
  /// Of the episode so far, beside those that the rollout counts itself.
  std::vector<std::pair<std::string, double>> metrics;
};

/// A whole scripted game: turns[0] is the reset, turns[i + 1] answers responses[i]. Without
/// responses nothing was played: the episode has no script.
struct Transcript {
  uint64_t request = 0;
  std::string error;
  std::vector<EnvTurn> turns;
  std::vector<std::string> responses;
};

}  // namespace cohort::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::actors::DeliveryHandle)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::actors::TrajectoryBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::actors::TurnOutputs)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::actors::Arrival)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::actors::ScoredBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::tasks::PolicyAnswer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::actors::EnvTurn)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cohort::actors::Transcript)
