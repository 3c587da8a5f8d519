#include "tests/support/place_world.hpp"

#include <algorithm>

namespace cohort::test {

using plan::Command;
using plan::Object;
using plan::PhaseKind;
using Verb = Command::Verb;

namespace {
constexpr uint64_t k_checksum = 42;
}

struct World::Run {
  PhaseKind phase = PhaseKind::init;
  std::vector<Command> commands;
  plan::Ledger ledger;
  plan::VersionTable versions;
  uint64_t version = 0;
  bool is_publishing = false;  // kept apart from the ledger, which may be the thing that is wrong
  bool is_published = false;
  std::vector<Step> steps = {};
};

World::World(plan::PlacementPlan plan, plan::OffloadPolicy policy, Defects defects)
    : plan_(std::move(plan)), policy_(policy), defects_(defects) {
  for (size_t role = 0; role < plan_.roles.size(); ++role)
    for (CardId card : plan_.roles[role].cards) {
      Agent agent{role, card, {}, {}};
      for (const auto& [object, bytes] : plan_.roles[role].bytes_per_card) {
        agent.objects.push_back(object);
        agent.bytes.push_back(bytes);
      }
      agents_.push_back(std::move(agent));
    }
  intern(Boundary{
      plan::Ledger{plan_.mode, plan_.cards}, plan::VersionTable{}, 0, {}, false, false, {}});
}

uint32_t World::agent_of(const std::string& role, CardId card) const {
  for (uint32_t i = 0; i < agents_.size(); ++i)
    if (agents_[i].card == card && plan_.roles[agents_[i].role].role == role) return i;
  return 0;
}

std::string World::build() {
  for (size_t from = 0; from < boundaries_.size() && refusal_.empty(); ++from)
    for (PhaseKind phase : plan::k_phases) {
      Edge edge;
      Boundary next;
      if (!extend(from, phase, edge, next)) continue;
      edge.to = intern(std::move(next));
      boundaries_[from].edges.push_back(std::move(edge));
    }
  return refusal_;
}

/// A driver publishes only if someone trains and someone takes the weights.
bool World::is_askable(PhaseKind phase) const {
  if (phase == PhaseKind::publish)
    return plan_.owner_of(Object::train_params) &&
           (plan_.owner_of(Object::infer_params) || plan_.owner_of(Object::ref_params));
  return phase != PhaseKind::reference || plan_.owner_of(Object::ref_params);
}

bool World::extend(size_t from, PhaseKind phase, Edge& edge, Boundary& next) {
  if (!is_askable(phase)) return false;
  const Boundary& boundary = boundaries_[from];
  auto commands = plan::commands_for(plan_, boundary.ledger, phase, policy_);
  if (!commands) {
    if (commands.error().code != Errc::protocol) refusal_ = commands.error().to_string();
    return false;
  }
  auto is_reshard = [](const Command& x) { return x.verb == Verb::reshard; };
  if (phase == PhaseKind::publish && std::ranges::none_of(*commands, is_reshard))
    return false;  // only a reference takes weights, and it has them: nothing to publish
  break_plan(*commands);
  Run run{phase,
          std::move(*commands),
          boundary.ledger,
          boundary.versions,
          boundary.version,
          boundary.is_publishing};
  if (phase == PhaseKind::publish) ++run.version;
  for (const Command& command : run.commands)
    if (!drive(run, command)) return false;
  if (!finish(run)) return false;
  edge = {phase, std::move(run.steps), 0};
  next.ledger = std::move(run.ledger);
  next.versions = std::move(run.versions);
  next.version = run.version;
  next.granted = phase;
  next.is_publishing = run.is_publishing;
  next.serves_current = next.versions.is_servable({run.version});
  return true;
}

void World::break_plan(std::vector<Command>& commands) const {
  auto to_front = [&](Verb verb) {
    std::stable_partition(commands.begin(), commands.end(),
                          [&](const Command& x) { return x.verb == verb; });
  };
  if (defects_.cache_before_offload) to_front(Verb::init_cache);
  if (defects_.begins_first) to_front(Verb::begin_phase);
  if (defects_.keeps_train_params)
    std::erase_if(commands, [](const Command& x) {
      return x.verb == Verb::offload && x.object == Object::train_params &&
             x.phase == PhaseKind::generate;
    });
}

/// Returns true if placement must stop: the refusal is kept.
bool World::refused(const Expected<void>& result) {
  if (result || defects_.is_ledger_blind) return false;
  refusal_ = result.error().to_string();
  return true;
}

Step World::make_step(const Run& run, const Command& command) {
  Step step{command, agent_of(command.role, command.card)};
  auto found = std::ranges::find(commands_, command);
  step.command_index = static_cast<uint32_t>(found - commands_.begin());
  if (found == commands_.end()) commands_.push_back(command);
  step.is_publishing = run.is_publishing;
  step.serves_current = run.versions.is_servable({run.version});
  return step;
}

/// As placement's next(), the answer and apply(): one command, acknowledged as predicted.
bool World::drive(Run& run, const Command& command) {
  auto move = plan::transition_of(command);
  if (move) {
    if (refused(run.ledger.begin(*move))) return false;
    if (!defects_.is_ledger_blind) run.ledger.assert_invariants();
  }
  if (command.verb == Verb::begin_phase) {
    if (refused(run.ledger.begin_phase(command.phase))) return false;
    run.is_publishing = command.phase == PhaseKind::publish;
  }
  if (refused(plan::check_command(plan_, run.ledger, command))) return false;
  if (command.verb == Verb::reshard && !run.is_published && !publish_from_trainer(run, command))
    return false;
  run.steps.push_back(make_step(run, command));
  if (move) {
    if (refused(run.ledger.commit(*move, command.bytes))) return false;
    if (!defects_.is_ledger_blind) run.ledger.assert_invariants();
  }
  if (command.verb == Verb::reshard) {
    plan::Shard shard{command.card, static_cast<uint32_t>(command.object), k_checksum + 1};
    if (run.versions.ack({run.version}, shard)) {  // PLACE-5: damaged weights must not count
      refusal_ = "PLACE-5: a wrong checksum was accepted";
      return defects_.is_ledger_blind;
    }
    shard.checksum = k_checksum;
    auto acked = run.versions.ack({run.version}, shard);
    if (!defects_.serves_early && refused(acked)) return false;
    run.versions.assert_invariants();
  }
  return true;
}

bool World::publish_from_trainer(Run& run, const Command& command) {
  const plan::RoleSpec* trainer = plan_.owner_of(Object::train_params);
  Command source = command;
  source.role = trainer->role;
  source.card = trainer->cards.front();
  source.object = Object::train_params;
  Step step = make_step(run, source);
  step.is_source = true;
  std::vector<plan::Shard> shards;
  for (const Command& each : run.commands)
    if (each.verb == Verb::reshard) {
      step.targets.push_back(agent_of(each.role, each.card));
      if (shards.empty() || !defects_.serves_early)
        shards.push_back({each.card, static_cast<uint32_t>(each.object), k_checksum});
    }
  run.steps.push_back(std::move(step));
  run.is_published = true;
  return !refused(run.versions.begin({run.version}, shards));
}

bool World::finish(Run& run) {
  for (const plan::RoleSpec& role : plan_.roles) {
    if (plan::required_objects(role, run.phase).empty()) continue;
    if (refused(plan::check_compute(plan_, run.ledger, role.role, run.phase))) return false;
  }
  if (run.phase == PhaseKind::publish && !run.versions.is_servable({run.version}))
    return !refused(Error{Errc::placement, "PLACE-5: publish ended without a servable version"});
  return true;
}

/// Places of every object and the ledger's phase: all that commands_for and the checks read.
/// Versions are left out but for "the newest one is servable": only their order matters to them.
std::vector<uint8_t> World::key_of(const Boundary& boundary) const {
  std::vector<uint8_t> key;
  for (const Agent& agent : agents_)
    for (Object object : agent.objects)
      key.push_back(static_cast<uint8_t>(
          boundary.ledger.place_of(plan_.roles[agent.role].role, agent.card, object)));
  auto phase_byte = [](const std::optional<PhaseKind>& phase) {
    return static_cast<uint8_t>(phase ? 1 + static_cast<int>(*phase) : 0);
  };
  key.push_back(phase_byte(boundary.ledger.phase()));
  key.push_back(phase_byte(boundary.granted));
  key.push_back(boundary.serves_current);
  return key;
}

size_t World::intern(Boundary boundary) {
  auto key = key_of(boundary);
  for (size_t i = 0; i < keys_.size(); ++i)
    if (keys_[i] == key) return i;
  keys_.push_back(std::move(key));
  boundaries_.push_back(std::move(boundary));
  return boundaries_.size() - 1;
}

}  // namespace cohort::test
