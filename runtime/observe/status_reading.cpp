#include "runtime/observe/status_reading.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace cohort::observe {
namespace {

using StatusJson = nlohmann::ordered_json;  // a row's metrics have an order

/// NaN if it is missing or null, as JSON says what is not finite.
double measured(const StatusJson& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : k_not_measured;
}

StatusJson list_of(const StatusJson& json, const char* key) {
  return json.value(key, StatusJson::array());
}

RunState state_of(const std::string& text) {
  constexpr std::array k_states = {RunState::starting, RunState::running, RunState::stopping,
                                   RunState::finished, RunState::failed};
  for (const RunState state : k_states)
    if (to_string(state) == text) return state;
  return RunState::starting;
}

ClusterView cluster_of(const StatusJson& json, double now) {
  ClusterView view;
  view.version = json.value("version", "");
  view.up_s = json.value("up_s", 0.0);
  view.runs = json.value("runs", std::vector<std::string>());
  view.at = now;
  for (const StatusJson& each : list_of(json, "nodes")) {
    NodeView node;
    node.node = each.value("node", 0U);
    node.host = each.value("host", "");
    node.address = each.value("address", "");
    node.version = each.value("version", "");
    node.pid = each.value("pid", 0);
    node.cards = each.value("cards", 0U);
    node.heard_s = each.value("heard_s", 0.0);
    node.is_lost = each.value("is_lost", false);
    node.is_leaving = each.value("is_leaving", false);
    node.is_away = each.value("is_away", false);
    node.processes = each.value("processes", std::vector<std::string>());
    view.nodes.push_back(std::move(node));
  }
  return view;
}

/// What is on the cards goes into `held`.
void take_cards(RunView& run, const StatusJson& json) {
  auto held = std::make_shared<std::vector<Transition>>();
  for (const StatusJson& each : list_of(json, "cards")) {
    CardView card;
    card.card = each.value("card", 0U);
    card.role = each.value("role", "");
    card.used_bytes = each.value("used_bytes", uint64_t{0});
    card.peak_bytes = each.value("peak_bytes", uint64_t{0});
    card.budget_bytes = each.value("budget_bytes", uint64_t{0});
    card.losses = each.value("losses", uint64_t{0});
    card.restarts = each.value("restarts", uint64_t{0});
    card.is_lost = each.value("is_lost", false);
    const StatusJson holds = each.value("holds", StatusJson::object());
    for (const auto& [object, bytes] : holds.items()) {
      Transition move;
      move.card = card.card;
      move.object = object;
      move.to = "card";
      move.bytes = bytes.get<uint64_t>();
      held->push_back(std::move(move));
    }
    run.cards.push_back(std::move(card));
  }
  run.held = std::move(held);
}

void take_history(RunView& run, const StatusJson& json) {
  for (const StatusJson& each : list_of(json, "references"))
    run.references.push_back({each.value("name", ""), each.value("value", 0.0)});
  for (const StatusJson& each : list_of(json, "held_out"))
    run.evaluations.push(
        {each.value("step", uint64_t{0}), 0, measured(each, "sampled"), measured(each, "greedy")});
  for (const StatusJson& each : list_of(json, "recent_events"))
    run.events.push_back({measured(each, "time_s"), each.value("step", uint64_t{0}),
                          each.value("kind", ""), each.value("text", "")});
}

RunView run_of(const StatusJson& json, double now) {
  RunView run;
  run.run_id = json.value("run", "");
  run.name = json.value("name", "");
  run.folder = json.value("folder", "");
  run.state = state_of(json.value("state", ""));
  run.error = json.value("error", "");
  run.stage = json.value("stage", "");
  run.phase = json.value("phase", "");
  run.stage_done = json.value("stage_done", -1.0);
  run.step = json.value("step", uint64_t{0});
  run.total_steps = json.value("steps", uint64_t{0});
  run.trajectories = json.value("trajectories", uint64_t{0});
  run.tokens = json.value("tokens", 0.0);
  run.started = now - json.value("elapsed_s", 0.0);
  run.ended = is_over(run) ? now : 0;
  if (const double eta_s = measured(json, "eta_s"); eta_s >= 0) run.eta = now + eta_s;
  run.event_counts = json.value("events", std::map<std::string, uint64_t>());
  take_cards(run, json);
  take_history(run, json);
  const auto last = json.find("last");
  if (last == json.end() || !last->is_object()) return run;
  if (auto row = MetricRow::from_json(last->dump()))
    run.last = std::make_shared<const MetricRow>(std::move(*row));
  return run;
}

FlowView flow_of(const StatusJson& json) {
  FlowView flow;
  flow.sentence = json.value("sentence", "");
  flow.is_stalled = json.value("is_stalled", false);
  flow.note = json.value("note", "");
  for (const StatusJson& each : list_of(json, "links")) {
    LinkLine link;
    link.process = each.value("process", "");
    link.name = each.value("link", "");
    link.is_producer = each.value("end", "") == "producer";
    link.messages = each.value("messages", uint64_t{0});
    link.bytes = each.value("bytes", uint64_t{0});
    link.resent = each.value("resent", uint64_t{0});
    link.messages_per_s = measured(each, "messages_per_s");
    link.bytes_per_s = measured(each, "bytes_per_s");
    link.queued_bytes = each.value("queued_bytes", uint64_t{0});
    link.queue_bytes_max = each.value("queue_bytes_max", uint64_t{0});
    link.credit_bytes = each.value("credit_bytes", uint64_t{0});
    flow.links.push_back(std::move(link));
  }
  for (const StatusJson& each : list_of(json, "waits"))
    flow.waits.push_back({each.value("process", ""), each.value("level", ""), each.value("who", ""),
                          each.value("for", ""), each.value("ends_by", ""), each.value("where", ""),
                          each.value("s", 0.0)});
  return flow;
}

}  // namespace

Expected<DashboardData> read_status_json(std::string_view text, double now) {
  const StatusJson json = StatusJson::parse(text, nullptr, false);
  if (!json.is_object()) return Error{Errc::corrupt, "what came is no status of a dashboard"};
  DashboardData data;
  try {
    if (json.contains("nodes")) data.cluster = std::make_shared<ClusterView>(cluster_of(json, now));
    if (json.contains("run")) data.run = std::make_shared<RunView>(run_of(json.at("run"), now));
  } catch (const StatusJson::exception& e) {
    return Error{Errc::corrupt, std::string("the dashboard is of another version: ") + e.what()};
  }
  return data;
}

Expected<std::shared_ptr<const FlowView>> read_flow_json(std::string_view text) {
  const StatusJson json = StatusJson::parse(text, nullptr, false);
  if (json.is_null()) return std::shared_ptr<const FlowView>();
  if (!json.is_object()) return Error{Errc::corrupt, "what came is no dataflow of a dashboard"};
  try {
    return std::shared_ptr<const FlowView>(std::make_shared<FlowView>(flow_of(json)));
  } catch (const StatusJson::exception& e) {
    return Error{Errc::corrupt, std::string("the dashboard is of another version: ") + e.what()};
  }
}

}  // namespace cohort::observe
