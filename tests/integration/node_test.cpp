// One node in this process: what happens to a run when one of its actors dies, and what the trainer
// acknowledges when.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "actors/node/node_actor.hpp"
#include "actors/roles/hop.hpp"
#include "actors/roles/trainer_actor.hpp"
#include "runtime/config/load.hpp"
#include "runtime/control/system.hpp"
#include "runtime/proto/codec.hpp"
#include "runtime/stream/reader.hpp"
#include "tests/support/child_process.hpp"

namespace cohort::actors {
namespace {

using control::deliver_atom_v;

config::RunConfig tiny_config(const std::filesystem::path& folder,
                              const std::vector<std::string>& more) {
  std::vector<std::string> overrides = {"output_dir=" + folder.string(),
                                        "model.hidden_size=16",
                                        "model.num_attention_heads=2",
                                        "model.num_key_value_heads=1",
                                        "model.head_dim=8",
                                        "model.intermediate_size=32",
                                        "model.num_hidden_layers=1",
                                        "max_steps=3",
                                        "eval_steps=100",
                                        "save_steps=100",
                                        "rollout_batch_size=32",
                                        "train_env_manager.num_env_groups=8",
                                        "train_env_manager.num_groups_partition=[8]",
                                        "train_env_manager.group_size=4",
                                        "val_batch_size=16",
                                        "val_env_manager.num_env_groups=16",
                                        "val_env_manager.num_groups_partition=[16]",
                                        "actor_train.training_args.per_device_train_batch_size=4",
                                        "actor_train.training_args.gradient_accumulation_steps=4",
                                        "warm_start.steps=4",
                                        "warm_start.batch_size=8",
                                        "warm_start.rounds=2",
                                        "warm_start.warmup_steps=2",
                                        "cards.memory_bytes=64MiB",
                                        "cards.reserve_bytes=1MiB"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  auto config = config::load(
      std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/frozen_lake.yaml", overrides);
  EXPECT_TRUE(config) << config.error().detail;
  return std::move(*config);
}

/// Runs a node to its end. `on_spawn` sees every role actor.
class NodeRun {
 public:
  using OnSpawn = std::function<void(caf::actor_system&, const std::string& role, int nth,
                                     const caf::actor_addr& actor)>;
  explicit NodeRun(OnSpawn on_spawn = {}, std::vector<std::string> overrides = {})
      : on_spawn_(std::move(on_spawn)), overrides_(std::move(overrides)) {}

  RunResult run() {
    NodeOptions options;
    options.config = tiny_config(folder_.path(), overrides_);
    auto plan = preflight(options.config);
    EXPECT_TRUE(plan) << plan.error().detail;
    options.plan = *plan;
    auto opened = open_run_folder(options.config);
    EXPECT_TRUE(opened) << opened.error().detail;
    options.folder = *opened;
    run_folder = options.folder.path;
    stream::WriterOptions stream;
    stream.run_id = options.folder.run_id;
    auto writer = stream::Writer::open(run_folder / "stream", stream);
    EXPECT_TRUE(writer) << writer.error().detail;
    options.writer = std::make_shared<stream::Writer>(std::move(*writer));
    RunLogOptions log;
    log.run_folder = run_folder;
    log.total_steps = 3;
    observe::Console console(observe::choose_console(/*is_quiet=*/true));
    log.console = &console;
    auto run_log = RunLog::open(std::move(log));
    EXPECT_TRUE(run_log) << run_log.error().detail;
    options.log = run_log->get();
    RunResult result = run_node(options);
    EXPECT_TRUE(options.writer->close());
    return result;
  }

  std::filesystem::path run_folder;

 private:
  RunResult run_node(NodeOptions& options) {
    control::SystemConfig config({.scheduler_threads = 1, .is_test = false});
    caf::actor_system system{config};
    std::promise<RunResult> promise;
    std::atomic<bool> is_set = false;
    options.on_end = [&](RunResult result) {
      if (!is_set.exchange(true)) promise.set_value(std::move(result));
    };
    std::map<std::string, int> counts;  // only the node's thread of the moment touches it
    options.on_spawn = [&](const std::string& role, const caf::actor_addr& actor) {
      if (on_spawn_) on_spawn_(system, role, counts[role]++, actor);
    };
    auto address = system.spawn(node, options);
    caf::anon_send(address, control::start_atom_v);
    auto future = promise.get_future();
    bool is_over = future.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    EXPECT_TRUE(is_over) << "the run hangs";
    RunResult result = is_over ? future.get() : RunResult{};
    caf::scoped_actor self{system};
    self->request(address, std::chrono::seconds(10), control::flush_atom_v)
        .receive([](bool) {}, [](const caf::error&) {});
    caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
    return result;
  }

  test::TempFolder folder_;
  OnSpawn on_spawn_;
  std::vector<std::string> overrides_;
};

std::multiset<proto::TrajectoryKey> keys_in_stream(const std::filesystem::path& run_folder) {
  std::multiset<proto::TrajectoryKey> keys;
  auto reader = stream::Reader::open(run_folder / "stream");
  EXPECT_TRUE(reader) << reader.error().detail;
  for (;;) {
    auto record = reader->next();
    EXPECT_TRUE(record) << record.error().detail;
    if (!record || !*record) return keys;
    if ((*record)->info.type == stream::RecordType::trajectory)
      keys.insert(*(*record)->info.key.trajectory);
  }
}

TEST(Node, RunsToItsEnd) {
  NodeRun run;
  RunResult result = run.run();
  EXPECT_TRUE(result.is_ok) << result.error;
  EXPECT_EQ(result.steps, 3U);
}

/// Returns the values of one key in the rows of metrics.jsonl.
std::vector<std::string> values_of(const std::filesystem::path& run_folder,
                                   const std::string& key) {
  std::vector<std::string> values;
  std::ifstream file(run_folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);)
    values.push_back(nlohmann::json::parse(line).value(key, nlohmann::json()).dump());
  return values;
}

std::vector<std::string> run_hashes(const std::vector<std::string>& overrides) {
  NodeRun run({}, overrides);
  RunResult result = run.run();
  EXPECT_TRUE(result.is_ok) << result.error;
  std::vector<std::string> hashes = values_of(run.run_folder, "param_hash");
  EXPECT_EQ(hashes.size(), 4U);
  return hashes;
}

// What shares a card takes turns; what is computed does not change.
TEST(Node, TimeshareGivesTheHashesOfSeparateStepByStep) {
  EXPECT_EQ(run_hashes({"placement.mode=timeshare", "placement.offload=step",
                        "actor_infer.device_mapping=list(range(0,1))", "num_gpus_per_node=1"}),
            run_hashes({}));
}

// The reference has the card after generation: what was played waits for it.
TEST(Node, TimeshareWithAReferenceOnTheSameCardGivesTheHashesOfSeparate) {
  const std::vector<std::string> kl = {"use_kl_loss=true", "kl_loss_coef=0.1"};
  std::vector<std::string> apart = kl, together = kl;
  apart.insert(apart.end(),
               {"reference.device_mapping=list(range(1,2))", "placement.offload=step"});
  together.insert(together.end(),
                  {"placement.mode=timeshare", "placement.offload=step",
                   "actor_infer.device_mapping=list(range(0,1))", "num_gpus_per_node=1",
                   "reference.device_mapping=list(range(0,1))"});
  std::vector<std::string> expected = run_hashes(apart);
  EXPECT_EQ(run_hashes(together), expected);
  EXPECT_NE(expected, run_hashes({}));  // the KL term is there
}

// The frames that the dead actor had not passed on come again; the collector drops what comes twice
// (FLOW-1).
TEST(Node, ARewardActorThatDiesIsRestartedAndNothingIsLostOrTrainedTwice) {
  NodeRun calm;
  RunResult expected = calm.run();
  ASSERT_TRUE(expected.is_ok) << expected.error;
  // Killed in the middle of its work: whenever some more trajectories have come through.
  std::atomic<int> kills = 0;
  std::vector<std::jthread> killers;
  NodeRun run([&](caf::actor_system&, const std::string& role, int nth,
                  const caf::actor_addr& actor) {
    if (role != "rewards" || nth >= k_reward_restarts) return;
    killers.emplace_back([&, nth, actor](std::stop_token stop) {
      auto wanted = static_cast<size_t>(8 + 30 * nth);
      test::wait_until(
          [&] { return stop.stop_requested() || keys_in_stream(run.run_folder).size() >= wanted; },
          30000);
      if (stop.stop_requested()) return;
      ++kills;
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    });
  });
  RunResult result = run.run();
  killers.clear();
  EXPECT_EQ(kills, k_reward_restarts);
  EXPECT_TRUE(result.is_ok) << result.error;
  EXPECT_EQ(result.param_hash, expected.param_hash);
  EXPECT_EQ(result.trajectories, expected.trajectories);
  EXPECT_TRUE(keys_in_stream(run.run_folder) == keys_in_stream(calm.run_folder));
}

TEST(Node, ARewardActorThatKeepsDyingEndsTheRunWithItsName) {
  NodeRun run([&](caf::actor_system&, const std::string& role, int, const caf::actor_addr& actor) {
    if (role == "rewards") caf::anon_send_exit(actor, caf::exit_reason::kill);
  });
  RunResult result = run.run();
  EXPECT_FALSE(result.is_ok);
  EXPECT_NE(result.error.find("rewards"), std::string::npos) << result.error;
}

TEST(Node, AnyOtherActorThatDiesEndsTheRunWithItsName) {
  for (const char* victim : {"actor_train", "actor_infer", "recorder", "placement", "driver"}) {
    NodeRun run(
        [&](caf::actor_system&, const std::string& role, int, const caf::actor_addr& actor) {
          if (role.starts_with(victim) && role.find("worker") == std::string::npos)
            caf::anon_send_exit(actor, caf::exit_reason::kill);
        });
    RunResult result = run.run();
    EXPECT_FALSE(result.is_ok) << victim;
    EXPECT_NE(result.error.find(victim), std::string::npos) << result.error;
  }
}

// ---- FLOW-2 --------------------------------------------------------------

struct SlowDisk {
  std::mutex mutex;
  caf::typed_response_promise<uint64_t> waiting;
  std::atomic<size_t> asked = 0;
};

RecorderActor::behavior_type slow_recorder(RecorderActor::pointer self,
                                           std::shared_ptr<SlowDisk> disk) {
  return {[self, disk](control::record_atom, const TrajectoryBatch&) -> caf::result<uint64_t> {
            std::lock_guard lock(disk->mutex);
            disk->waiting = self->make_response_promise<uint64_t>();
            ++disk->asked;
            return disk->waiting;
          },
          [](control::record_atom, uint16_t, const std::string&) { return true; },
          [](control::flush_atom) { return true; },
          [](control::save_atom, const std::string&, const TrajectoryBatch&) { return true; },
          [](control::load_atom, const std::string&) {
            return std::make_shared<std::vector<proto::Trajectory>>();
          }};
}

TEST(Trainer, AcknowledgesAFrameOnlyAfterItsRecord) {
  control::SystemConfig config({.scheduler_threads = 1, .is_test = false});
  caf::actor_system system{config};
  transport::Context context;
  auto disk = std::make_shared<SlowDisk>();
  TrainerOptions options;
  options.context = &context;
  options.input.endpoint = "inproc://trainer";
  options.input.run_id = "run";
  options.recorder = system.spawn(slow_recorder, disk);
  options.fail = [](const control::Failure& failure) { ADD_FAILURE() << failure.detail; };
  auto address = spawn_trainer(system, options);
  auto sender = transport::Sender::open(context, options.input, [](const Error&) {});
  ASSERT_TRUE(sender) << sender.error().detail;
  proto::Trajectory trajectory;
  trajectory.key = {proto::TrajectoryKind::train, 1, 0, 0};
  trajectory.tokens = {1, 2, 3};
  trajectory.response_mask = {0, 1, 1};
  trajectory.behavior_logp = {0, -1, -1};
  trajectory.token_versions = {0, 0, 0};
  trajectory.token_rewards = {0, 0, 1};
  proto::Encoded encoded = proto::encode_batch(std::span(&trajectory, 1));
  std::atomic<bool> is_acked = false;
  ASSERT_TRUE((*sender)->send({k_message_trajectories, std::move(encoded.header), encoded.columns},
                              [&](uint64_t) { is_acked = true; }));
  ASSERT_TRUE(test::wait_until([&] { return disk->asked == 1; }, 10000));
  EXPECT_FALSE((*sender)->wait_drained(200)) << "acknowledged before it was recorded";
  EXPECT_FALSE(is_acked);
  {
    std::lock_guard lock(disk->mutex);
    disk->waiting.deliver(uint64_t{1});
  }
  EXPECT_TRUE((*sender)->wait_drained(10000));
  EXPECT_TRUE(is_acked);
  caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(options.recorder, caf::exit_reason::user_shutdown);
}

/// Keeps what it is told to record.
struct Records {
  std::mutex mutex;
  std::vector<proto::Trajectory> list;
  size_t size() {
    std::lock_guard lock(mutex);
    return list.size();
  }
};

RecorderActor::behavior_type memory_recorder(RecorderActor::pointer,
                                             std::shared_ptr<Records> records) {
  return {[records](control::record_atom, const TrajectoryBatch& batch) {
            std::lock_guard lock(records->mutex);
            records->list.insert(records->list.end(), batch->begin(), batch->end());
            return static_cast<uint64_t>(batch->size());
          },
          [](control::record_atom, uint16_t, const std::string&) { return true; },
          [](control::flush_atom) { return true; },
          [](control::save_atom, const std::string&, const TrajectoryBatch&) { return true; },
          [](control::load_atom, const std::string&) {
            return std::make_shared<std::vector<proto::Trajectory>>();
          }};
}

// Whatever of it has come, and comes still: the group is masked, the step is whole.
TEST(Trainer, TheGroupThatIsNotPlayedKeepsItsPlaces) {
  control::SystemConfig config({.scheduler_threads = 1, .is_test = false});
  caf::actor_system system{config};
  transport::Context context;
  auto records = std::make_shared<Records>();
  TrainerOptions options;
  options.context = &context;
  options.input.endpoint = "inproc://trainer";
  options.input.run_id = "run";
  options.recorder = system.spawn(memory_recorder, records);
  options.fail = [](const control::Failure& failure) { ADD_FAILURE() << failure.detail; };
  auto address = spawn_trainer(system, options);
  auto sender = transport::Sender::open(context, options.input, [](const Error&) {});
  ASSERT_TRUE(sender) << sender.error().detail;
  caf::scoped_actor self{system};
  const auto ask = [&](auto... message) {
    return self->request(address, std::chrono::seconds(10), message...);
  };
  const auto fails = [](const caf::error& e) { ADD_FAILURE() << caf::to_string(e); };
  ask(control::expect_atom_v, control::CollectRequest{TrajectoryKind::train, 1, 2, 2})
      .receive([](const control::RecordedReport&) {}, fails);
  const auto play = [&](uint32_t group, uint32_t index) {
    proto::Trajectory t;
    t.key = {proto::TrajectoryKind::train, 1, group, index};
    t.tag = "Lake";
    t.tokens = {1, 2};
    t.response_mask = {0, 1};
    t.behavior_logp = {0, -1};
    t.token_versions = {0, 0};
    t.token_rewards = {0, 1};
    t.score = 1;
    proto::Encoded encoded = proto::encode_batch(std::span(&t, 1));
    ASSERT_TRUE(
        (*sender)->send({k_message_trajectories, std::move(encoded.header), encoded.columns}));
    ASSERT_TRUE((*sender)->wait_drained(10000));
  };
  play(1, 0);
  control::MaskRequest mask{TrajectoryKind::train, 1, 1, 3, 0, "run", "Lake", 77, "Lake/77",
                            "quarantined"};
  ask(control::mask_atom_v, mask).receive([](bool) {}, fails);
  ask(control::mask_atom_v, mask).receive([](bool) {}, fails);  // idempotent
  play(1, 1);                                                   // late: it has a place already
  play(0, 0);
  play(0, 1);
  ask(control::collect_atom_v, TrajectoryKind::train, uint64_t{1})
      .receive(
          [](const control::CollectReport& report) {
            EXPECT_EQ(report.trajectories, 4U);
            const std::map<std::string, double> metrics(report.metrics.begin(),
                                                        report.metrics.end());
            EXPECT_EQ(metrics.at("reward/masked"), 0.5);
            EXPECT_EQ(metrics.at("reward/mean"), 0.5);
          },
          fails);
  std::map<proto::TrajectoryKey, proto::Trajectory> last;  // what the stream says in the end
  for (const proto::Trajectory& t : records->list) last[t.key] = t;
  ASSERT_EQ(last.size(), 4U);
  for (const auto& [key, t] : last) {
    EXPECT_EQ(t.mask_reason, key.group == 1 ? "quarantined" : "");
    EXPECT_EQ(t.score, key.group == 1 ? 0 : 1);
    EXPECT_TRUE(proto::validate(t));
  }
  EXPECT_EQ((last[{proto::TrajectoryKind::train, 1, 1, 1}].prompt_id), "Lake/77");
  EXPECT_EQ(records->size(), 5U) << "one that had come is recorded again";
  caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(options.recorder, caf::exit_reason::user_shutdown);
}

TrainWorkerActor::behavior_type worker_with(TrainWorkerActor::pointer, uint64_t hash) {
  return {[](control::card_atom, const control::CardCommand&) { return control::CardReply{}; },
          [hash](control::update_atom, const control::UpdateRequest&, const TrajectoryBatch&) {
            control::UpdateReport report;
            report.param_hash = hash;
            report.metrics = {{"of/" + std::to_string(hash), 1}};
            return report;
          },
          [hash](control::save_atom, const control::CheckpointRequest&) {
            return control::CheckpointReport{"", hash, "", 0};
          },
          [hash](control::load_atom, const control::CheckpointRequest&) {
            return control::CheckpointReport{"", hash, "", 0};
          }};
}

/// Keeps the keys of what it is to train on.
TrainWorkerActor::behavior_type keeping_worker(
    TrainWorkerActor::pointer, std::shared_ptr<std::vector<proto::TrajectoryKey>> keys) {
  return {
      [](control::card_atom, const control::CardCommand&) { return control::CardReply{}; },
      [keys](control::update_atom, const control::UpdateRequest&, const TrajectoryBatch& batch) {
        for (const proto::Trajectory& t : *batch) keys->push_back(t.key);
        return control::UpdateReport{};
      },
      [](control::save_atom, const control::CheckpointRequest&) {
        return control::CheckpointReport{};
      },
      [](control::load_atom, const control::CheckpointRequest&) {
        return control::CheckpointReport{};
      }};
}

proto::Trajectory scored(uint32_t group, uint32_t index, double score, const char* masked) {
  proto::Trajectory t;
  t.key = {TrajectoryKind::train, 1, group, index};
  t.tokens = {1, 2};
  t.response_mask = {0, 1};
  t.behavior_logp = {0, -1};
  t.token_versions = {0, 0};
  t.token_rewards = {0, 1};
  t.score = score;
  t.mask_reason = masked;
  return t;
}

/// What the stream says in the end.
void expect_left_out(const Records& records) {
  std::map<std::pair<uint32_t, uint32_t>, proto::Trajectory> last;
  for (const proto::Trajectory& t : records.list) last[{t.key.group, t.key.index}] = t;
  EXPECT_EQ((last[{0, 0}].mask_reason), "filtered: every score is 1");
  EXPECT_EQ((last[{0, 0}].score), 1);
  EXPECT_EQ((last[{2, 0}].mask_reason), "rewards.mine: timeout");
  EXPECT_EQ((last[{2, 1}].mask_reason), "filtered: 1 of its 2 trajectories have a score");
  EXPECT_EQ((last[{4, 1}].mask_reason), "");
}

// Groups 0 and 2 carry no signal; 3 and 4 take their places. A reward has failed on one of group 2.
TEST(Trainer, AGroupWithoutASignalIsRecordedAsSuchAndNotTrained) {
  control::SystemConfig config({.scheduler_threads = 1, .is_test = false});
  caf::actor_system system{config};
  transport::Context context;
  auto records = std::make_shared<Records>();
  auto trained = std::make_shared<std::vector<proto::TrajectoryKey>>();
  TrainerOptions options;
  options.context = &context;
  options.input.endpoint = "inproc://trainer";
  options.input.run_id = "run";
  options.recorder = system.spawn(memory_recorder, records);
  options.ranks.push_back(
      {Role::actor_train, CardId{0}, system.spawn(keeping_worker, trained), {}, {}});
  config::RunConfig asked;
  asked.dynamic_sampling.filter.type = config::GroupFilter::std_filter;
  options.sieve.emplace(asked);
  options.fail = [](const control::Failure& failure) { ADD_FAILURE() << failure.detail; };
  auto address = spawn_trainer(system, options);
  auto sender = transport::Sender::open(context, options.input, [](const Error&) {});
  ASSERT_TRUE(sender) << sender.error().detail;
  caf::scoped_actor self{system};
  constexpr auto k_train = TrajectoryKind::train;
  const auto ask = [&](auto... message) {
    return self->request(address, std::chrono::seconds(10), message...);
  };
  const auto fails = [](const caf::error& e) { ADD_FAILURE() << caf::to_string(e); };
  const auto play = [&](uint32_t group, uint32_t index, double score, const char* masked = "") {
    const proto::Trajectory t = scored(group, index, score, masked);
    proto::Encoded encoded = proto::encode_batch(std::span(&t, 1));
    ASSERT_TRUE(
        (*sender)->send({k_message_trajectories, std::move(encoded.header), encoded.columns}));
    ASSERT_TRUE((*sender)->wait_drained(10000));
  };
  using LeftOut = std::vector<uint32_t>;
  ask(control::expect_atom_v, control::CollectRequest{k_train, 1, 3, 2})
      .receive([](const control::RecordedReport&) {}, fails);
  auto first = ask(control::sift_atom_v, k_train, uint64_t{1}, uint32_t{0});
  play(0, 1, 1), play(1, 0, 1), play(0, 0, 1), play(1, 1, 0);
  first.receive([](const control::SiftReport& report) { EXPECT_EQ(report.left_out, (LeftOut{0})); },
                fails);
  ask(control::expect_atom_v, control::CollectRequest{k_train, 1, 1, 2, {3}})
      .receive([](const control::RecordedReport&) {}, fails);
  play(2, 0, 0, "rewards.mine: timeout"), play(2, 1, 1), play(3, 0, 0), play(3, 1, 1);
  ask(control::expect_atom_v, control::CollectRequest{k_train, 1, 1, 2, {4}})
      .receive([](const control::RecordedReport&) {}, fails);
  play(4, 0, 1), play(4, 1, 0);
  ask(control::collect_atom_v, k_train, uint64_t{1})
      .receive(
          [](const control::CollectReport& report) {
            EXPECT_EQ(report.left_out, (LeftOut{0, 2}));
            EXPECT_EQ(report.trajectories, 10U);
            const std::map<std::string, double> metrics(report.metrics.begin(),
                                                        report.metrics.end());
            EXPECT_EQ(metrics.at("filter/kept"), 3);
            EXPECT_EQ(metrics.at("filter/all_1"), 1);
            EXPECT_EQ(metrics.at("filter/unscored"), 1);
            EXPECT_EQ(metrics.at("reward/masked"), 0.1);
          },
          fails);
  ask(control::update_atom_v, control::UpdateRequest{k_train, 1, 1, 0})
      .receive([](const control::UpdateReport&) {}, fails);
  std::vector<proto::TrajectoryKey> expected;
  for (uint32_t group : {1U, 3U, 4U})
    for (uint32_t index : {0U, 1U}) expected.push_back({k_train, 1, group, index});
  EXPECT_EQ(*trained, expected);
  expect_left_out(*records);
  caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(options.recorder, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(options.ranks[0].worker, caf::exit_reason::user_shutdown);
}

// Ranks of one role agree; roles differ, and the first one's report has everybody's numbers.
TEST(Trainer, RanksAgreeRoleByRole) {
  control::SystemConfig config({.scheduler_threads = 1, .is_test = false});
  caf::actor_system system{config};
  transport::Context context;
  caf::scoped_actor self{system};
  auto keeper = system.spawn(memory_recorder, std::make_shared<Records>());
  const auto load = [&](const std::vector<std::pair<Role, uint64_t>>& ranks) {
    TrainerOptions options;
    options.context = &context;
    options.input.endpoint = "inproc://trainer" + std::to_string(ranks.back().second);
    options.input.run_id = "run";
    options.recorder = keeper;
    for (const auto& [role, hash] : ranks)
      options.ranks.push_back({role, CardId{7}, system.spawn(worker_with, hash), {}, {}});
    auto address = spawn_trainer(system, options);
    std::string said;
    const auto fails = [&](const caf::error& e) { said = control::from_caf(e).detail; };
    self->request(address, std::chrono::seconds(10), control::expect_atom_v,
                  control::CollectRequest{TrajectoryKind::train, 1, 1, 1})
        .receive([](const control::RecordedReport&) {}, fails);
    self->request(address, std::chrono::seconds(10), control::mask_atom_v,
                  control::MaskRequest{TrajectoryKind::train, 1, 0, 0, 0, "run", "", 0, "", "out"})
        .receive([](bool) {}, fails);
    self->request(address, std::chrono::seconds(10), control::update_atom_v,
                  control::UpdateRequest{TrajectoryKind::train, 1, 1, 0})
        .receive(
            [&](const control::UpdateReport& report) {
              said = std::to_string(report.param_hash);
              for (const auto& [name, value] : report.metrics) said += " " + name;
            },
            fails);
    caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
    for (const TrainRank& rank : options.ranks)
      caf::anon_send_exit(rank.worker, caf::exit_reason::user_shutdown);
    return said;
  };
  const Role policy = Role::actor_train, critic = Role::critic;
  EXPECT_EQ(load({{policy, 1}, {policy, 1}, {critic, 2}, {critic, 2}}),
            "1 of/1 of/2 time/values_s");
  EXPECT_NE(load({{policy, 1}, {policy, 3}}).find("rank 1 (card 7) has parameters"),
            std::string::npos);
  EXPECT_NE(load({{policy, 1}, {critic, 2}, {critic, 4}}).find("rank 2 (card 7) has parameters"),
            std::string::npos);
  caf::anon_send_exit(keeper, caf::exit_reason::user_shutdown);
}

TEST(Trainer, ATokenOlderThanTheBoundIsRefused) {  // FLOW-3
  std::vector<proto::Trajectory> batch(2);
  batch[0].weight_version_min = 5;
  batch[1].weight_version_min = 4;
  batch[1].key = {proto::TrajectoryKind::train, 6, 2, 1};
  EXPECT_TRUE(check_staleness(batch, 5, 1));
  auto refused = check_staleness(batch, 5, 0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("group 2, index 1"), std::string::npos);
}

}  // namespace
}  // namespace cohort::actors
