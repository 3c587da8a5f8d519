#include "bench/e2e/flow_roles.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "actors/roles/reward_actor.hpp"
#include "actors/roles/trainer_actor.hpp"
#include "actors/run/recorder_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/control/system.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::bench {

using actors::DeliveryHandle;

namespace {

// Held-out trajectories: a complete step closes when it is collected, without an update.
constexpr auto k_kind = proto::TrajectoryKind::val;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "flow: %s\n", why.c_str());
  ::_exit(1);
}

template <class T>
T must(Expected<T> result) {
  if (!result) give_up(result.error().to_string());
  return std::move(*result);
}
void must(const Expected<void>& result) {
  if (!result) give_up(result.error().to_string());
}

actors::FailureSink failures() {
  return [](const control::Failure& f) { give_up(f.role + ", " + f.phase + ": " + f.detail); };
}

transport::LinkOptions link_of(const FlowOptions& options, const std::string& name,
                               const std::string& endpoint) {
  transport::LinkOptions link;
  link.endpoint = endpoint;
  link.run_id = "flow";
  link.name = name;
  link.credit_bytes = link.queue_bytes = options.credit_bytes;
  link.curve = options.keys;
  return link;
}

transport::LinkOptions input_of(const FlowOptions& options, const FlowPipes& pipes,
                                const std::string& name) {
  transport::LinkOptions link = link_of(options, name, "tcp://127.0.0.1:*");
  link.announce = [&pipes](const std::string& endpoint) { tell_endpoint(pipes, endpoint); };
  return link;
}

/// Lives as long as the process.
struct Node {
  control::SystemConfig config{{.scheduler_threads = 1}};
  caf::actor_system system{config};
  transport::Context context;
};

/// Frames of one step as the rollout makes them.
template <class F>
void for_each_frame(const FlowOptions& options, uint64_t step, F&& send) {
  std::vector<proto::Trajectory> frame;
  for (uint32_t group = 0; group < options.groups; ++group)
    for (uint32_t index = 0; index < options.group_size; ++index) {
      frame.push_back(make_trajectory(options, {k_kind, step, group, index}));
      const bool is_last = group + 1 == options.groups && index + 1 == options.group_size;
      if (frame.size() < options.frame_trajectories && !is_last) continue;
      send(frame);
      frame.clear();
    }
}

void rollout(const FlowOptions& options, const FlowPipes& pipes, const std::string& next) {
  transport::Context context;
  std::mutex mutex;
  std::condition_variable freed;
  uint64_t acked = 0;
  auto output =
      must(transport::Sender::open(context, link_of(options, "actor_infer->rewards", next),
                                   [](const Error& error) { give_up(error.to_string()); }));
  auto on_acked = [&](uint64_t seq) {
    std::lock_guard lock(mutex);
    acked = seq;
    freed.notify_one();
  };
  uint64_t step = 0;
  while (::read(pipes.leases_in, &step, sizeof step) == sizeof step)
    for_each_frame(options, step, [&](const std::vector<proto::Trajectory>& frame) {
      proto::Encoded encoded = proto::encode_batch(frame);
      for (;;) {
        uint64_t before = 0;
        {
          std::lock_guard lock(mutex);
          before = acked;
        }
        auto sent = output->send({actors::k_message_trajectories, encoded.header, encoded.columns},
                                 on_acked);
        if (sent) return;
        if (sent.error().code != Errc::backpressure) give_up(sent.error().to_string());
        std::unique_lock lock(mutex);  // FLOW-4
        freed.wait(lock, [&] { return acked != before; });
      }
    });
}

void rewards(const FlowOptions& options, const FlowPipes& pipes, const std::string& next) {
  Node node;
  actors::RewardOptions reward;
  reward.hop = {&node.context,
                input_of(options, pipes, "actor_infer->rewards"),
                {link_of(options, "rewards->reference", next)}};
  reward.rewards.push_back({"odd", 1,
                            [scored_at = options.scored_at](const proto::Trajectory& t) {
                              const double score = score_of(t);
                              if (scored_at != nullptr) scored_at[t.key.step] = now_seconds();
                              return score;
                            },
                            nullptr});
  reward.fail = failures();
  reward.notice = [](const std::string&, const std::string&) {};
  auto actor = actors::spawn_reward(node.system, std::move(reward));
  for (;;) ::pause();
}

/// As actors/roles/reference_actor.hpp, without a model.
using ModelFreeReference = caf::typed_actor<caf::reacts_to<control::deliver_atom, DeliveryHandle>,
                                            caf::reacts_to<control::flush_atom>>;
struct ReferenceState {
  static inline const char* name = "reference";
  std::unique_ptr<actors::Hop> hop;
  void on_delivery(const DeliveryHandle& delivery) {
    auto batch = must(hop->decode(*delivery));
    for (proto::Trajectory& t : batch) fill_reference(t);
    must(hop->forward(std::move(batch), delivery));
  }
};

ModelFreeReference::behavior_type reference_actor(
    ModelFreeReference::stateful_pointer<ReferenceState> self, actors::HopOptions hop) {
  ModelFreeReference address = self;
  self->state.hop = must(actors::Hop::open(
      hop,
      [address](DeliveryHandle delivery) {
        caf::anon_send(address, control::deliver_atom_v, std::move(delivery));
      },
      [address] { caf::anon_send(address, control::flush_atom_v); },
      [](const std::string& link, const Error& error) { give_up(link + ": " + error.detail); }));
  return {[self](control::deliver_atom, const DeliveryHandle& delivery) {
            self->state.on_delivery(delivery);
          },
          [self](control::flush_atom) { (void)must(self->state.hop->flush()); }};
}

