#pragma once
/// Driver: executes the commands of Run. One thread; the head's.
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tools/cohort-sim/sim_placement.hpp"

namespace cohort::sim {

using namespace plan::run;

inline constexpr uint64_t k_prompts = 60;  // in the data

class SimDriver {
 public:
  SimDriver(HeadParts& parts, SimTrainer& trainer, SimPlacement& placement,
            std::function<void(const plan::member::Event&)> to_node, uint32_t attempt,
            std::map<uint32_t, SlotHandle> players)
      : parts_(parts),
        trainer_(trainer),
        placement_(placement),
        to_node_(std::move(to_node)),
        run_(options_of(parts, attempt)),
        players_(std::move(players)) {}
  void tell(const Event& event) {
    for (const Command& command : run_.on(event, parts_.now()))
      std::visit([this](const auto& each) { obey(each); }, command);
    run_.assert_invariants();
  }
  void on_lost(const plan::member::TellLost& lost, const std::vector<uint32_t>& cards) {
    tell(CardsLost{cards, lost.text, lost.is_away});
  }
  void on_back(const std::vector<SlotHandle>& processes) {
    CardsBack back;
    for (const SlotHandle& process : processes) {
      const uint32_t card = process.slot + 1;
      if (parts_.job.is_reference(process.slot)) {
        back.references.push_back(card);
        continue;
      }
      players_[card] = process;
      back.rollouts.push_back(card);
    }
    tell(back);
  }

