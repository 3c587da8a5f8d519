#pragma once
/// Driver: executes a run. plan::run::Run decides (plan/run/run.hpp); the driver turns messages
/// into its events and its commands into messages, and keeps the books (run_book.hpp). No tensor
/// and no trajectory passes through it. Owner: node. Thread: CAF's scheduler. Bound: the open steps
/// and leases of the machine. Every request has a time limit. Messages: DriverActor in
/// role_handles.hpp; result through DriverOptions::on_end, once.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/roles/role_handles.hpp"
#include "actors/run/run_book.hpp"
#include "actors/run/task_source.hpp"
#include "runtime/plan/flow/recorded_schedule.hpp"

namespace cohort::actors {

/// In the place of a card, of a player that has none.
inline constexpr CardId k_no_card{~uint32_t{0}};

struct DriverOptions {
  config::RunConfig config;
  std::string run_id;
  std::string run_folder;
  std::string resume_from;   // checkpoint folder, or empty
  std::string resume_first;  // checkpoint of step 0 of that run: the reference's weights; or empty
  uint32_t attempt = 0;      // 0, +1 per resume of the run
  PlacementActor placement;
  std::vector<PlayerActor> rollouts;
  std::vector<CardId> rollout_cards;  // of `rollouts`: each replica's first; of rows k_no_card
  std::vector<CardId> infer_cards;    // all of them; none: rows, which need no weights
  CardId train_card;
  TrainerActor trainer;
  bool has_reference_phase = false;  // the reference takes turns with other roles
  bool refers_held_out = false;      // a reward does so
  RecorderActor recorder;
  RunLog* log = nullptr;
  std::shared_ptr<const plan::RecordedSchedule> schedule;  // async.schedule, or null
  uint64_t recorded_steps = 0;  // from_stream: how many there are; 0: rollouts play
  std::shared_ptr<TaskSource> tasks;
  std::function<void(RunResult)> on_end;  // called once, from the driver's thread
  std::function<void(const control::ProcessJudgement&)> judge;  // to the node
  int request_timeout_ms = 3600000;
};

DriverActor spawn_driver(caf::actor_system& system, DriverOptions options);

}  // namespace cohort::actors
