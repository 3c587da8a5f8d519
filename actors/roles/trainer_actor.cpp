#include "actors/roles/trainer_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "actors/run/run_folder.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/request.hpp"
#include "runtime/plan/flow/collector.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

namespace {

constexpr size_t k_held_out_and_warm = 3;     // rounds beside the steps of the policy
constexpr size_t k_frame_trajectories = 128;  // of a frame to a rank in another process

uint64_t hash_in(const UpdateReport& report) { return report.param_hash; }
uint64_t hash_in(const CheckpointReport& report) { return report.param_hash; }
void take_slowest(UpdateReport& report, const UpdateReport& other) {
  report.compute_seconds = std::max(report.compute_seconds, other.compute_seconds);
}
void take_slowest(CheckpointReport& report, const CheckpointReport& other) {
  report.seconds = std::max(report.seconds, other.seconds);
}
void add_metrics(UpdateReport& report, const UpdateReport& other) {
  report.metrics.insert(report.metrics.end(), other.metrics.begin(), other.metrics.end());
}
void add_metrics(CheckpointReport&, const CheckpointReport&) {}

void set_mask(proto::Trajectory& t, const std::string& reason) {
  t.mask_reason = reason;
  t.score = 0;
}

/// In the place of a trajectory that nobody plays.
proto::Trajectory masked_trajectory(const MaskRequest& request, uint32_t index) {
  proto::Trajectory t;
  t.run_id = request.run_id;
  t.key = {request.kind, request.step, request.group, index};
  t.attempt = request.attempt;
  t.tag = request.tag;
  t.seed = request.seed;
  t.prompt_id = request.prompt_id;
  t.weight_version_min = t.weight_version_max = request.version;
  t.stop_reason = "quarantined";
  t.mask_reason = request.reason;
  return t;
}

/// Returns what hands an error on.
auto failure_to(caf::typed_response_promise<CheckpointReport> promise) {
  return [promise](caf::error& e) mutable { promise.deliver(std::move(e)); };
}

}  // namespace

