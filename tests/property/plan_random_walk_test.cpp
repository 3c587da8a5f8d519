/// 10,000 random plans, up to 64 cards and 6 roles, each walked through its phases with messages
/// lost, repeated and reordered at random. Message ids, versions and measured bytes are real
/// numbers here, and placement is driven by itself: what the exhaustive explorer abstracts is
/// tried. PLACE-1..5 are asserted on what is truly on the cards after every event.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "runtime/plan/place/phases.hpp"
#include "runtime/plan/place/version_table.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::plan {
namespace {

using Verb = Command::Verb;

// -- random plans ---------------------------------------------------------------------------------

const std::vector<Object> k_reference_objects = {Object::ref_params};

struct RoleKind {
  const char* name;
  const std::vector<Object>& objects;
};
const RoleKind k_role_kinds[] = {
    {"actor_train", test::k_train_objects}, {"actor_infer", test::k_infer_objects},
    {"reference", k_reference_objects},     {"critic", test::k_critic_objects},
    {"actor_eval", test::k_infer_objects},  {"teacher", k_reference_objects}};

uint64_t total_of(const std::vector<RoleSpec>& roles, CardId card, const std::set<Object>& wanted) {
  uint64_t total = 0;
  for (const RoleSpec& role : roles)
    for (const auto& [object, bytes] : role.bytes_per_card)
      if (wanted.contains(object) && std::ranges::count(role.cards, card) > 0) total += bytes;
  return total;
}

/// The bytes that the roles need of a card, by the rules of docs/cards.md alone.
uint64_t bytes_needed(const std::vector<RoleSpec>& roles, CardId card, CacheArrival cache) {
  std::set<Object> train, infer;
  for (Object object : k_objects) (is_train_class(object) ? train : infer).insert(object);
  uint64_t update = total_of(roles, card, train), all_infer = total_of(roles, card, infer);
  if (update == 0 || all_infer == 0) return update + all_infer;
  std::set<Object> arriving = {Object::infer_params};
  if (cache == CacheArrival::early) arriving.insert(Object::kv_cache);
  uint64_t params = total_of(roles, card, arriving);
  uint64_t reference = total_of(roles, card, {Object::ref_params});
  uint64_t publish = total_of(roles, card, {Object::train_params}) + std::max(params, reference);
  return std::max({update, all_infer - reference, reference, publish});
}

PlacementPlan random_plan(Rng& rng) {
  auto mode = rng.below(3) == 0 ? PlacementMode::separate : PlacementMode::timeshare;
  auto total = static_cast<uint32_t>(2 + rng.below(1 + rng.below(63)));
  auto border = static_cast<uint32_t>(1 + rng.below(total - 1));  // separate: train cards below it
  std::vector<RoleSpec> roles;
  for (const RoleKind& kind : k_role_kinds) {
    if (roles.size() >= 2 && rng.below(2)) continue;
    RoleSpec role{kind.name, {}, {}};
    bool is_train = is_train_class(kind.objects.front());
    uint32_t first = mode == PlacementMode::separate && !is_train ? border : 0;
    uint32_t last = mode == PlacementMode::separate && is_train ? border : total;
    auto density = 1 + rng.below(4);
    for (uint32_t card = first; card < last; ++card)
      if (rng.below(4) < density) role.cards.push_back({card});
    if (role.cards.empty()) role.cards.push_back({first});
    for (Object object : kind.objects) role.bytes_per_card[object] = 1 + rng.below(1000);
    role.is_optimizer_swapped = rng.below(4) == 0;
    role.has_own_weights = role.has(Object::ref_params) && rng.below(2) == 0;
    roles.push_back(std::move(role));
  }
  auto cache = rng.below(4) == 0 ? CacheArrival::early : CacheArrival::late;
  std::vector<CardSpec> cards;
  for (uint32_t card = 0; card < total; ++card) {
    uint64_t reserve = rng.below(100), slack = rng.below(2) ? 0 : 1 + rng.below(2000);
    uint64_t needed = bytes_needed(roles, {card}, cache);
    cards.push_back({{card}, needed + slack + reserve + (needed > 0 ? 0 : 1), reserve});
  }
  return plan_placement(mode, cards, roles, cache).value();
}

// -- the walk -------------------------------------------------------------------------------------

struct Message {
  bool is_answer = false;
  uint64_t id = 0;
  size_t agent = 0;
  const Command* command = nullptr;
  bool is_source = false;
  uint64_t version = 0;
  uint64_t bytes = 0, checksum = 0;  // answer
};

/// Rules broken on purpose, to show that a walk sees it.
struct Defects {
  bool executes_old = false;  // an agent executes whatever comes, whenever it was sent
  bool frees_late = false;    // an agent answers an offload and frees when its next command comes
  bool takes_any_answer = false;  // placement does not look at the id of an answer
};

/// What one role truly has on one card.
struct TrueAgent {
  const RoleSpec* role;
  CardId card;
  std::map<Object, Place> places = {};
  std::map<Object, uint64_t> bytes = {};
  uint64_t last_id = 0;
  Message last_answer = {};
  uint64_t version = 0, inbox = 0;
  std::vector<Object> freeing = {};  // frees_late
};

uint64_t checksum_of(uint64_t version) { return mix64(version); }

class Walk {
 public:
  Walk(const PlacementPlan& plan, OffloadPolicy policy, Rng rng, Defects defects)
      : plan_(plan), policy_(policy), rng_(rng), defects_(defects), ledger_(plan.mode, plan.cards) {
    for (const RoleSpec& role : plan.roles)
      for (CardId card : role.cards) {
        on_card_[card.value].push_back(agents_.size());
        agents_.push_back({&role, card});
      }
  }
  /// Ends early at the first violation.
  void run_phase(PhaseKind phase);
  const std::string& violation() const { return violation_; }
  uint64_t events() const { return events_; }
  uint64_t faults() const { return faults_; }