void reference(const FlowOptions& options, const FlowPipes& pipes, const std::string& next) {
  Node node;
  actors::HopOptions hop = {&node.context,
                            input_of(options, pipes, "rewards->reference"),
                            {link_of(options, "reference->actor_train", next)}};
  auto actor = node.system.spawn(reference_actor, std::move(hop));
  for (;;) ::pause();
}

/// The recorder, in front of a slow disk.
actors::RecorderActor::behavior_type slow_recorder(
    actors::RecorderActor::stateful_pointer<actors::RecorderState> self,
    std::shared_ptr<stream::Writer> writer, double delay_s) {
  self->state.writer = std::move(writer);
  return {[self, delay_s](control::record_atom, const actors::TrajectoryBatch& batch) {
            std::this_thread::sleep_for(
                std::chrono::duration<double>(delay_s * static_cast<double>(batch->size())));
            return self->state.on_trajectories(batch);
          },
          [self](control::record_atom, uint16_t type, const std::string& json) {
            return self->state.on_json(type, json);
          },
          [self](control::flush_atom) { return self->state.on_flush(); },
          [](control::save_atom, const std::string& folder, const actors::TrajectoryBatch& batch) {
            return actors::RecorderState::on_save(folder, batch);
          },
          [](control::load_atom, const std::string& folder) {
            return actors::RecorderState::on_load(folder);
          }};
}

template <class Reply, class... Args>
void ask(caf::scoped_actor& self, const actors::TrainerActor& trainer, double limit_s,
         Args&&... args) {
  self->request(trainer, std::chrono::milliseconds(static_cast<int64_t>(limit_s * 1e3)),
                std::forward<Args>(args)...)
      .receive([](const Reply&) {},
               [](const caf::error& e) { give_up(control::from_caf(e).to_string()); });
}

void trainer(const FlowOptions& options, const FlowPipes& pipes, const std::string&) {
  std::shared_ptr<stream::Writer> writer;
  if (!options.stream.empty())
    writer = std::make_shared<stream::Writer>(
        must(stream::Writer::open(options.stream, {.run_id = "flow"})));
  Node node;
  actors::TrainerOptions front;
  front.context = &node.context;
  front.input = input_of(options, pipes, "->actor_train");
  front.recorder =
      options.record_delay_s > 0
          ? node.system.spawn<caf::detached>(slow_recorder, writer, options.record_delay_s)
          : node.system.spawn<caf::detached>(actors::recorder, writer);
  front.fail = failures();
  auto collector = actors::spawn_trainer(node.system, std::move(front));
  caf::scoped_actor self{node.system};
  const auto kind = k_kind;
  const uint64_t last = options.warm_up_steps + options.steps;
  auto lease = [&](uint64_t step) {
    ask<control::RecordedReport>(
        self, collector, options.limit_s, control::expect_atom_v,
        control::CollectRequest{kind, step, options.groups, options.group_size});
    write_all(pipes.leases_out, &step, sizeof step);
  };
  for (uint64_t step = 1; step <= std::min<uint64_t>(options.steps_ahead, last); ++step)
    lease(step);
  if (options.warm_up_steps == 0) mark(pipes, 'B');
  for (uint64_t step = 1; step <= last; ++step) {
    ask<control::CollectReport>(self, collector, options.limit_s, control::collect_atom_v, kind,
                                step);
    if (options.recorded_at != nullptr) options.recorded_at[step] = now_seconds();
    if (step + options.steps_ahead <= last) lease(step + options.steps_ahead);
    if (step == options.warm_up_steps) mark(pipes, 'B');
  }
  mark(pipes, 'E');
  if (writer) must(writer->close());
  mark(pipes, 'C');
  for (;;) ::pause();
}

}  // namespace

const std::array<FlowRole, k_flow_processes> k_flow_roles = {rollout, rewards, reference, trainer};

std::array<size_t, k_flow_processes - 1> frame_bytes(const FlowOptions& options) {
  std::vector<proto::Trajectory> frame;
  for (uint32_t i = 0; i < options.frame_trajectories; ++i)
    frame.push_back(make_trajectory(options, {k_kind, 1, 0, i}));
  auto size = [&] {
    proto::Encoded encoded = proto::encode_batch(frame);
    return encoded.header.size() + encoded.columns.size_bytes();
  };
  std::array<size_t, k_flow_processes - 1> bytes{};
  bytes[0] = bytes[1] = size();  // a score adds no column
  for (proto::Trajectory& t : frame) fill_reference(t);
  bytes[2] = size();
  return bytes;
}

void write_all(int fd, const void* bytes, size_t size_bytes) {
  const char* from = static_cast<const char*>(bytes);
  while (size_bytes > 0) {
    const ssize_t count = ::write(fd, from, size_bytes);
    if (count <= 0) give_up("a pipe is closed");
    from += count;
    size_bytes -= static_cast<size_t>(count);
  }
}

void tell_endpoint(const FlowPipes& pipes, const std::string& endpoint) {
  const std::string line = endpoint + "\n";
  write_all(pipes.endpoint, line.data(), line.size());
}

void mark(const FlowPipes& pipes, char what) { write_all(pipes.marks, &what, 1); }

}  // namespace cohort::bench