class TrainerState {
 public:
  static inline const char* name = "trainer";
  explicit TrainerState(TrainerActor::pointer self) : self_(self) {}
  Expected<void> open(TrainerOptions options) {
    options_ = std::move(options);
    collector_ = plan::Collector(k_held_out_and_warm + 1 + options_.staleness_bound);
    FailureSink fail = options_.fail;
    for (const TrainRank& rank : options_.ranks) {
      batches_.emplace_back();
      if (rank.worker) continue;
      std::string label = rank.batches.name;
      COHORT_ASSIGN(batches_.back(),
                    transport::Sender::open(
                        *options_.context, rank.batches, [fail, label](const Error& error) {
                          fail(control::failure_of_link("actor_train", label, error));
                        }));
    }
    COHORT_ASSIGN(input_, open_input(*options_.context, options_.input, "actor_train",
                                     TrainerActor{self_}, options_.fail));
    return {};
  }
  void on_delivery(const DeliveryHandle& delivery) {
    failpoint::hit("trainer.delivery");
    auto decoded = decode_frame(delivery->message);
    if (!decoded) return options_.fail({"actor_train", "collect", decoded.error().to_string()});
    auto fresh = std::make_shared<std::vector<proto::Trajectory>>();
    for (proto::Trajectory& t : *decoded) {
      TrajectoryKey key{t.key.kind, t.key.step, t.key.group, t.key.index};
      plan::Verdict verdict = collector_.offer(key, t.attempt);
      if (verdict == plan::Verdict::accepted)
        fresh->push_back(std::move(t));
      else
        log::warn("collector: {} is {}", plan::to_text(key), plan::to_string(verdict));
    }
    // FLOW-2: only after the stream has it does the acknowledgement start its way back.
    record(fresh, [this, fresh, delivery] {
      failpoint::hit("trainer.recorded");
      delivery->ack();
      keep(fresh);
    });
  }
  caf::result<control::RecordedReport> on_expect(const CollectRequest& request) {
    const plan::StepKey key{request.kind, request.step};
    const bool is_more = !request.in_place.empty();
    auto opened = is_more ? collector_.extend_step(key, request.in_place)
                          : collector_.open_step(key, request.groups, request.group_size);
    if (!opened) return to_caf(opened.error());
    Step& step = steps_[key];
    step.group_size = request.group_size;
    if (is_more) return RecordedReport{};
    for (proto::Trajectory& t : restored_[key])
      if (collector_.offer({t.key.kind, t.key.step, t.key.group, t.key.index}) ==
          plan::Verdict::accepted)
        step.trajectories.push_back(std::move(t));
    restored_.erase(key);
    return report_of(step);
  }
  caf::result<control::CollectReport> on_collect(TrajectoryKind kind, uint64_t step_number) {
    auto step = steps_.find({kind, step_number});
    if (step == steps_.end())
      return to_caf(
          {Errc::not_found, fmt::format("collect of step {} before expect", step_number)});
    step->second.waiting = self_->make_response_promise<CollectReport>();
    step->second.has_waiting = true;
    auto promise = step->second.waiting;
    maybe_complete(step->first, step->second);
    return promise;
  }
  caf::result<control::SiftReport> on_sift(TrajectoryKind kind, uint64_t step_number,
                                           uint32_t known) {
    auto step = steps_.find({kind, step_number});
    if (step == steps_.end())
      return to_caf({Errc::not_found, fmt::format("sift of step {} before expect", step_number)});
    step->second.sifting = self_->make_response_promise<SiftReport>();
    step->second.known = known;
    auto promise = *step->second.sifting;
    answer_sift(step->second, false);
    return promise;
  }
  caf::result<control::RecordedReport> on_recorded_asked(TrajectoryKind kind,
                                                         uint64_t step_number) {
    auto step = steps_.find({kind, step_number});
    if (step == steps_.end())
      return to_caf({Errc::not_found,
                     fmt::format("step {} of kind {} is over", step_number, to_string(kind))});
    return report_of(step->second);
  }
  caf::result<bool> on_mask(const MaskRequest& request) {
    const plan::StepKey key{request.kind, request.step};
    auto step = steps_.find(key);
    if (step == steps_.end())
      return to_caf({Errc::not_found, fmt::format("mask in step {} before expect", request.step)});
    step->second.masks[request.group] = request.reason;
    auto masked = std::make_shared<std::vector<proto::Trajectory>>();
    std::vector<proto::Trajectory>& here = step->second.trajectories;
    auto rest = std::stable_partition(here.begin(), here.end(), [&](const proto::Trajectory& t) {
      return t.key.group != request.group || !t.mask_reason.empty();
    });
    for (auto it = rest; it != here.end(); ++it) {
      set_mask(*it, request.reason);
      masked->push_back(std::move(*it));
    }
    here.erase(rest, here.end());
    step->second.counts[request.group] -= static_cast<uint32_t>(masked->size());
    for (uint32_t index = 0; index < step->second.group_size; ++index) {
      TrajectoryKey place{request.kind, request.step, request.group, index};
      if (collector_.offer(place, request.attempt) != plan::Verdict::accepted) continue;
      masked->push_back(masked_trajectory(request, index));
    }
    auto promise = self_->make_response_promise<bool>();
    record(masked, [this, masked, promise]() mutable {
      keep(masked);
      promise.deliver(true);
    });
    return promise;
  }
  caf::result<control::UpdateReport> on_update(const UpdateRequest& request) {
    // FLOW-1: closing hands the step over once; what goes to the engine leaves the collector.
    auto closed = collector_.close_step({request.kind, request.step});
    if (!closed) return to_caf(closed.error().with_context("update"));
    auto step = steps_.find({request.kind, request.step});
    answer_sift(step->second, true);
    const std::set<uint32_t> left_out = std::move(step->second.left_out);
    auto batch =
        std::make_shared<std::vector<proto::Trajectory>>(std::move(step->second.trajectories));
    steps_.erase(step);
    // What was played in the place of others takes their place in the optimizer's batches, too.
    std::erase_if(*batch, [&](const auto& t) {
      return left_out.contains(t.key.group) || proto::is_left_out(t);
    });
    if (request.kind == TrajectoryKind::train)
      if (auto fresh = check_staleness(*batch, request.next_version - 1, options_.staleness_bound);
          !fresh)
        return to_caf(fresh.error());
    UpdateRequest order = request;
    order.trajectories = batch->size();
    auto agreed = agreement(fmt::format("update of step {}", request.step),
                            self_->make_response_promise<UpdateReport>());
    for (size_t rank = 0; rank < options_.ranks.size(); ++rank) {
      if (auto sent = send_batch(rank, *batch); !sent) return to_caf(sent.error());
      ask(rank, agreed, order, TrajectoryBatch(batch));
    }
    return agreed->promise;
  }
  // What is in the stream of later steps goes into the checkpoint: a resumed run trains on it.
  caf::result<control::CheckpointReport> on_save(const CheckpointRequest& request) {
    auto promise = self_->make_response_promise<CheckpointReport>();
    auto ahead = std::make_shared<std::vector<proto::Trajectory>>();
    for (const auto& [key, step] : steps_)
      if (key.kind == TrajectoryKind::train && key.step > request.step)
        ahead->insert(ahead->end(), step.trajectories.begin(), step.trajectories.end());
    const std::string what = fmt::format("checkpoint of step {}", request.step);
    auto save = [this, request, what, promise](bool) {
      checkpoint(save_atom_v, request, what, promise);
    };
    if (ahead->empty())
      save(true);
    else
      send_request(self_, options_.recorder, std::chrono::milliseconds(options_.record_timeout_ms),
                   save, failure_to(promise), save_atom_v, ahead_beside(request.folder),
                   TrajectoryBatch(ahead));
    return promise;
  }
  caf::result<control::CheckpointReport> on_load(const CheckpointRequest& request) {
    auto promise = self_->make_response_promise<CheckpointReport>();
    send_request(
        self_, options_.recorder, std::chrono::milliseconds(options_.record_timeout_ms),
        [this, request, promise](const TrajectoryBatch& ahead) {
          restored_.clear();
          for (proto::Trajectory& t : *ahead)
            restored_[{t.key.kind, t.key.step}].push_back(std::move(t));
          checkpoint(load_atom_v, request, fmt::format("load of {}", request.folder), promise);
        },
        failure_to(promise), load_atom_v, ahead_in(request.folder));
    return promise;
  }

