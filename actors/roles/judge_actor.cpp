#include "actors/roles/judge_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "actors/roles/turn_requests.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/compute/train/weight_folder.hpp"

namespace cohort::actors {

using namespace control;

namespace {

class JudgeState {
 public:
  static inline const char* name = "judge";
  explicit JudgeState(JudgeActor::pointer self) : self_(self) {}
  ~JudgeState() {
    hop_.reset();  // its pump calls back into this state
    if (engine_) engine_->stop();
  }
  Expected<void> open(JudgeOptions options) {
    options_ = std::move(options);
    has_turn_ = !options_.takes_turns;
    reward_ = {options_.name, options_.weight, {}, nullptr, {}};
    const JudgeActor address{self_};
    COHORT_ASSIGN(hop_, open_hop(options_.hop, options_.role, address, options_.fail));
    COHORT_ASSIGN(engine_, options_.open_engine([fail = options_.fail,
                                                 role = options_.role](const Error& error) {
      fail({role, "generation", error.to_string(), error.code == Errc::closed});
    }));
    engine_->start([address](std::vector<compute::TurnOutput> outputs) {
      caf::anon_send(address, outputs_atom_v,
                     std::make_shared<std::vector<compute::TurnOutput>>(std::move(outputs)));
    });
    return {};
  }
  caf::result<CardReply> on_card(const CardCommand& command) {
    using Verb = plan::Command::Verb;
    CardReply reply = reply_to(command);
    const double start = now_seconds();
    Expected<compute::Residency> done = compute::Residency{};
    if (command.command.verb == Verb::onload) {
      done = come(command.command.bytes);
    } else if (command.command.verb == Verb::offload) {
      done = leave();
    }
    if (!done) return to_caf(done.error());
    if (command.command.verb == Verb::begin_phase) {
      if (options_.takes_turns) has_turn_ = command.command.phase == plan::PhaseKind::reference;
      ask();
      read_memory(*options_.card, reply);
      return reply;
    }
    done->seconds = now_seconds() - start;
    ask();
    return reply_with(*options_.card, reply, *done);
  }
  void on_delivery(const DeliveryHandle& delivery) {
    failpoint::hit(options_.role + ".delivery");
    auto batch = hop_->decode(*delivery);
    if (!batch) return options_.fail({options_.role, "judge", batch.error().to_string()});
    const uint64_t id = next_frame_++;
    Frame& frame = frames_[id];
    frame.delivery = delivery;
    frame.trajectories = std::move(*batch);
    for (size_t i = 0; i < frame.trajectories.size(); ++i)
      if (wants(frame.trajectories[i])) question(id, frame, i);
    if (frame.missing == 0) return finish(id);
    ask();
  }
  void on_outputs(const TurnOutputs& outputs) {
    for (const compute::TurnOutput& output : *outputs) {
      const auto found = asked_.find(output.request_id);
      if (found == asked_.end()) continue;
      const Place place = found->second;
      asked_.erase(found);
      take(place, verdict_of(output));
    }
    ask();
  }
  void on_flush() {
    if (auto left = hop_->flush(); !left)
      options_.fail({options_.role, "forward", left.error().to_string()});
  }