 private:
  size_t agent_of(std::string_view role, CardId card) const {
    for (size_t i : on_card_.at(card.value))
      if (agents_[i].role->role == role) return i;
    return 0;
  }
  void require(bool holds, const std::string& what) {
    if (!holds && violation_.empty()) violation_ = what;
  }
  void require(const Expected<void>& result) {
    if (!result) require(false, result.error().to_string());
  }
  void begin(const Command& command);
  void publish(const Command& command);
  void conclude(const Command& command, size_t agent, uint64_t answer);
  uint64_t send_and_wait(const Command& command, size_t agent, bool is_source);
  bool deliver_one(uint64_t wanted, Message& answer);
  Message execute(const Message& message);
  void reshard(const Message& message, Message& answer);
  void check_card(CardId card);
  void check_ready(const TrueAgent& agent, PhaseKind phase);

  const PlacementPlan& plan_;
  OffloadPolicy policy_;
  Rng rng_;
  Defects defects_;
  std::string violation_;
  Ledger ledger_;
  VersionTable versions_;
  uint64_t version_ = 0, next_id_ = 1, events_ = 0, faults_ = 0;
  bool is_publishing_ = false;
  std::vector<TrueAgent> agents_;
  std::map<uint32_t, std::vector<size_t>> on_card_;
  std::vector<Message> network_;
  std::list<std::vector<Command>> kept_;  // late messages point into them
};

void Walk::run_phase(PhaseKind phase) {
  auto commands = commands_for(plan_, ledger_, phase, policy_);
  if (!commands) return require(false, commands.error().to_string());
  kept_.push_back(std::move(*commands));
  version_ += phase == PhaseKind::publish;
  bool is_published = false;
  for (const Command& command : kept_.back()) {
    begin(command);
    if (command.verb == Verb::reshard && !is_published) publish(command);
    is_published |= command.verb == Verb::reshard;
    size_t agent = agent_of(command.role, command.card);
    uint64_t answer = send_and_wait(command, agent, false);
    if (!violation_.empty()) return;
    conclude(command, agent, answer);
  }
  ledger_.assert_invariants();
  versions_.assert_invariants();
  require(phase != PhaseKind::publish || versions_.is_servable({version_}),
          "PLACE-5: publish ended without a servable version");
  for (const TrueAgent& agent : agents_) check_ready(agent, phase);
}

void Walk::begin(const Command& command) {
  if (auto move = transition_of(command)) require(ledger_.begin(*move));
  if (command.verb == Verb::begin_phase) {
    require(ledger_.begin_phase(command.phase));
    is_publishing_ = command.phase == PhaseKind::publish;
  }
  require(check_command(plan_, ledger_, command));
}

void Walk::publish(const Command& command) {
  size_t source = agent_of("actor_train", plan_.find("actor_train")->cards.front());
  uint64_t checksum = send_and_wait(command, source, true);
  std::vector<Shard> shards;
  for (const Command& x : kept_.back())
    if (x.verb == Verb::reshard)
      shards.push_back({x.card, static_cast<uint32_t>(agent_of(x.role, x.card)), checksum});
  require(versions_.begin({version_}, shards));
}

void Walk::conclude(const Command& command, size_t agent, uint64_t answer) {
  if (auto move = transition_of(command)) return require(ledger_.commit(*move, answer));
  if (command.verb != Verb::reshard) return;
  require(!versions_.is_servable({version_}), "PLACE-5: servable before its last shard");
  require(versions_.ack({version_}, {command.card, static_cast<uint32_t>(agent), answer}));
}

/// Sends until the answer of this id comes. Returns its bytes, of a reshard its checksum.
uint64_t Walk::send_and_wait(const Command& command, size_t agent, bool is_source) {
  Message message{false, next_id_++, agent, &command, is_source, version_};
  Message answer;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    network_.push_back(message);
    for (int event = 0; event < 20; ++event) {
      if (!deliver_one(message.id, answer)) continue;
      return command.verb == Verb::reshard ? answer.checksum : answer.bytes;
    }
  }
  require(false, "stuck: never answered: " + to_text(command));
  return 0;
}

