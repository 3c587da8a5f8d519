#pragma once
/// Typed handles of the role actors that others address. The behaviors are in the file of each
/// role.
#include <caf/all.hpp>

#include "actors/roles/local_messages.hpp"
#include "runtime/control/messages.hpp"

namespace cohort::actors {

/// The owner of objects on a card: answers placement's commands with measured bytes. (card,
///   CardCommand) -> CardReply | capacity, compute, io, cancelled
using CardActor = caf::typed_actor<
    caf::replies_to<control::card_atom, control::CardCommand>::with<control::CardReply>>;

///   (phase, PhaseRequest) -> PhaseReport | placement, capacity, the error of the command that
///   failed. (lost, CardsLost), (back, CardsBack): from the node, see placement.hpp
using PlacementActor = caf::typed_actor<
    caf::replies_to<control::phase_atom, control::PhaseRequest>::with<control::PhaseReport>,
    caf::reacts_to<control::lost_atom, control::CardsLost>,
    caf::reacts_to<control::back_atom, control::CardsBack>,
    caf::reacts_to<control::watch_atom, uint64_t>>;

///   (reset, request, seed) -> EnvTurn; (act, request, answer) -> EnvTurn;
///   (play, request, seed, expert_fraction, rng_key) -> Transcript. Failures are in the answer's
///   `error`.
/// The rollout sends without a request: a timer per turn would cost more than the turn. The answer
/// comes as a message of its own, and one watchdog per lease bounds the wait.
using EnvironmentActor = caf::typed_actor<
    caf::replies_to<control::reset_atom, uint64_t, uint64_t>::with<EnvTurn>,
    caf::replies_to<control::act_atom, uint64_t, tasks::PolicyAnswer>::with<EnvTurn>,
    caf::replies_to<control::play_atom, uint64_t, uint64_t, double, uint64_t>::with<Transcript>>;

///   (record, trajectories) -> count; (record, type, json) -> true; (flush) -> true | io (full
///   disk). Beside the stream: (save, folder, trajectories) -> true once they are on the disk, in
///   the place of what was there; (load, folder) -> what is there, none without the folder
using RecorderActor =
    caf::typed_actor<caf::replies_to<control::record_atom, TrajectoryBatch>::with<uint64_t>,
                     caf::replies_to<control::record_atom, uint16_t, std::string>::with<bool>,
                     caf::replies_to<control::flush_atom>::with<bool>,
                     caf::replies_to<control::save_atom, std::string, TrajectoryBatch>::with<bool>,
                     caf::replies_to<control::load_atom, std::string>::with<TrajectoryBatch>>;

///   (lease, Lease) -> LeaseReport once every trajectory is finished and handed to the reward link;
///   (ping) -> a number that rises while it gets on with its leases; (cancel, number): another
///   replica has played that lease, which ends with Errc::cancelled unless it is over (LEASE-1);
///   (save, folder) -> true once what it has begun of training is there | io; (load, folder) ->
///   true: leases of what is there go on with it | io, corrupt
using RolloutActor = caf::typed_actor<
    caf::replies_to<control::card_atom, control::CardCommand>::with<control::CardReply>,
    caf::replies_to<control::lease_atom, control::Lease>::with<control::LeaseReport>,
    caf::reacts_to<control::outputs_atom, TurnOutputs>, caf::reacts_to<EnvTurn>,
    caf::reacts_to<Transcript>, caf::reacts_to<control::flush_atom>,
    caf::reacts_to<control::open_atom>, caf::reacts_to<control::watch_atom>,
    caf::reacts_to<control::fail_atom, control::Failure>, caf::reacts_to<Arrival>,
    caf::replies_to<control::ping_atom>::with<uint64_t>,
    caf::reacts_to<control::cancel_atom, uint64_t>,
    caf::replies_to<control::save_atom, std::string>::with<bool>,
    caf::replies_to<control::load_atom, std::string>::with<bool>>;

/// The part of a rollout that a checkpoint asks.
using UnfinishedActor =
    caf::typed_actor<caf::replies_to<control::save_atom, std::string>::with<bool>,
                     caf::replies_to<control::load_atom, std::string>::with<bool>>;

/// What the driver leases groups to: a rollout, or the rows of files (row_feeder.hpp).
///   (lease, Lease), (ping), (cancel, number): as RolloutActor; (flush): from itself
using PlayerActor = caf::typed_actor<
    caf::replies_to<control::lease_atom, control::Lease>::with<control::LeaseReport>,
    caf::replies_to<control::ping_atom>::with<uint64_t>,
    caf::reacts_to<control::cancel_atom, uint64_t>, caf::reacts_to<control::flush_atom>>;

///   (deliver, frame): score and pass on; the frame is acknowledged when the next hop acknowledged
///   it. Results of its pools come as messages. (flush): the next hop has room again. (fence,
///   producer): what still comes from that link end is dropped.
using RewardActor =
    caf::typed_actor<caf::reacts_to<control::deliver_atom, DeliveryHandle>,
                     caf::reacts_to<ScoredBatch>, caf::reacts_to<control::flush_atom>,
                     caf::reacts_to<control::fence_atom, std::string>>;

using ReferenceActor = caf::typed_actor<
    caf::replies_to<control::card_atom, control::CardCommand>::with<control::CardReply>,
    caf::reacts_to<control::deliver_atom, DeliveryHandle>, caf::reacts_to<control::flush_atom>>;

/// As ReferenceActor; (outputs, replies): from its engine.
using JudgeActor = caf::typed_actor<
    caf::replies_to<control::card_atom, control::CardCommand>::with<control::CardReply>,
    caf::reacts_to<control::deliver_atom, DeliveryHandle>,
    caf::reacts_to<control::outputs_atom, TurnOutputs>, caf::reacts_to<control::flush_atom>>;

/// The compute side of the trainer, on a thread of its own.
///   (update, UpdateRequest, trajectories) -> UpdateReport; (save/load, CheckpointRequest) ->
///   CheckpointReport
using TrainWorkerActor = caf::typed_actor<
    caf::replies_to<control::card_atom, control::CardCommand>::with<control::CardReply>,
    caf::replies_to<control::update_atom, control::UpdateRequest,
                    TrajectoryBatch>::with<control::UpdateReport>,
    caf::replies_to<control::save_atom,
                    control::CheckpointRequest>::with<control::CheckpointReport>,
    caf::replies_to<control::load_atom,
                    control::CheckpointRequest>::with<control::CheckpointReport>>;

/// A train worker in another process, behind the link that brings it the step's trajectories.
///   (update, UpdateRequest) -> UpdateReport once they are here; the rest as the worker
using TrainRankActor = caf::typed_actor<
    caf::reacts_to<control::deliver_atom, DeliveryHandle>,
    caf::replies_to<control::card_atom, control::CardCommand>::with<control::CardReply>,
    caf::replies_to<control::update_atom, control::UpdateRequest>::with<control::UpdateReport>,
    caf::replies_to<control::save_atom,
                    control::CheckpointRequest>::with<control::CheckpointReport>,
    caf::replies_to<control::load_atom,
                    control::CheckpointRequest>::with<control::CheckpointReport>>;

/// Collector and front of the trainer.
///   (expect, CollectRequest) -> RecordedReport, what a checkpoint has of it; (collect, kind, step)
///   -> CollectReport when all are in the stream; (recorded, kind, step) -> RecordedReport |
///   not_found once the step is over; (sift, kind, step, n) -> SiftReport when its filter has left
///   out more than n groups, or the step is over | not_found; (mask, MaskRequest) -> true once the
///   group's places are in the stream, masked | not_found
using TrainerActor = caf::typed_actor<
    caf::reacts_to<control::deliver_atom, DeliveryHandle>,
    caf::replies_to<control::expect_atom, control::CollectRequest>::with<control::RecordedReport>,
    caf::replies_to<control::collect_atom, TrajectoryKind, uint64_t>::with<control::CollectReport>,
    caf::replies_to<control::recorded_atom, TrajectoryKind,
                    uint64_t>::with<control::RecordedReport>,
    caf::replies_to<control::sift_atom, TrajectoryKind, uint64_t,
                    uint32_t>::with<control::SiftReport>,
    caf::replies_to<control::mask_atom, control::MaskRequest>::with<bool>,
    caf::replies_to<control::update_atom, control::UpdateRequest>::with<control::UpdateReport>,
    caf::replies_to<control::save_atom,
                    control::CheckpointRequest>::with<control::CheckpointReport>,
    caf::replies_to<control::load_atom,
                    control::CheckpointRequest>::with<control::CheckpointReport>>;

///   (start): run the pipeline; (stop): finish the step, checkpoint, end; (fail, cause): end with
///   its first cause; (notice, role, text): tell the user; (lost, CardsLost), (back,
///   CardsBack): rollouts that are gone, and their successors; (leave, CardsLost, wait_ms) -> true
///   once these may go | invalid_argument; (watch): from itself, time has passed
using DriverActor =
    caf::typed_actor<caf::reacts_to<control::start_atom>, caf::reacts_to<control::stop_atom>,
                     caf::reacts_to<control::fail_atom, control::Failure>,
                     caf::reacts_to<control::notice_atom, std::string, std::string>,
                     caf::reacts_to<control::lost_atom, control::CardsLost>,
                     caf::reacts_to<control::back_atom, control::CardsBack>,
                     caf::replies_to<control::leave_atom, control::CardsLost, uint32_t>::with<bool>,
                     caf::reacts_to<control::watch_atom>>;

/// The supervisor of a run. (start): begin; (stop), (notice, role, text): to the driver; (fail,
/// cause): end the run;
/// (flush) -> true: everything is told to end. From processes that hold cards:
/// (join, ProcessHello) -> ProcessWelcome | not_found | denied (an attempt that was given up);
/// (ready, ProcessReady). From the watcher of processes: (lost, ProcessLost). (table, TableRequest)
/// -> TableReply. From the driver: (judge, ProcessJudgement). From the cluster's head: (leave,
/// LeaveOrder) -> true | invalid_argument
using NodeActor = caf::typed_actor<
    caf::reacts_to<control::start_atom>, caf::reacts_to<control::stop_atom>,
    caf::reacts_to<control::fail_atom, control::Failure>,
    caf::reacts_to<control::notice_atom, std::string, std::string>,
    caf::replies_to<control::flush_atom>::with<bool>,
    caf::replies_to<control::join_atom, control::ProcessHello>::with<control::ProcessWelcome>,
    caf::reacts_to<control::ready_atom, control::ProcessReady>,
    caf::reacts_to<control::watch_atom, uint64_t>,
    caf::reacts_to<control::lost_atom, control::ProcessLost>,
    caf::replies_to<control::leave_atom, control::LeaveOrder>::with<bool>,
    caf::reacts_to<control::judge_atom, control::ProcessJudgement>,
    caf::replies_to<control::table_atom, control::TableRequest>::with<control::TableReply>>;

}  // namespace cohort::actors
