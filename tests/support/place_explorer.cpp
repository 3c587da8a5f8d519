#include "tests/support/place_explorer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "runtime/base/check.hpp"

namespace cohort::test {

using plan::Command;
using plan::Object;
using plan::PhaseKind;
using plan::Place;
using Verb = Command::Verb;

namespace {

enum class Kind : uint8_t { none = 0, command = 1, answer = 2 };
/// Of a command for its agent: newer than its last one, that one, or older. Of an answer: fresh if
/// placement waits for it, else old.
enum class Age : uint8_t { fresh = 0, last = 1, old = 2 };
enum class Weights : uint8_t { none = 0, old = 1, current = 2, damaged = 3 };

struct Message {
  Kind kind = Kind::none;
  Age age = Age::fresh;
  uint8_t agent = 0;
  uint8_t copies = 0;
  uint16_t command = 0;  // index in World::commands()
  uint8_t is_source = 0;
  uint8_t is_damaged = 0;  // answer to a reshard: the checksum is not the trainer's
  bool operator==(const Message&) const = default;
};
static_assert(sizeof(Message) == 8);

struct State {
  uint32_t node = 0;
  uint8_t is_executed = 0;  // the command that placement waits for
  uint8_t is_failed = 0;    // placement ended the run
  uint8_t padding[2] = {};
  std::array<uint8_t, k_agents_max> places = {};   // two bits per object
  std::array<uint8_t, k_agents_max> weights = {};  // two bits each: held, inbox
  std::array<uint8_t, k_agents_max> freeing = {};  // one bit per object: answered, not freed yet
  std::array<Message, k_messages_max> messages = {};
  bool operator==(const State& x) const { return std::memcmp(this, &x, sizeof(State)) == 0; }
};
constexpr size_t k_state_words = sizeof(State) / 8;
static_assert(sizeof(State) % 8 == 0 && std::has_unique_object_representations_v<State>);

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

uint64_t hash_of(const State& state) {
  uint64_t words[k_state_words], hash = 7;
  std::memcpy(words, &state, sizeof(State));
  for (uint64_t word : words) hash = mix(hash, word);
  return hash;
}

/// States by index, found by content.
class StateSet {
 public:
  /// Returns the state's index.
  uint32_t insert(const State& state, bool& is_new) {
    if (states_.size() * 2 >= table_.size()) grow();
    size_t at = slot_of(state);
    is_new = table_[at] == 0;
    if (is_new) {
      states_.push_back(state);
      table_[at] = static_cast<uint32_t>(states_.size());
    }
    return table_[at] - 1;
  }
  size_t size() const { return states_.size(); }
  const State& operator[](size_t index) const { return states_[index]; }

 private:
  size_t slot_of(const State& state) const {
    size_t at = hash_of(state) & (table_.size() - 1);
    while (table_[at] != 0 && !(states_[table_[at] - 1] == state))
      at = (at + 1) & (table_.size() - 1);
    return at;
  }
  void grow() {
    table_.assign(std::max<size_t>(1024, table_.size() * 4), 0);
    for (size_t i = 0; i < states_.size(); ++i)
      table_[slot_of(states_[i])] = static_cast<uint32_t>(i + 1);
  }
  std::vector<State> states_;
  std::vector<uint32_t> table_;
};

/// Where placement stands: between two phases, or waiting for the answer to a step.
struct Node {
  const Boundary* boundary = nullptr;
  const Step* step = nullptr;
  uint32_t next = 0;                                    // after the answer
  std::vector<std::pair<uint32_t, bool>> choices = {};  // boundary: first node, is it a publish
  bool is_publishing = false, serves_current = false;
};

class Explorer {
 public:
  Explorer(const World& world, const ExploreOptions& options);
  ExploreResult run();