/// One event of the network. Returns true if the answer to `wanted` has come.
bool Walk::deliver_one(uint64_t wanted, Message& answer) {
  if (network_.empty()) return false;
  ++events_;
  // Mostly the newest message, sometimes any: late ones stay for long.
  size_t at = rng_.below(16) ? network_.size() - 1 : rng_.below(network_.size());
  Message message = network_[at];
  uint64_t fate = rng_.below(20);
  faults_ += fate < 3;
  network_.erase(network_.begin() + static_cast<long>(at));
  if (fate == 0 && network_.size() < 20) network_.insert(network_.begin(), message);
  if (fate == 1 || fate == 2) return false;  // lost; 0: delivered, and comes again
  if (!message.is_answer) {
    TrueAgent& agent = agents_[message.agent];
    if (message.id < agent.last_id && !defects_.executes_old) return false;
    if (message.id > agent.last_id || defects_.executes_old) {
      for (Object object : std::exchange(agent.freeing, {})) agent.places[object] = Place::host;
      agent.last_answer = execute(message);
      agent.last_id = std::max(agent.last_id, message.id);
      check_card(agent.card);
    }
    network_.push_back(agent.last_answer);
    return false;
  }
  if (message.id != wanted && !defects_.takes_any_answer) return false;
  answer = message;
  return true;
}

Message Walk::execute(const Message& message) {
  TrueAgent& agent = agents_[message.agent];
  const Command& x = *message.command;
  Message answer = message;
  answer.is_answer = true;
  if (x.verb == Verb::reshard) {
    reshard(message, answer);
  } else if (x.verb == Verb::begin_phase) {
    if (x.phase != PhaseKind::publish) check_ready(agent, x.phase);
  } else {
    if (defects_.frees_late && x.to != Place::card && agent.places[x.object] == Place::card)
      agent.freeing.push_back(x.object);
    else
      agent.places[x.object] = x.to;
    // What an engine measures is at most what was predicted.
    answer.bytes = x.to == Place::card ? x.bytes - rng_.below(x.bytes / 8 + 1) : 0;
    if (x.to == Place::card) agent.bytes[x.object] = answer.bytes;
  }
  return answer;
}

void Walk::reshard(const Message& message, Message& answer) {
  TrueAgent& agent = agents_[message.agent];
  answer.checksum = checksum_of(message.version);
  if (message.is_source) {
    for (TrueAgent& x : agents_) {
      require(!x.role->has(Object::train_params) || x.places[Object::train_params] == Place::card,
              "PLACE-4: publish without train_params");
      x.inbox = message.version;
    }
    return;
  }
  require(agent.places[message.command->object] == Place::card, "PLACE-4: reshard into nothing");
  agent.version = agent.inbox;
  answer.checksum = checksum_of(agent.version);
}

void Walk::check_card(CardId card) {
  uint64_t bytes = 0;
  std::set<bool> classes;
  std::set<Object> params;
  for (size_t i : on_card_.at(card.value))
    for (const auto& [object, place] : agents_[i].places) {
      if (place != Place::card) continue;
      bytes += agents_[i].bytes.at(object);
      classes.insert(is_train_class(object));
      if (object == Object::train_params || object == Object::infer_params) params.insert(object);
    }
  require(bytes <= plan_.cards[card.value].budget_bytes(), "PLACE-2: card over its budget");
  require(plan_.mode == PlacementMode::timeshare || classes.size() < 2, "PLACE-1: both classes");
  require(plan_.mode == PlacementMode::separate || params.size() < 2 || is_publishing_,
          "PLACE-3: both parameter sets outside reshard");
}