 private:
  static RunOptions options_of(const HeadParts& parts, uint32_t attempt) {
    const Job& job = parts.job;
    RunOptions options;
    if (parts.disk.checkpoint())
      options.start = job.has_reference && parts.disk.first() ? RunOptions::Start::resumed_frozen
                                                              : RunOptions::Start::resumed;
    options.steps = job.steps;
    options.eval_steps = job.eval_every;
    options.save_steps = job.save_every;
    options.warm_steps = options.warm_rounds = job.warm_rounds;
    options.warm_batch = Job::k_warm_batch;
    options.group_size = job.group_size;
    options.val_group_size = 2;
    options.steps_ahead = job.steps_ahead;
    options.is_flowing = job.is_flowing;
    options.is_scheduled = job.is_scheduled;
    options.depth = job.depth;
    options.gen_batches_max = job.gen_batches_max;
    options.attempt = attempt;
    for (uint32_t replica = 0; replica < job.replicas; ++replica)
      options.cards.push_back(1 + replica * job.tensor_parallel);
    options.running_max = job.running_max;
    options.stragglers = {job.replicas > 1 ? job.straggler_factor : 0, job.straggler_floor_s};
    options.group_timeout_s = job.group_timeout_s;
    options.verdict_wait_s = job.limits.verdict_s;
    options.quarantined = parts.disk.quarantined;
    options.plant = machine_plant(parts.stage.plant);
    return options;
  }
  void obey(const BeginPhase& phase) {
    parts_.mail(Actor::placement, [this, phase] {
      placement_.ask({phase.step, phase.kind, phase.version},
                     [this](const Expected<plan::PhaseReport>& report) {
                       if (!report) return failed("placement", report.error());
                       PhaseDone done{report->kind, {}};
                       for (const plan::DoneCommand& each : report->transitions)
                         if (report->kind == plan::PhaseKind::publish &&
                             each.command.verb == plan::Command::Verb::reshard &&
                             each.command.role == k_rollout_role)
                           done.served.push_back(each.command.card.value);
                       tell_later(done);
                     });
    });
  }
  void obey(const AskTasks& ask) {
    TasksReady ready{ask.round, {}};
    const bool is_held_out = ask.round.kind == Kind::val || ask.round.kind == Kind::val_greedy;
    const uint32_t count = ask.round.kind == Kind::warm_start ? ask.count
                           : is_held_out                      ? parts_.job.eval_groups
                                                              : parts_.job.groups;
    for (const plan::Refill::Next& next : ask.in_place) {
      const uint64_t row = (7 + ask.round.step * count + next.group) % k_prompts;
      ready.tasks.push_back({"task", row, fmt::format("t{}", row), next.lane});
      ready.in_place.push_back(next.group);
    }
    for (uint32_t group = 0; group < count && ask.in_place.empty(); ++group) {
      const uint64_t row = (ask.round.step * count + group) % k_prompts;
      ready.tasks.push_back({"task", row, fmt::format("{}{}", is_held_out ? "v" : "t", row),
                             parts_.job.lane_of(group)});
    }
    tell_later(std::move(ready));
  }
  void obey(const OpenRound& open) {
    to_trainer([this, open] {
      auto opened =
          open.in_place.empty()
              ? trainer_.expect(open.round.kind, open.round.step, open.groups, open.group_size)
              : trainer_.expect_too(open.round.kind, open.round.step, open.in_place);
      if (!opened) return failed(k_train_role, opened.error());
      RoundOpened told{open.round, {}};
      if (open.in_place.empty())
        told.trajectories = *trainer_.recorded(open.round.kind, open.round.step);
      tell_later(std::move(told));
    });
  }
  void obey(const Lease& lease) {
    parts_.ask(
        players_.at(card_of(lease.replica)),
        [this, lease](SimCard& card, const HeadParts::Tell& back) {
          card.rollout()->on_lease(lease, [=, this](const Expected<LeaseEnded>& ended) {
            back([=, this] {
              ended ? tell(*ended) : tell(LeaseFailed{lease.number, ended.error()});
            });
          });
        },
        [this, number = lease.number] {
          tell(LeaseFailed{number, Error{Errc::closed, "its process is gone"}});
        });
  }
  void obey(const Cancel& cancel) {
    parts_.cluster.cancel(players_.at(card_of(cancel.replica)), cancel);
  }
  void obey(const Ping& ping) {
    parts_.ask(players_.at(card_of(ping.replica)),
               [this, number = ping.number](SimCard& card, const HeadParts::Tell& back) {
                 back([this, pong = Pong{number, card.rollout()->on_ping()}] { tell(pong); });
               });
  }
  void obey(const Collect& collect) {
    to_trainer([this, round = collect.round] {
      trainer_.collect(round.kind, round.step, [this, round](const auto& whole) {
        whole ? tell_later(Collected{round, whole->first, whole->second})
              : failed(k_train_role, whole.error());
      });
    });
  }
  void obey(const Sift& sift) {
    to_trainer([this, sift] {
      trainer_.sift(sift.round.kind, sift.round.step, sift.known,
                    [this, round = sift.round](std::vector<uint32_t> left_out) {
                      tell_later(Sifted{round, std::move(left_out)});
                    });
    });
  }
  void obey(const AskRecorded& ask) {
    to_trainer([this, ask] {
      auto all = trainer_.recorded(ask.round.kind, ask.round.step);
      Recorded recorded{ask.question, !all.has_value(), {}};
      if (all) recorded.trajectories = std::move(*all);
      tell_later(std::move(recorded));
    });
  }
  void obey(const Mask& mask) {
    to_trainer([this, mask] {
      trainer_.mask(
          mask.round.kind, mask.round.step, mask.group, mask.version,
          [this, mask](const Expected<void>& done) {
            done ? tell_later(Masked{mask.round, mask.group}) : failed(k_train_role, done.error());
          });
    });
  }
  void obey(const Update& update) {
    to_trainer([this, update] {
      trainer_.update(update.round.kind, update.round.step, update.next_version,
                      [this, update](const Expected<void>& done) {
                        done ? tell_later(Updated{update.round})
                             : failed(k_train_role, done.error());
                      });
    });
  }
  void obey(const Flush&) {
    parts_.disk.append(parts_.self, {}, [this](bool is_written) {
      is_written ? tell(Flushed{})
                 : tell(CommandFailed{"recorder", Error{Errc::io, "the disk is full"}});
    });
  }
  void obey(const Save& save) {
    to_trainer([this, save] {
      trainer_.in_worker([this, save](uint64_t parameters, const std::function<void()>& is_over) {
        parts_.disk.save(
            parts_.self, {save.cursor, parameters, trainer_.ahead_of(save.cursor.step)},
            [this, save, is_over](bool is_saved) {
              is_over();
              if (!is_saved) return failed(k_train_role, Error{Errc::io, "the disk is full"});
              parts_.stage.world.note("saved", save.cursor.step, save.cursor.version);
              tell_later(Saved{});
              if (parts_.disk.first())
                parts_.mail(Actor::node, [this] { to_node_(plan::member::FirstPolicySaved{}); });
            });
      });
    });
  }
  void obey(const Load& load) {
    to_trainer([this, load] {
      const Checkpoint& from = load.is_first ? *parts_.disk.first() : *parts_.disk.checkpoint();
      trainer_.in_worker([this, from](uint64_t, const std::function<void()>& is_over) {
        parts_.stage.world.note("loads", from.cursor.step, from.cursor.version);
        trainer_.load(from.parameters, from.ahead);
        is_over();
        tell_later(Loaded{from.cursor});
      });
    });
  }
  void obey(const Judge& judge) {
    parts_.mail(Actor::node, [this, judge] {
      to_node_(plan::member::Judged{judge.card - 1, judge.judgement, judge.text});
    });
  }
  void obey(const Quarantine& quarantine) {
    parts_.stage.world.note("quarantines", quarantine.round.step, quarantine.group);
    parts_.disk.quarantined.emplace(quarantine.task.prompt, quarantine.round.step);
  }
  void obey(const Note& note) {
    if (note.kind == "newer_policy") parts_.stage.audit.on_newer_policy();
  }
  void obey(const Prune&) {}
  void obey(const Published& published) {
    parts_.stage.world.note("published", published.step, published.version);
  }
  void obey(const BeginRow&) {}
  void obey(const RoundOver&) {}
  void obey(const EndRow&) {}
  void obey(const WakeAt& wake) {
    parts_.wake(wake.at, [this] { tell(TimePassed{}); });
  }
  void obey(const AnswerLeave& answer) {
    parts_.mail(Actor::node, [this, answer] {
      plan::member::LeaveAnswered told{answer.number, {}};
      if (answer.error.code != Errc::none) told.refusal = answer.error.detail;
      to_node_(told);
    });
  }
  void obey(const End& end) {
    parts_.mail(Actor::node, [this, end] {
      to_node_(plan::member::Over{});
      parts_.cluster.run_over(end, trainer_.parameters());
    });
  }
  /// Runs `what` at the trainer, which calls back here through tell_later().
  void to_trainer(std::function<void()> what) { parts_.mail(Actor::trainer, std::move(what)); }
  void tell_later(Event event) {
    parts_.mail(Actor::driver, [this, event = std::move(event)] { tell(event); });
  }
  void failed(const char* role, const Error& error) { tell_later(CommandFailed{role, error}); }
  uint32_t card_of(uint32_t replica) const { return 1 + replica * parts_.job.tensor_parallel; }

  HeadParts& parts_;
  SimTrainer& trainer_;
  SimPlacement& placement_;
  const std::function<void(const plan::member::Event&)> to_node_;
  Run run_;
  std::map<uint32_t, SlotHandle> players_;  // by card
};

}  // namespace cohort::sim