 private:
  void make_nodes();
  void enter(State& state, uint32_t node) const;
  size_t successors(const State& state);
  void choose_phase(const State& state);
  void deliver(const State& state, const Message& message);
  void receive_command(State state, const Message& message);
  void receive_answer(State state, const Message& message);
  void execute(State& state, const Message& message);
  void reshard(State& state, const Message& message);
  void free_late(const State& state);
  void faults(const State& state);
  void damage(const State& state);
  void push(State state);
  void add(State& state, Message message) const;
  static void remove(State& state, const Message& message);
  bool is_dead(const State& state, const Message& message) const;
  void check(const State& state);
  void check_cards(const State& state);
  void check_served(const State& state);
  void check_granted(const State& state, const Boundary& boundary);
  void check_ready(const State& state, uint32_t agent, PhaseKind phase);
  void check_arrivals();
  void violation(const std::string& text) {
    if (result_.violation.empty() && text.starts_with(options_.only)) result_.violation = text;
  }
  uint64_t truth_of(const State& state) const;
  Place place(const State& state, uint32_t agent, size_t object) const {
    return static_cast<Place>(state.places[agent] >> (2 * object) & 3);
  }
  static void set_place(State& state, uint32_t agent, size_t object, Place to) {
    auto cleared = static_cast<unsigned>(state.places[agent]) & ~(3u << (2 * object));
    state.places[agent] = static_cast<uint8_t>(cleared | static_cast<unsigned>(to) << (2 * object));
  }
  static Weights held(const State& state, uint32_t agent) {
    return static_cast<Weights>(state.weights[agent] & 3);
  }
  static Weights inbox(const State& state, uint32_t agent) {
    return static_cast<Weights>(state.weights[agent] >> 2 & 3);
  }
  static void set_weights(State& state, uint32_t agent, Weights held, Weights inbox) {
    state.weights[agent] =
        static_cast<uint8_t>(static_cast<unsigned>(held) | static_cast<unsigned>(inbox) << 2);
  }
  size_t object_index(uint32_t agent, Object object) const {
    const auto& objects = world_.agents()[agent].objects;
    return static_cast<size_t>(std::ranges::find(objects, object) - objects.begin());
  }
  bool is_receiver(uint32_t agent) const {
    const auto& objects = world_.agents()[agent].objects;
    return objects.front() == Object::infer_params || objects.front() == Object::ref_params;
  }