void Walk::check_ready(const TrueAgent& agent, PhaseKind phase) {
  for (Object object : required_objects(*agent.role, phase)) {
    auto found = agent.places.find(object);
    require(found != agent.places.end() && found->second == Place::card,
            "PLACE-4: " + agent.role->role + " computes without " + std::string(to_string(object)));
    if (phase == PhaseKind::publish) continue;
    require(object != Object::infer_params || agent.version == version_,
            "PLACE-5: rollout with another version");
    const uint64_t frozen = agent.role->has_own_weights ? 0 : 1;
    require(object != Object::ref_params || agent.version == frozen,
            "PLACE-5: the reference is not the first version");
  }
}

/// What a driver asks for: a step's phases, now and then an evaluation or a checkpoint.
std::vector<PhaseKind> random_run(const PlacementPlan& plan, Rng& rng) {
  std::vector<PhaseKind> run = {PhaseKind::init};
  if (rng.below(3) == 0) run.push_back(PhaseKind::update);  // warm start
  uint64_t steps = 2 + rng.below(2);
  for (uint64_t step = 0; step < steps; ++step)
    for (PhaseKind phase : step_phases(plan)) {
      run.push_back(phase);
      if (phase == PhaseKind::publish && rng.below(4) == 0) run.push_back(PhaseKind::evaluate);
      if (phase != PhaseKind::generate && rng.below(8) == 0) run.push_back(PhaseKind::checkpoint);
    }
  return run;
}

struct Totals {
  uint64_t plans = 0, shared = 0, cards = 0, largest = 0, agents = 0, events = 0, faults = 0;
};

/// Walks one random plan; returns the first violation.
std::string walk_plan(const Rng& seed, int round, Defects defects, Totals& totals) {
  Rng rng = seed.fork(static_cast<uint64_t>(round));
  PlacementPlan plan = random_plan(rng);
  bool is_shared = plan.mode == PlacementMode::timeshare && !shared_cards_of(plan.roles).empty();
  auto policy = is_shared || rng.below(2) ? OffloadPolicy::step : OffloadPolicy::never;
  Walk walk{plan, policy, rng.fork(1), defects};
  for (PhaseKind phase : random_run(plan, rng)) {
    walk.run_phase(phase);
    if (!walk.violation().empty())
      return "round " + std::to_string(round) + ", phase " + std::string(to_string(phase)) + ": " +
             walk.violation();
  }
  ++totals.plans;
  totals.shared += is_shared;
  totals.cards += plan.cards.size();
  totals.largest = std::max<uint64_t>(totals.largest, plan.cards.size());
  for (const RoleSpec& role : plan.roles) totals.agents += role.cards.size();
  totals.events += walk.events();
  totals.faults += walk.faults();
  return "";
}

TEST(PlaceRandom, TenThousandLargePlansKeepTheRules) {  // PLACE-1..5
  Rng seed{test::property_seed(20263)};
  Totals x;
  for (int round = 0; round < 10000; ++round) ASSERT_EQ(walk_plan(seed, round, {}, x), "");
  std::printf(
      "%llu plans (%llu share cards), %llu cards (largest plan %llu), %llu agents: %llu "
      "events, %llu faults\n",
      static_cast<unsigned long long>(x.plans), static_cast<unsigned long long>(x.shared),
      static_cast<unsigned long long>(x.cards), static_cast<unsigned long long>(x.largest),
      static_cast<unsigned long long>(x.agents), static_cast<unsigned long long>(x.events),
      static_cast<unsigned long long>(x.faults));
  EXPECT_GT(x.shared, 5000u);
  EXPECT_GT(x.faults, 1000000u);
}

TEST(PlaceRandom, BrokenRulesAreFound) {
  Rng seed{test::property_seed(20263)};
  for (Defects defects : {Defects{.executes_old = true}, Defects{.frees_late = true},
                          Defects{.takes_any_answer = true}}) {
    Totals totals;
    int found = 0;
    std::set<std::string> rules;
    for (int round = 0; round < 200; ++round) {
      std::string violation = walk_plan(seed, round, defects, totals);
      found += !violation.empty();
      if (size_t at = violation.find("PLACE-"); at != std::string::npos)
        rules.insert(violation.substr(at, 7));
    }
    std::printf("broken rule found in %d of 200 walks, by", found);
    for (const std::string& rule : rules) std::printf(" %s", rule.c_str());
    std::printf("\n");
    EXPECT_GT(found, 20);
  }
}

}  // namespace
}  // namespace cohort::plan
