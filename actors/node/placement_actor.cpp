#include "actors/node/placement_actor.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/failpoint.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/control/request.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

using namespace control;
namespace phase = plan::phase;

namespace {

class PlacementState {
 public:
  static inline const char* name = "placement";
  explicit PlacementState(PlacementActor::pointer self) : self_(self) {}
  void open(PlacementOptions options) {
    options_ = std::move(options);
    machine_ = plan::PhaseMachine(options_.machine);
  }
  caf::result<control::PhaseReport> on_phase(const PhaseRequest& request) {
    auto promise = self_->make_response_promise<PhaseReport>();
    waiting_.emplace(++asks_, promise);
    carry(machine_.ask(asks_, request, now()));
    return promise;
  }
  void on_lost(const CardsLost& lost) {
    for (uint32_t card : lost.cards)
      std::erase_if(options_.owners,
                    [card](const auto& x) { return x.first.second.value == card; });
    carry(machine_.lost(lost.cards, lost.is_away, now()));
  }
  void on_back(const CardsBack& back) {
    std::vector<plan::PhaseMachine::RoleOnCard> roles;
    for (const RoleHandle& role : back.roles) {
      roles.emplace_back(to_string(role.role), CardId{role.card});
      options_.owners[roles.back()] = caf::actor_cast<CardActor>(role.actor);
    }
    carry(machine_.back(roles, now()));
  }
  void on_watch(uint64_t time) {
    carry(machine_.pass(std::max(now(), std::bit_cast<double>(time))));
  }  // the bits of a double: when it was to come

 private:
  double now() const {
    return std::chrono::duration<double>(self_->clock().now().time_since_epoch()).count();
  }
  void carry(const phase::Orders& orders) {
    for (const phase::Order& order : orders)
      std::visit([this](const auto& each) { execute(each); }, order);
  }
  void execute(const phase::Send& send) {
    const CardCommand& message = send.command;
    const bool is_reshard = message.command.verb == plan::Command::Verb::reshard;
    if (message.stage == PublishStage::commit) {
      if (is_reshard && last_stage_ == PublishStage::exchange)
        failpoint::hit("placement.exchanged");
      failpoint::hit("placement.command");
    }
    last_stage_ = message.stage;
    sent_[message.id] =
        fmt::format("{} on card {} to {}", message.command.role, message.command.card.value,
                    plan::to_string(message.command.verb));
    show_wait();
    auto owner = options_.owners.find({message.command.role, message.command.card});
    if (owner == options_.owners.end())
      return answered(
          message.id,
          machine_.error(message.id, {Errc::not_found, "no actor owns this role on this card"},
                         now()));
    send_request(
        self_, owner->second, std::chrono::milliseconds(options_.command_timeout_ms),
        [this, id = message.id](const CardReply& reply) {
          answered(id, machine_.reply(id, reply, now()));
        },
        [this, id = message.id](caf::error& e) {
          answered(id, machine_.error(id, from_caf(e), now()));
        },
        card_atom_v, message);
  }
  void answered(uint64_t id, const phase::Orders& orders) {
    sent_.erase(id);
    show_wait();
    carry(orders);
  }
  /// The first of those that have not answered, and how many more there are.
  void show_wait() {
    if (sent_.empty()) return wait_.end();
    constexpr size_t k_named = 2;
    std::string what;
    size_t named = 0;
    for (auto each = sent_.begin(); each != sent_.end() && named < k_named; ++each, ++named)
      what += (what.empty() ? "" : ", ") + each->second;
    if (sent_.size() > named) what += fmt::format(" and {} more", sent_.size() - named);
    wait_ = Wait({WaitLevel::role, name, what, "its answer"});
  }
  void execute(const phase::Grant& grant) {
    auto promise = waiting_.extract(grant.ask).mapped();
    send_request(
        self_, options_.recorder, std::chrono::seconds(60),
        [promise, report = grant.report](bool) mutable { promise.deliver(report); },
        [promise](caf::error& e) mutable { promise.deliver(std::move(e)); }, record_atom_v,
        static_cast<uint16_t>(stream::RecordType::phase), record_of(grant));
  }
  void execute(const phase::Deny& denial) {
    waiting_.extract(denial.ask).mapped().deliver(to_caf(denial.error));
  }
  void execute(const phase::Note& note) { log::warn("{}", note.text); }
  void execute(const phase::WakeAt& wake) {
    const auto wait =
        std::chrono::nanoseconds(std::llround(1e9 * std::max(0.0, wake.time - now())));
    self_->delayed_send(PlacementActor{self_}, wait, watch_atom_v,
                        std::bit_cast<uint64_t>(wake.time));
  }
  std::string record_of(const phase::Grant& grant) const {
    nlohmann::json cards = nlohmann::json::array();
    for (const Transition& t : grant.report.transitions)
      cards.push_back({{"card", t.command.card.value},
                       {"role", t.command.role},
                       {"verb", plan::to_string(t.command.verb)},
                       {"object", plan::to_string(t.command.object)},
                       {"to", plan::to_string(t.command.to)},
                       {"planned_bytes", t.command.bytes},
                       {"bytes", t.bytes_on_card},
                       {"moved_bytes", t.bytes_moved},
                       {"start_s", t.start_seconds},
                       {"seconds", t.seconds}});
    return nlohmann::json{{"step", grant.report.step},
                          {"phase", plan::to_string(grant.report.kind)},
                          {"version", grant.version},
                          {"cards", cards},
                          {"process_bytes", machine_.process_bytes()},
                          {"card_peak_bytes", machine_.card_peak_bytes()},
                          {"alarms", grant.report.alarms},
                          {"seconds", grant.report.seconds}}
        .dump();
  }

  PlacementActor::pointer self_;
  PlacementOptions options_;
  plan::PhaseMachine machine_;
  control::PublishStage last_stage_ = control::PublishStage::commit;  // of the last command sent
  std::map<uint64_t, std::string> sent_;  // commands without an answer, as a wait tells them
  Wait wait_;
  uint64_t asks_ = 0;
  std::map<uint64_t, caf::typed_response_promise<control::PhaseReport>> waiting_;  // by number
};

PlacementActor::behavior_type placement(PlacementActor::stateful_pointer<PlacementState> self,
                                        PlacementOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  PlacementState* state = &self->state;
  return {[state](phase_atom, const PhaseRequest& request) { return state->on_phase(request); },
          [state](lost_atom, const CardsLost& lost) { state->on_lost(lost); },
          [state](back_atom, const CardsBack& back) { state->on_back(back); },
          [state](watch_atom, uint64_t time) { state->on_watch(time); }};
}

}  // namespace

PlacementActor spawn_placement(caf::actor_system& system, PlacementOptions options) {
  return system.spawn(placement, std::move(options));
}

}  // namespace cohort::actors
