#include "actors/roles/trainer_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "actors/roles/batch_views.hpp"
#include "actors/roles/first_facts.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/control/request.hpp"
#include "runtime/plan/flow/collector.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

namespace {

constexpr size_t k_held_out_and_warm = 3;  // rounds beside the steps of the policy

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
    TrainRanksOptions ranks{options_.context, options_.ranks, options_.compute_timeout_ms,
                            [this](const TrajectoryBatch& batch, std::function<void()> then) {
                              record(batch, std::move(then));
                            },
                            options_.fail};
    COHORT_ASSIGN(ranks_, TrainRanks::open(self_, std::move(ranks)));
    COHORT_ASSIGN(input_, open_input(*options_.context, options_.input, "actor_train",
                                     TrainerActor{self_}, options_.fail));
    return {};
  }
  void on_delivery(const DeliveryHandle& delivery) {
    const Wait wait({WaitLevel::call, "the collector", "a frame that it takes in", "its end"});
    failpoint::hit("trainer.delivery");
    const bool is_valued = delivery->message.type == k_message_values;
    auto decoded =
        decode_frame(delivery->message, is_valued ? k_message_values : k_message_trajectories);
    if (!decoded) return options_.fail({"actor_train", "collect", decoded.error().to_string()});
    if (is_valued) {
      delivery->ack();
      return ranks_->on_values(std::move(*decoded));
    }
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
    step->second.wait = Wait({WaitLevel::step, fmt::format("the collector of step {}", step_number),
                              "trajectories", "the last trajectory of its groups"});
    show_progress(step->first, step->second);
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
    const bool is_train = request.kind == TrajectoryKind::train;
    if (is_train && options_.is_record_only) return control::UpdateReport{};
    // What was played in the place of others takes their place in the optimizer's batches, too.
    std::erase_if(*batch, [&](const auto& t) {
      return left_out.contains(t.key.group) || proto::is_left_out(t);
    });
    if (is_train && !options_.takes_any_age)
      if (auto fresh = check_staleness(*batch, request.next_version - 1, options_.staleness_bound);
          !fresh)
        return to_caf(fresh.error());
    return ranks_->update(request, std::move(batch));
  }
  // What is in the stream of later steps goes into the checkpoint: a resumed run trains on it.
  caf::result<control::CheckpointReport> on_save(const CheckpointRequest& request) {
    auto promise = self_->make_response_promise<CheckpointReport>();
    auto ahead = std::make_shared<std::vector<proto::Trajectory>>();
    for (const auto& [key, step] : steps_)
      if (key.kind == TrajectoryKind::train && key.step > request.step)
        ahead->insert(ahead->end(), step.trajectories.begin(), step.trajectories.end());
    auto save = [this, request, promise](bool) { ranks_->save(request, promise); };
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
          ranks_->load(request, promise);
        },
        failure_to(promise), load_atom_v, ahead_in(request.folder));
    return promise;
  }

 private:
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
    Wait wait;  // while it has
  };
  static RecordedReport report_of(const Step& step) {
    RecordedReport report;
    for (const proto::Trajectory& t : step.trajectories)
      report.trajectories.emplace_back(t.key.group, t.key.index);
    return report;
  }
  void record(const TrajectoryBatch& batch, std::function<void()> then) {
    const auto wait = std::make_shared<Wait>(WaitText{
        WaitLevel::link, "the collector",
        fmt::format("{} trajectories in the stream (recorder)", batch->size()), "its answer"});
    send_request(
        self_, options_.recorder, std::chrono::milliseconds(options_.record_timeout_ms),
        [wait, then = std::move(then)](uint64_t) {
          wait->end();
          then();
        },
        [this, wait](caf::error& e) {
          wait->end();
          options_.fail(failure_of(Role::actor_train, "record", e));
        },
        record_atom_v, batch);
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
      step->second.wait.moved();
      maybe_complete(key, step->second);
    }
    for (auto& [key, step] : steps_)
      if (step.has_waiting) show_progress(key, step);
    if (!again->empty()) record(again, [this, again] { keep(again); });
  }
  /// The first group that is not whole says where to look.
  void show_progress(plan::StepKey key, Step& step) {
    const auto [accepted, wanted] = collector_.progress(key);
    uint32_t missing = 0;
    while (step.counts[missing] >= step.group_size) ++missing;
    step.wait.set_where(fmt::format("group {} is not whole, {} of {} are recorded", missing,
                                    step.trajectories.size(), std::max(accepted, wanted)));
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
    if (options_.staleness_bound > 0 && key.kind == TrajectoryKind::train) add_ages(report, key);
    if (options_.is_checked && key.kind == TrajectoryKind::train && key.step == 1)
      answer_facts(step.trajectories, options_.answer_ends).append_to(report.metrics);
    if (!options_.is_supervised && key.kind == TrajectoryKind::train) {
      report.histograms = batch_histograms(step.trajectories);
      report.answer = shown_answer(step.trajectories);
    }
    report.left_out.assign(step.left_out.begin(), step.left_out.end());
    step.has_waiting = false;
    step.wait.end();
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

  /// What the step trains on is so old, and so much of later steps is recorded.
  void add_ages(CollectReport& report, plan::StepKey key) const {
    for (auto& number : staleness_metrics(steps_.at(key).trajectories, key.step - 1))
      report.metrics.push_back(std::move(number));
    size_t queued = 0;
    for (const auto& [other, step] : steps_)
      if (other.kind == TrajectoryKind::train && other.step > key.step)
        queued += step.trajectories.size();
    report.metrics.emplace_back("staleness/queued", static_cast<double>(queued));
  }

  TrainerActor::pointer self_;
  TrainerOptions options_;
  std::unique_ptr<transport::Receiver> input_;
  std::unique_ptr<TrainRanks> ranks_;
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
