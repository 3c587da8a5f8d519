#pragma once
/// Driver: executes a run. plan::run::Run decides (plan/run/run.hpp); the driver turns messages
/// into its events and its commands into messages, and keeps the books (run_book.hpp). No tensor
/// and no trajectory passes through it. Owner: node. Thread: CAF's scheduler. Bound: the open steps
/// and leases of the machine. Every request has a time limit. Messages: DriverActor in
/// role_handles.hpp; result through DriverOptions::on_end, once.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/roles/role_handles.hpp"
#include "actors/run/quarantine.hpp"
#include "actors/run/run_book.hpp"
#include "actors/run/task_source.hpp"
#include "runtime/plan/run/run.hpp"

namespace cohort::actors {

struct DriverOptions {
  config::RunConfig config;
  std::string run_id;
  std::string run_folder;
  std::string resume_from;   // checkpoint folder, or empty
  std::string resume_first;  // checkpoint of step 0 of that run: the reference's weights; or empty
  uint32_t attempt = 0;      // 0, +1 per resume of the run
  PlacementActor placement;
  std::vector<RolloutActor> rollouts;
  std::vector<CardId> rollout_cards;  // of `rollouts`: each replica's first
  std::vector<CardId> infer_cards;    // all of them
  CardId train_card;
  TrainerActor trainer;
  bool has_reference_phase = false;  // the reference takes turns with other roles
  RecorderActor recorder;
  RunLog* log = nullptr;
  std::shared_ptr<TaskSource> tasks;
  std::function<void(RunResult)> on_end;  // called once, from the driver's thread
  std::function<void(const control::ProcessJudgement&)> judge;  // to the node
  int request_timeout_ms = 3600000;
};

class DriverState {
 public:
  static inline const char* name = "driver";
  explicit DriverState(DriverActor::pointer self) : self_(self) {}
  void open(DriverOptions options);
  void on_start();
  void on_stop();
  void on_lost(const control::CardsLost& lost);
  void on_back(const control::CardsBack& back);
  caf::result<bool> on_leave(const control::CardsLost& leaving, uint32_t wait_ms);
  void tell(plan::run::Event event);

 private:
  template <class Handle, class Then, class... Args>
  void ask(Role role, const Handle& handle, Then then, Args&&... args);

  void execute(const plan::run::BeginPhase& command);
  void execute(const plan::run::AskTasks& command);
  void execute(const plan::run::OpenRound& command);
  void execute(const plan::run::Lease& command);
  void execute(const plan::run::Cancel& command);
  void execute(const plan::run::Ping& command);
  void execute(const plan::run::Collect& command);
  void execute(const plan::run::AskRecorded& command);
  void execute(const plan::run::Mask& command);
  void execute(const plan::run::Update& command);
  void execute(const plan::run::Flush& command);
  void execute(const plan::run::Save& command);
  void execute(const plan::run::Load& command);
  void execute(const plan::run::Prune& command);
  void execute(const plan::run::Judge& command);
  void execute(const plan::run::Quarantine& command);
  void execute(const plan::run::Note& command);
  void execute(const plan::run::Published& command) { book_->on(command); }
  void execute(const plan::run::BeginRow& command) { book_->on(command); }
  void execute(const plan::run::RoundOver& command) { book_->on(command); }
  void execute(const plan::run::EndRow& command);
  void execute(const plan::run::WakeAt& command);
  void execute(const plan::run::AnswerLeave& command);
  void execute(const plan::run::End& command);

  Expected<plan::run::Cursor> restore(const control::CheckpointReport& report);
  void record(stream::RecordType type, std::string json);

  DriverActor::pointer self_;
  DriverOptions options_;
  std::optional<plan::run::Run> run_;
  std::optional<RunBook> book_;
  Quarantine quarantine_;
  std::optional<Error> broken_;  // what speaks against a start
  std::vector<RolloutActor> rollouts_;
  std::deque<plan::run::Event> events_;  // to be told, in order
  bool is_telling_ = false;
  bool is_stopping_ = false;
  std::string phase_;                        // in which the event came
  std::map<uint64_t, std::string> cursors_;  // of the data, after the groups of a step
  std::map<uint64_t, caf::typed_response_promise<bool>> leaves_;
  uint64_t last_leave_ = 0;
};

DriverActor::behavior_type driver(DriverActor::stateful_pointer<DriverState> self,
                                  DriverOptions options);

}  // namespace cohort::actors