 private:
  struct Frame {
    DeliveryHandle delivery;
    std::vector<proto::Trajectory> trajectories;
    std::vector<size_t> judged;
    size_t missing = 0;
  };
  struct Place {
    uint64_t frame = 0;
    size_t index = 0;
  };
  bool wants(const proto::Trajectory& t) const {
    const auto& scorers = options_.prompts->at(t.seed).scorers;
    return t.key.kind != TrajectoryKind::warm_start && t.mask_reason.empty() &&
           std::ranges::find(scorers, options_.name) != scorers.end();
  }
  Expected<std::vector<int32_t>> ids_of(const proto::Trajectory& t) const {
    const JudgeSetup& setup = options_.setup;
    const tasks::RewardRow row = reward_row(t, options_.prompts.get(), *options_.chat);
    std::vector<tasks::ChatMessage> dialogue;
    if (!setup.system.empty()) dialogue.push_back({"system", setup.system});
    dialogue.push_back({"user", setup.prompt.fill(row)});
    COHORT_ASSIGN(std::vector<int32_t> ids, setup.chat->opening(dialogue));
    const auto tokens = static_cast<int64_t>(ids.size());
    if (tokens + setup.max_new_tokens > setup.context)
      return Error{Errc::invalid_argument,
                   fmt::format("llm_judge: the question has {} tokens and a reply {}, the judge "
                               "reads {}",
                               tokens, setup.max_new_tokens, setup.context)};
    return ids;
  }
  void question(uint64_t id, Frame& frame, size_t index) {
    proto::Trajectory& t = frame.trajectories[index];
    frame.judged.push_back(index);
    auto ids = ids_of(t);
    if (!ids) return add_result(reward_, tasks::without_score(ids.error().detail), t);
    compute::TurnRequest request;
    request.request_id = ++last_request_;
    request.append_tokens = std::move(*ids);
    request.kept_tokens = 0;
    request.max_new_tokens = options_.setup.max_new_tokens;
    const std::span<const int32_t> ends = options_.setup.chat->answer_ends();
    request.stop_ids.assign(ends.begin(), ends.end());
    request.sampling = options_.setup.sampling;
    request.rng_key = rng_key_of(options_.seed, t.key);
    request.is_last = true;
    waiting_.push_back(std::move(request));
    places_.push_back({id, index});
    ++frame.missing;
  }
  // As many as may be under way at once.
  void ask() {
    while (has_turn_ && is_on_card_ && !waiting_.empty() &&
           asked_.size() < options_.setup.at_once) {
      const uint64_t id = waiting_.front().request_id;
      if (auto sent = engine_->submit(std::move(waiting_.front())); !sent)
        return options_.fail({options_.role, "generation", sent.error().to_string()});
      asked_[id] = places_.front();
      waiting_.pop_front();
      places_.pop_front();
    }
    if (asked_.empty()) return wait_.end();
    wait_ = Wait({WaitLevel::call, options_.role,
                  fmt::format("{} answers that it judges", asked_.size()), "the end of a reply"});
  }
  tasks::RewardResult verdict_of(const compute::TurnOutput& output) const {
    if (output.stop == compute::TurnStop::error || output.stop == compute::TurnStop::aborted)
      return tasks::without_score("llm_judge: the reply was not finished");
    const std::string reply = options_.setup.tokenizer->decode(output.tokens);
    return plugin::judged(options_.setup.chat->without_end(reply), options_.setup.scale,
                          output.stop == compute::TurnStop::length,
                          static_cast<uint32_t>(options_.setup.max_new_tokens));
  }
  void take(const Place& place, const tasks::RewardResult& result) {
    Frame& frame = frames_.at(place.frame);
    add_result(reward_, result, frame.trajectories[place.index]);
    if (--frame.missing == 0) finish(place.frame);
  }
  void finish(uint64_t id) {
    Frame frame = std::move(frames_.at(id));
    frames_.erase(id);
    for (size_t index : frame.judged) finish_score(frame.trajectories[index], true);
    failpoint::hit(options_.role + ".computed");
    if (auto sent = hop_->forward(std::move(frame.trajectories), frame.delivery); !sent)
      options_.fail({options_.role, "forward", sent.error().to_string()});
  }

  // Weights and cache come and go together: `bytes` are those of both.
  Expected<compute::Residency> come(uint64_t bytes) {
    COHORT_ASSIGN(compute::Residency done, engine_->onload_params());
    if (!has_weights_) {
      COHORT_ASSIGN(const compute::WeightFolder weights,
                    compute::WeightFolder::open(options_.setup.folder));
      COHORT_TRY(weights.check(options_.setup.model, compute::layout_of(options_.setup.model)));
      COHORT_TRY(engine_->load_weights(
          1, [&](const compute::ParameterSpec& spec, int64_t begin, std::span<std::byte> to) {
            weights.read_as(options_.setup.model.dtype, spec.name, begin, to);
          }));
      has_weights_ = true;
    }
    const uint64_t params = engine_->capacity().param_bytes;
    COHORT_ASSIGN(const compute::Residency cache,
                  engine_->init_cache(bytes - std::min(bytes, params)));
    is_on_card_ = true;
    done.bytes_on_card += cache.bytes_on_card;
    done.bytes_moved += cache.bytes_moved;
    return done;
  }
  Expected<compute::Residency> leave() {
    is_on_card_ = false;
    if (options_.takes_turns) has_turn_ = false;
    COHORT_ASSIGN(const compute::Residency cache, engine_->free_cache());
    COHORT_ASSIGN(compute::Residency done, engine_->offload_params());
    done.bytes_on_card += cache.bytes_on_card;
    done.bytes_moved += cache.bytes_moved;
    return done;
  }

  JudgeActor::pointer self_;
  JudgeOptions options_;
  RewardFunction reward_;
  std::map<uint64_t, Frame> frames_;
  uint64_t next_frame_ = 0, last_request_ = 0;
  std::deque<compute::TurnRequest> waiting_;
  std::deque<Place> places_;         // of them
  std::map<uint64_t, Place> asked_;  // by request
  Wait wait_;                        // while replies are under way
  bool has_weights_ = false, is_on_card_ = false, has_turn_ = true;
  std::unique_ptr<Hop> hop_;
  std::unique_ptr<compute::GenerationEngine> engine_;  // last: its threads send to the actor
};

JudgeActor::behavior_type judge(JudgeActor::stateful_pointer<JudgeState> self,
                                JudgeOptions options) {
  const std::string role = options.role;
  open_or_quit(self, role, std::move(options));
  JudgeState* state = &self->state;
  return {
      [state](card_atom, const CardCommand& command) { return state->on_card(command); },
      [state](deliver_atom, const DeliveryHandle& delivery) { state->on_delivery(delivery); },
      [state](outputs_atom, const TurnOutputs& outputs) { state->on_outputs(outputs); },
      [state](flush_atom) { state->on_flush(); },
  };
}

}  // namespace

JudgeActor spawn_judge(caf::actor_system& system, JudgeOptions options) {
  return system.spawn<caf::detached>(judge, std::move(options));
}

}  // namespace cohort::actors
