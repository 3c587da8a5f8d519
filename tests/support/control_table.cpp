#include "tests/support/control_table.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "actors/node/control_rendezvous.hpp"
#include "runtime/control/network.hpp"

namespace cohort::tests {
namespace {

constexpr int k_limit_ms = 10000;

actors::TableActor::behavior_type keeper(actors::TableActor::pointer,
                                         std::shared_ptr<compute::Rendezvous> table) {
  return {[table](control::table_atom, const control::TableRequest& request) {
    return actors::answer_table(*table, request);
  }};
}

control::SystemOptions network_options() { return {.scheduler_threads = 1, .has_network = true}; }

struct Client {
  control::SystemConfig config{network_options()};
  caf::actor_system system{config};
  std::shared_ptr<compute::Rendezvous> table;
};

}  // namespace

std::shared_ptr<compute::Rendezvous> connect_table(uint16_t port) {
  auto client = std::make_shared<Client>();
  auto actor = control::connect<actors::TableActor>(client->system, {"127.0.0.1", port});
  if (!actor) throw std::runtime_error(actor.error().to_string());
  client->table = actors::control_rendezvous(client->system, *actor, k_limit_ms);
  compute::Rendezvous* table = client->table.get();
  return {std::move(client), table};
}

struct TableKeeper::State {
  std::shared_ptr<compute::Rendezvous> table = compute::Rendezvous::in_process();
  control::SystemConfig config{network_options()};
  caf::actor_system system{config};
  actors::TableActor actor;
  uint16_t port = 0;
};

TableKeeper::TableKeeper() : state_(std::make_unique<State>()) {
  state_->actor = state_->system.spawn(keeper, state_->table);
  state_->port = control::publish(state_->system, state_->actor, {"127.0.0.1", 0}).value();
}

TableKeeper::~TableKeeper() {
  caf::anon_send_exit(state_->actor, caf::exit_reason::user_shutdown);
  state_->actor = nullptr;
}

uint16_t TableKeeper::port() const { return state_->port; }
std::shared_ptr<compute::Rendezvous> TableKeeper::rendezvous() const { return state_->table; }

ForkedTable::ForkedTable() {
  int channel[2] = {};
  if (::pipe(channel) != 0) throw std::runtime_error("pipe");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(98);
    TableKeeper keeper;
    const uint16_t port = keeper.port();
    if (::write(channel[1], &port, sizeof port) != sizeof port) ::_exit(97);
    for (;;) ::pause();
  }
  ::close(channel[1]);
  if (::read(channel[0], &port_, sizeof port_) != sizeof port_)
    throw std::runtime_error("the table's process has died");
  ::close(channel[0]);
}

void ForkedTable::end() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace cohort::tests