 private:
  /// What all ranks are asked at once. The first error is the answer; without one it is the first
  /// rank's report, if all ranks of a role have the same parameters. Other roles add metrics.
  template <class Report>
  struct Agreement {
    std::string what;
    std::vector<Report> reports;  // by rank
    size_t missing = 0;
    bool is_over = false;
    caf::typed_response_promise<Report> promise;
  };
  template <class Report, class... Args>
  void ask(size_t rank, const std::shared_ptr<Agreement<Report>>& agreement, const Args&... args) {
    auto then = [this, rank, agreement](const Report& report) {
      agreement->reports[rank] = report;
      if (agreement->is_over || --agreement->missing > 0) return;
      agreement->is_over = true;
      Report& first = agreement->reports.front();
      size_t lead = 0;  // of the rank's role
      for (size_t i = 1; i < agreement->reports.size(); ++i) {
        Report& each = agreement->reports[i];
        if (options_.ranks[i].role != options_.ranks[lead].role) {
          lead = i;
          add_metrics(first, each);
        }
        const uint64_t hash = hash_in(agreement->reports[lead]);
        if (hash_in(each) != hash) {
          agreement->promise.deliver(
              to_caf({Errc::internal,
                      fmt::format("{}: rank {} (card {}) has parameters {:016x}, rank {} {:016x}",
                                  agreement->what, i, options_.ranks[i].card.value, hash_in(each),
                                  lead, hash)}));
          return;
        }
        take_slowest(first, each);
      }
      agreement->promise.deliver(first);
    };
    auto failed = [agreement](caf::error& e) {
      if (std::exchange(agreement->is_over, true)) return;
      agreement->promise.deliver(std::move(e));
    };
    auto limit = std::chrono::milliseconds(options_.compute_timeout_ms);
    const TrainRank& to = options_.ranks[rank];
    if constexpr (std::is_same_v<Report, UpdateReport>) {
      if (to.worker)
        send_request(self_, to.worker, limit, then, failed, update_atom_v, args...);
      else
        send_request(self_, to.remote, limit, then, failed, update_atom_v,
                     std::get<0>(std::tie(args...)));
    } else if (to.worker) {
      send_request(self_, to.worker, limit, then, failed, args...);
    } else {
      send_request(self_, to.remote, limit, then, failed, args...);
    }
  }
  template <class Report>
  std::shared_ptr<Agreement<Report>> agreement(std::string what,
                                               caf::typed_response_promise<Report> promise) {
    auto result = std::make_shared<Agreement<Report>>();
    result->what = std::move(what);
    result->reports.resize(options_.ranks.size());
    result->missing = options_.ranks.size();
    result->promise = std::move(promise);
    return result;
  }
  template <class Atom>
  void checkpoint(Atom atom, const CheckpointRequest& request, std::string what,
                  caf::typed_response_promise<CheckpointReport> promise) {
    auto agreed = agreement(std::move(what), std::move(promise));
    for (size_t rank = 0; rank < options_.ranks.size(); ++rank) ask(rank, agreed, atom, request);
  }
  // The link's queue holds a step (RoleSpawner::link), so nothing is left to be sent again.
  Expected<void> send_batch(size_t rank, const std::vector<proto::Trajectory>& batch) {
    if (batches_[rank] == nullptr) return {};
    for (size_t first = 0; first < batch.size(); first += k_frame_trajectories) {
      size_t count = std::min(k_frame_trajectories, batch.size() - first);
      proto::Encoded encoded = proto::encode_batch(std::span(batch).subspan(first, count));
      auto sent = batches_[rank]->send(
          {k_message_trajectories, std::move(encoded.header), encoded.columns});
      if (!sent) return sent.error().with_context(options_.ranks[rank].batches.name);
    }
    return {};
  }
  struct Step {
    uint32_t group_size = 0;
    std::vector<proto::Trajectory> trajectories;  // recorded
    std::map<uint32_t, std::string> masks;        // reason by group that is not played
    std::map<uint32_t, uint32_t> counts;          // of recorded trajectories, by group
    std::set<uint32_t> left_out;                  // groups without a signal, recorded as such
    std::map<uint32_t, algorithms::GroupVerdict> verdicts;  // by group
    std::optional<caf::typed_response_promise<control::SiftReport>> sifting;
    uint32_t known = 0;  // to who asked
    caf::typed_response_promise<control::CollectReport> waiting;
    bool has_waiting = false;
  };
  static RecordedReport report_of(const Step& step) {
    RecordedReport report;
    for (const proto::Trajectory& t : step.trajectories)
      report.trajectories.emplace_back(t.key.group, t.key.index);
    return report;
  }
  void record(const std::shared_ptr<std::vector<proto::Trajectory>>& batch,
              std::function<void()> then) {
    send_request(
        self_, options_.recorder, std::chrono::milliseconds(options_.record_timeout_ms),
        [then = std::move(then)](uint64_t) { then(); },
        [this](caf::error& e) { options_.fail(failure_of(Role::actor_train, "record", e)); },
        record_atom_v, TrajectoryBatch(batch));
  }
  void keep(const TrajectoryBatch& batch) {
    auto again = std::make_shared<std::vector<proto::Trajectory>>();
    for (proto::Trajectory& t : *batch) {
      plan::StepKey key{t.key.kind, t.key.step};
      auto step = steps_.find(key);
      if (step == steps_.end()) continue;
      auto mask = step->second.masks.find(t.key.group);
      if (mask != step->second.masks.end() && t.mask_reason.empty()) {
        set_mask(t, mask->second);
        again->push_back(std::move(t));
        continue;
      }
      const uint32_t group = t.key.group;
      step->second.trajectories.push_back(std::move(t));
      if (++step->second.counts[group] == step->second.group_size) judge(key, step->second, group);
      maybe_complete(key, step->second);
    }
    if (!again->empty()) record(again, [this, again] { keep(again); });
  }
  /// All of the group is recorded. Without a signal it is recorded again, as left out; it counts
  /// once it is there. What a reward has failed on keeps its reason.
  void judge(plan::StepKey key, Step& step, uint32_t group) {
    if (!options_.sieve || key.kind != TrajectoryKind::train) return;
    std::vector<const proto::Trajectory*> members;
    for (const proto::Trajectory& t : step.trajectories)
      if (t.key.group == group) members.push_back(&t);
    const GroupSieve::Verdict verdict = options_.sieve->judge(members);
    step.verdicts[group] = verdict.verdict;
    if (verdict.reason.empty()) return;
    auto marked = std::stable_partition(step.trajectories.begin(), step.trajectories.end(),
                                        [group](const proto::Trajectory& t) {
                                          return t.key.group != group || !t.mask_reason.empty();
                                        });
    auto again = std::make_shared<std::vector<proto::Trajectory>>();
    std::move(marked, step.trajectories.end(), std::back_inserter(*again));
    step.trajectories.erase(marked, step.trajectories.end());
    for (proto::Trajectory& t : *again)
      t.mask_reason = fmt::format("{}{}", proto::k_left_out, verdict.reason);
    if (again->empty()) {  // every reward of it has failed: that is in the stream
      step.left_out.insert(group);
      return answer_sift(step, false);
    }
    record(again, [this, again, key, group] {
      auto found = steps_.find(key);
      if (found == steps_.end()) return;
      found->second.left_out.insert(group);
      std::ranges::move(*again, std::back_inserter(found->second.trajectories));
      answer_sift(found->second, false);
      maybe_complete(key, found->second);
    });
  }
  void answer_sift(Step& step, bool is_over) {
    if (!step.sifting || (!is_over && step.left_out.size() <= step.known)) return;
    auto promise = *std::exchange(step.sifting, std::nullopt);
    promise.deliver(SiftReport{{step.left_out.begin(), step.left_out.end()}});
  }
  void maybe_complete(plan::StepKey key, Step& step) {
    // Complete means recorded: what the collector has accepted may still be on its way to the
    // stream.
    if (!step.has_waiting || !collector_.is_step_complete(key) ||
        step.trajectories.size() != collector_.progress(key).second)
      return;
    // Arrival order depends on timing; training must not (docs/architecture.md, Determinism).
    std::sort(step.trajectories.begin(), step.trajectories.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    CollectReport report;
    report.step = key.step;
    report.trajectories = step.trajectories.size();
    for (const proto::Trajectory& t : step.trajectories) report.tokens += t.tokens.size();
    report.metrics = options_.is_supervised ? row_metrics(step.trajectories)
                                            : rollout_metrics(step.trajectories);
    if (!options_.is_supervised) report.success = success_by_tag(step.trajectories);
    if (options_.sieve && key.kind == TrajectoryKind::train)
      for (auto& number : filter_metrics(step.verdicts))
        report.metrics.push_back(std::move(number));
    report.left_out.assign(step.left_out.begin(), step.left_out.end());
    step.has_waiting = false;
    auto waiting = step.waiting;
    // Held-out trajectories are in the stream and counted: nobody trains on them. Of rows the loss
    // is still to be told.
    auto kind = key.kind;
    const bool is_held_out = kind == TrajectoryKind::val || kind == TrajectoryKind::val_greedy;
    if (is_held_out && !options_.is_supervised) {
      COHORT_CHECK(collector_.close_step(key).has_value(), "FLOW-1: a complete step closes");
      steps_.erase(key);
    }
    waiting.deliver(report);
  }

  TrainerActor::pointer self_;
  TrainerOptions options_;
  std::unique_ptr<transport::Receiver> input_;
  std::vector<std::unique_ptr<transport::Sender>> batches_;  // by rank; null: in this process
  plan::Collector collector_;
  std::map<plan::StepKey, Step> steps_;
  std::map<plan::StepKey, std::vector<proto::Trajectory>> restored_;  // of steps not open yet
};

namespace {

TrainerActor::behavior_type trainer(TrainerActor::stateful_pointer<TrainerState> self,
                                    TrainerOptions options) {
  open_or_quit(self, "actor_train", std::move(options));
  TrainerState* state = &self->state;
  return {
      [state](deliver_atom, const DeliveryHandle& delivery) { state->on_delivery(delivery); },
      [state](expect_atom, const CollectRequest& request) { return state->on_expect(request); },
      [state](collect_atom, TrajectoryKind kind, uint64_t step) {
        return state->on_collect(kind, step);
      },
      [state](recorded_atom, TrajectoryKind kind, uint64_t step) {
        return state->on_recorded_asked(kind, step);
      },
      [state](sift_atom, TrajectoryKind kind, uint64_t step, uint32_t known) {
        return state->on_sift(kind, step, known);
      },
      [state](mask_atom, const MaskRequest& request) { return state->on_mask(request); },
      [state](update_atom, const UpdateRequest& request) { return state->on_update(request); },
      [state](save_atom, const CheckpointRequest& request) { return state->on_save(request); },
      [state](load_atom, const CheckpointRequest& request) { return state->on_load(request); },
  };
}

}  // namespace

TrainerActor spawn_trainer(caf::actor_system& system, TrainerOptions options) {
  return system.spawn(trainer, std::move(options));
}

}  // namespace cohort::actors
