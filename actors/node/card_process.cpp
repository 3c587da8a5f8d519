#include "actors/node/card_process.hpp"

#include <algorithm>

#include "actors/node/control_rendezvous.hpp"

namespace cohort::actors {

using namespace control;

namespace {

class CardProcessState {
 public:
  static inline const char* name = "card_process";
  explicit CardProcessState(CardProcessActor::pointer self) : self_(self) {}
  ~CardProcessState() {
    if (spawner_) spawner_->end_waits("its process ends");
    for (const caf::strong_actor_ptr& role : roles_)
      caf::anon_send_exit(role, caf::exit_reason::user_shutdown);
  }
  void open(CardProcessOptions options) {
    options_ = std::move(options);
    RoleSpawnerOptions spawner;
    spawner.config = &options_.config;
    spawner.plan = &options_.plan;
    spawner.run_id = options_.welcome.run_id;
    spawner.run_attempt = options_.welcome.run_attempt;
    spawner.wires = options_.wires;
    for (uint32_t card : options_.welcome.cards) spawner.cards.push_back({card});
    spawner.rendezvous = control_rendezvous(self_->home_system(), options_.node);
    spawner.attempt = options_.welcome.attempt;
    spawner.run_folder = options_.welcome.run_folder;
    auto node = options_.node;
    spawner.fail = [node](Failure failure) {
      caf::anon_send(node, fail_atom_v, std::move(failure));
    };
    self_->set_down_handler([this](const caf::down_msg&) { on_stop("the run's node is gone"); });
    self_->monitor(options_.node);
    auto opened = RoleSpawner::create(spawner);
    if (!opened) {
      spawner.fail({"process", "start", opened.error().to_string()});
      constexpr std::chrono::milliseconds k_time_to_say_so{200};
      return self_->delayed_send(CardProcessActor{self_}, k_time_to_say_so, stop_atom_v);
    }
    spawner_ = std::move(*opened);
    ProcessReady ready{options_.slot,
                       {},
                       options_.welcome.attempt,
                       caf::actor_cast<caf::strong_actor_ptr>(CardProcessActor{self_})};
    caf::actor_system& system = self_->home_system();
    for (const plan::RoleSpec& role : options_.plan.placement.roles)
      for (CardId card : role.cards) {
        if (std::ranges::find(spawner.cards, card) == spawner.cards.end()) continue;
        roles_.push_back(spawner_->spawn(system, role.role, card));
        ready.roles.push_back(
            {role_of(role.role).value_or(Role::rewards), card.value, roles_.back()});
      }
    self_->send(options_.node, ready_atom_v, ready);
  }
  void on_stop(const std::string& reason) {
    if (!std::exchange(is_over_, true)) options_.on_end(reason);
  }

 private:
  CardProcessActor::pointer self_;
  CardProcessOptions options_;
  std::unique_ptr<RoleSpawner> spawner_;
  std::vector<caf::strong_actor_ptr> roles_;
  bool is_over_ = false;
};

CardProcessActor::behavior_type card_process(
    CardProcessActor::stateful_pointer<CardProcessState> self, CardProcessOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  return {[self](stop_atom) { self->state.on_stop(""); },
          [](ping_atom, uint64_t number) { return number; }};
}

}  // namespace

CardProcessActor spawn_card_process(caf::actor_system& system, CardProcessOptions options) {
  return system.spawn<caf::detached>(card_process, std::move(options));
}

}  // namespace cohort::actors