  const World& world_;
  const ExploreOptions& options_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> budgets_;                 // per card, by position in the plan
  std::vector<size_t> card_of_;                   // agent -> position of its card
  std::vector<std::vector<Object>> required_[7];  // phase -> agent -> objects
  StateSet states_;
  std::vector<uint32_t> onward_;  // state -> the state that its first faultless event leads to
  std::vector<State> next_;
  ExploreResult result_;
};

Explorer::Explorer(const World& world, const ExploreOptions& options)
    : world_(world), options_(options) {
  for (const plan::CardSpec& card : world.plan().cards) budgets_.push_back(card.budget_bytes());
  for (const Agent& agent : world.agents()) {
    auto card = std::ranges::find(world.plan().cards, agent.card, &plan::CardSpec::id);
    card_of_.push_back(static_cast<size_t>(card - world.plan().cards.begin()));
    for (PhaseKind phase : plan::k_phases)
      required_[static_cast<size_t>(phase)].push_back(
          plan::required_objects(world.plan().roles[agent.role], phase));
  }
  make_nodes();
}

void Explorer::make_nodes() {
  const auto& boundaries = world_.boundaries();
  for (const Boundary& x : boundaries)
    nodes_.push_back({&x, nullptr, 0, {}, x.is_publishing, x.serves_current});
  for (size_t from = 0; from < boundaries.size(); ++from)
    for (const Edge& edge : boundaries[from].edges) {
      auto first = static_cast<uint32_t>(edge.steps.empty() ? edge.to : nodes_.size());
      nodes_[from].choices.emplace_back(first, edge.phase == PhaseKind::publish);
      for (size_t i = 0; i < edge.steps.size(); ++i) {
        const Step& step = edge.steps[i];
        auto next = static_cast<uint32_t>(i + 1 == edge.steps.size() ? edge.to : nodes_.size() + 1);
        nodes_.push_back({nullptr, &step, next, {}, step.is_publishing, step.serves_current});
      }
    }
}

ExploreResult Explorer::run() {
  std::unordered_set<uint64_t> truths;
  bool is_new = false;
  states_.insert(State{}, is_new);
  for (size_t i = 0; i < states_.size() && result_.violation.empty(); ++i) {
    State state = states_[i];
    check(state);
    if (options_.wants_truth && truths.insert(truth_of(state)).second)
      result_.truth += truth_of(state);
    size_t faultless = state.is_failed ? 0 : successors(state);
    onward_.push_back(static_cast<uint32_t>(i));
    for (size_t k = 0; k < next_.size(); ++k) {
      uint32_t to = states_.insert(next_[k], is_new);
      if (k == 0 && faultless > 0) onward_[i] = to;
    }
    result_.transitions += next_.size();
    next_.clear();
  }
  if (result_.violation.empty()) check_arrivals();
  result_.states = states_.size();
  result_.boundaries = world_.boundaries().size();
  return result_;
}

/// Placement goes to `node`; if that waits for a step, its message leaves.
void Explorer::enter(State& state, uint32_t node) const {
  state.node = node;
  state.is_executed = 0;
  for (Message& x : state.messages)
    if (x.kind == Kind::answer) x.age = Age::old;
  const Step* step = nodes_[node].step;
  if (!step) return;
  add(state, {Kind::command, Age::fresh, static_cast<uint8_t>(step->agent), 1,
              static_cast<uint16_t>(step->command_index), step->is_source, 0});
}

/// Fills next_. Returns how many of its first entries are without a fault.
size_t Explorer::successors(const State& state) {
  const Node& node = nodes_[state.node];
  bool is_live = false;
  for (const Message& x : state.messages) {
    if (x.kind == Kind::none) continue;
    is_live |= !is_dead(state, x);
    deliver(state, x);
  }
  if (node.step && !is_live && !options_.defects.never_retries) {
    State again = state;
    add(again, {Kind::command, state.is_executed ? Age::last : Age::fresh,
                static_cast<uint8_t>(node.step->agent), 1,
                static_cast<uint16_t>(node.step->command_index), node.step->is_source, 0});
    push(again);
  }
  free_late(state);
  choose_phase(state);
  size_t faultless = next_.size();
  faults(state);
  damage(state);
  return faultless;
}

void Explorer::choose_phase(const State& state) {
  for (auto [first, is_publish] : nodes_[state.node].choices) {
    State chosen = state;
    if (is_publish)  // there is a newer version from now on
      for (uint32_t agent = 0; agent < world_.agents().size(); ++agent) {
        auto aged = [](Weights x) { return x == Weights::current ? Weights::old : x; };
        set_weights(chosen, agent, aged(held(state, agent)), aged(inbox(state, agent)));
      }
    enter(chosen, first);
    push(chosen);
  }
}

void Explorer::deliver(const State& state, const Message& message) {
  State after = state;
  remove(after, message);
  if (message.kind == Kind::command)
    receive_command(after, message);
  else
    receive_answer(after, message);
}

/// An agent: executes what is newer than its last command, answers a repeat, drops what is older.
void Explorer::receive_command(State state, const Message& message) {
  bool is_mine = nodes_[state.node].step && nodes_[state.node].step->agent == message.agent;
  if (message.age == Age::old && !options_.defects.ignores_ids) return push(state);
  if (message.age == Age::fresh) {
    for (Message& x : state.messages) {
      if (x.kind != Kind::command || x.agent != message.agent) continue;
      x.age = x.age == Age::fresh ? Age::last : Age::old;
    }
    state.is_executed = 1;
  }
  if (message.age == Age::fresh || options_.defects.ignores_ids) execute(state, message);
  bool answers_current = is_mine && state.is_executed && message.age != Age::old;
  bool is_reshard = world_.commands()[message.command].verb == Verb::reshard && !message.is_source;
  bool is_damaged = is_reshard && held(state, message.agent) == Weights::damaged;
  add(state, {Kind::answer, answers_current ? Age::fresh : Age::old, message.agent, 1,
              message.command, message.is_source, is_damaged});
  push(state);
}

void Explorer::receive_answer(State state, const Message& message) {
  const Step* step = nodes_[state.node].step;
  bool is_taken = message.age == Age::fresh ||
                  (options_.defects.accepts_any_ack && step && step->agent == message.agent);
  if (!step || !is_taken) return push(state);
  if (message.is_damaged) {  // the version table refused it (place_world.cpp): the run ends
    State failed = state;
    failed.is_failed = 1;
    failed.messages = {};
    return push(failed);
  }
  enter(state, nodes_[state.node].next);
  push(state);
}

void Explorer::execute(State& state, const Message& message) {
  const Command& command = world_.commands()[message.command];
  uint32_t agent = message.agent;
  bool is_first = message.age == Age::fresh;
  if (command.verb == Verb::reshard) return reshard(state, message);
  if (command.verb == Verb::begin_phase) {
    if (is_first && command.phase != PhaseKind::publish) check_ready(state, agent, command.phase);
    return;
  }
  size_t object = object_index(agent, command.object);
  if (command.to != Place::card && options_.defects.acks_before_freeing &&
      place(state, agent, object) == Place::card) {
    state.freeing[agent] = static_cast<uint8_t>(state.freeing[agent] | 1u << object);
    return;
  }
  set_place(state, agent, object, command.to);
}

/// The trainer's half puts the weights into each receiver's inbox (links lose nothing: LINK-1); a
/// receiver's half makes them the ones it serves.
void Explorer::reshard(State& state, const Message& message) {
  const Step* step = nodes_[state.node].step;
  if (message.is_source) {
    for (uint32_t agent = 0; agent < world_.agents().size(); ++agent) {
      size_t object = object_index(agent, Object::train_params);
      if (object < world_.agents()[agent].objects.size() &&
          place(state, agent, object) != Place::card)
        violation("PLACE-4: the trainer publishes without train_params");
    }
    bool is_current = message.age == Age::fresh && step;
    for (uint32_t agent = 0; agent < world_.agents().size(); ++agent)
      if (is_receiver(agent) && (!is_current || std::ranges::count(step->targets, agent) > 0))
        set_weights(state, agent, held(state, agent), is_current ? Weights::current : Weights::old);
    return;
  }
  if (place(state, message.agent, 0) != Place::card)
    violation("PLACE-4: reshard into " + plan::to_text(world_.commands()[message.command]) +
              ", which is not there");
  if (message.age == Age::fresh && inbox(state, message.agent) != Weights::current &&
      inbox(state, message.agent) != Weights::damaged)
    violation("PLACE-5: reshard without the weights of its version");
  if (inbox(state, message.agent) != Weights::none)
    set_weights(state, message.agent, inbox(state, message.agent), Weights::none);
}

/// Only with the defect: the bytes of an answered offload go at some later time.
void Explorer::free_late(const State& state) {
  for (uint32_t agent = 0; agent < world_.agents().size(); ++agent)
    for (size_t object = 0; object < k_objects_max; ++object) {
      if (!(state.freeing[agent] >> object & 1)) continue;
      State after = state;
      after.freeing[agent] = static_cast<uint8_t>(after.freeing[agent] & ~(1u << object));
      set_place(after, agent, object, Place::host);
      push(after);
    }
}

void Explorer::faults(const State& state) {
  for (const Message& x : state.messages) {
    if (x.kind == Kind::none) continue;
    State lost = state;
    remove(lost, x);
    push(lost);
    if (x.copies >= options_.max_copies) continue;
    State repeated = state;
    add(repeated, x);  // adds one copy
    push(repeated);
  }
}

/// The weights of one receiver arrive damaged.
void Explorer::damage(const State& state) {
  const Step* step = nodes_[state.node].step;
  if (!step || !step->is_source || !state.is_executed) return;
  auto is_damaged = [&](uint32_t x) { return inbox(state, x) == Weights::damaged; };
  if (std::ranges::any_of(step->targets, is_damaged)) return;
  for (uint32_t target : step->targets) {
    State damaged = state;
    set_weights(damaged, target, held(state, target), Weights::damaged);
    push(damaged);
  }
}

bool Explorer::is_dead(const State& state, const Message& x) const {
  if (x.kind == Kind::answer) return x.age != Age::fresh;
  if (x.age == Age::fresh) return false;
  const Step* step = nodes_[state.node].step;
  return x.age == Age::old || !step || step->agent != x.agent || !state.is_executed;
}

/// Keeps max_dead dead messages, sorts the rest, and takes the state into next_.
void Explorer::push(State state) {
  size_t dead = 0;
  for (Message& x : state.messages) {
    if (x.kind == Kind::none || !is_dead(state, x)) continue;
    x.copies = 1;
    // What an old message says is looked at only where its id is not.
    if (x.kind == Kind::answer && !options_.defects.accepts_any_ack)
      x = {Kind::answer, Age::old, 0, 1, 0, 0, 0};
    if (x.kind == Kind::command && x.age == Age::old && !options_.defects.ignores_ids)
      x = {Kind::command, Age::old, x.agent, 1, 0, 0, 0};
    if (++dead > options_.max_dead) x = {};
  }
  auto key = [](const Message& x) { return std::bit_cast<uint64_t>(x); };
  std::ranges::sort(state.messages, std::ranges::greater{}, key);
  next_.push_back(state);
}

/// Adds one copy; equal messages share an entry. A full network drops it, as it may.
void Explorer::add(State& state, Message message) const {
  message.copies = 0;
  for (Message& x : state.messages) {
    Message other = x;
    other.copies = 0;
    if (other != message) continue;
    if (x.copies < options_.max_copies) ++x.copies;
    return;
  }
  message.copies = 1;
  for (Message& x : state.messages)
    if (x.kind == Kind::none) {
      x = message;
      return;
    }
}

void Explorer::remove(State& state, const Message& message) {
  auto found = std::ranges::find(state.messages, message);
  if (found != state.messages.end() && --found->copies == 0) *found = {};
}

void Explorer::check(const State& state) {
  const Node& node = nodes_[state.node];
  check_cards(state);
  if (node.serves_current && !state.is_failed) check_served(state);
  if (node.boundary) check_granted(state, *node.boundary);
}

void Explorer::check_cards(const State& state) {
  const plan::PlacementPlan& plan = world_.plan();
  std::array<uint64_t, 4> bytes = {};
  std::array<uint8_t, 4> seen = {};  // 1 train class, 2 infer class, 4 train_params, 8 infer_params
  for (uint32_t agent = 0; agent < world_.agents().size(); ++agent) {
    const Agent& x = world_.agents()[agent];
    for (size_t object = 0; object < x.objects.size(); ++object) {
      if (place(state, agent, object) != Place::card) continue;
      size_t card = card_of_[agent];
      bytes[card] += x.bytes[object];
      unsigned flags = plan::is_train_class(x.objects[object]) ? 1 : 2;
      flags |= x.objects[object] == Object::train_params ? 4u : 0u;
      flags |= x.objects[object] == Object::infer_params ? 8u : 0u;
      seen[card] = static_cast<uint8_t>(seen[card] | flags);
    }
  }
  for (size_t card = 0; card < plan.cards.size(); ++card) {
    if (plan.mode == plan::PlacementMode::separate && (seen[card] & 3) == 3)
      violation("PLACE-1: both classes on card " + std::to_string(card));
    if (bytes[card] > budgets_[card])
      violation("PLACE-2: " + std::to_string(bytes[card]) + " bytes > " +
                std::to_string(budgets_[card]) + " on card " + std::to_string(card));
    if (plan.mode == plan::PlacementMode::timeshare && (seen[card] & 12) == 12 &&
        !nodes_[state.node].is_publishing)
      violation("PLACE-3: train_params and infer_params outside reshard on card " +
                std::to_string(card));
  }
}

/// PLACE-5: the version is servable, so everyone who was to get it has it.
void Explorer::check_served(const State& state) {
  for (uint32_t agent = 0; agent < world_.agents().size(); ++agent)
    if (world_.agents()[agent].objects.front() == Object::infer_params &&
        held(state, agent) != Weights::current)
      violation("PLACE-5: a version is served that agent " + std::to_string(agent) + " lacks");
}

/// PLACE-4: between two phases the roles of the granted one compute.
void Explorer::check_granted(const State& state, const Boundary& boundary) {
  bool is_settled = true;
  for (uint32_t agent = 0; agent < world_.agents().size(); ++agent) {
    if (boundary.granted) check_ready(state, agent, *boundary.granted);
    const Agent& x = world_.agents()[agent];
    for (size_t object = 0; object < x.objects.size(); ++object)
      is_settled &=
          place(state, agent, object) ==
          boundary.ledger.place_of(world_.plan().roles[x.role].role, x.card, x.objects[object]);
  }
  if (!is_settled) violation("PLACE-4: a phase ended with cards other than the ledger says");
}

void Explorer::check_ready(const State& state, uint32_t agent, PhaseKind phase) {
  bool needs_weights =
      phase == PhaseKind::generate || phase == PhaseKind::evaluate || phase == PhaseKind::reference;
  for (Object object : required_[static_cast<size_t>(phase)][agent]) {
    if (place(state, agent, object_index(agent, object)) != Place::card)
      violation("PLACE-4: agent " + std::to_string(agent) + " computes in phase " +
                std::string(to_string(phase)) + " without " + std::string(to_string(object)));
    bool is_stale = object == Object::infer_params && held(state, agent) != Weights::current;
    bool is_empty = object == Object::ref_params && held(state, agent) == Weights::none;
    if (needs_weights && (is_stale || is_empty))
      violation("PLACE-5: agent " + std::to_string(agent) + " computes with other weights");
  }
}

/// Every state leads, once messages arrive, to the end of its phase.
void Explorer::check_arrivals() {
  std::vector<uint8_t> mark(states_.size(), 0);  // 1 on the path, 2 arrives
  std::vector<uint32_t> path;
  for (uint32_t i = 0; i < states_.size(); ++i) {
    uint32_t at = i;
    path.clear();
    while (mark[at] == 0 && !nodes_[states_[at].node].boundary && !states_[at].is_failed) {
      mark[at] = 1;
      path.push_back(at);
      at = onward_[at];
    }
    if (mark[at] == 1) return violation("stuck: a phase never ends though messages arrive");
    for (uint32_t x : path) mark[x] = 2;
  }
}

uint64_t Explorer::truth_of(const State& state) const {
  uint64_t hash = mix(mix(11, state.node), state.is_failed);
  for (size_t i = 0; i < k_agents_max; ++i)
    hash = mix(hash, static_cast<uint64_t>(state.places[i]) << 8 | state.weights[i]);
  return hash;
}

}  // namespace

ExploreResult explore(const plan::PlacementPlan& plan, plan::OffloadPolicy policy,
                      const ExploreOptions& options) {
  World world{plan, policy, options.defects};
  COHORT_CHECK(world.agents().size() <= k_agents_max, "too many agents for the explorer");
  if (std::string refusal = world.build(); !refusal.empty()) {
    ExploreResult result;
    result.violation = "refused: " + refusal;
    return result;
  }
  return Explorer{world, options}.run();
}

}  // namespace cohort::test
