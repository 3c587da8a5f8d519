#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/observe/dashboard_page.hpp"
#include "runtime/observe/flow_page.hpp"
#include "runtime/observe/run_stages.hpp"

namespace cohort::observe {
namespace {

using Json = nlohmann::ordered_json;  // a row's metrics keep their order

Json nodes_json(const ClusterView& cluster, double now) {
  const double age = cluster.is_this_one ? 0 : std::max(0.0, now - cluster.at);
  Json nodes = Json::array();
  for (const NodeView& node : cluster.nodes) {
    nodes.push_back({{"node", node.node},
                     {"host", node.host},
                     {"address", node.address},
                     {"version", node.version},
                     {"pid", node.pid},
                     {"cards", node.cards},
                     {"heard_s", node.heard_s + age},
                     {"is_lost", node.is_lost},
                     {"processes", node.processes}});
    if (node.losses) nodes.back()["losses"] = *node.losses;
    if (node.is_leaving) nodes.back()["is_leaving"] = true;
    if (node.is_away) nodes.back()["is_away"] = true;
  }
  return nodes;
}

/// The first and the last one: where a run began, and where it is.
Json held_out_json(const std::vector<Evaluation>& evaluations) {
  Json out = Json::array();
  for (size_t i = 0; i < evaluations.size(); ++i)
    if (i == 0 || i + 1 == evaluations.size())
      out.push_back({{"step", evaluations[i].step},
                     {"sampled", evaluations[i].sampled},
                     {"greedy", evaluations[i].greedy}});
  return out;
}

Json run_json(const RunView& run, double now) {
  Json cards = Json::array();
  const auto objects = objects_on_cards(run);
  for (const CardView& card : run.cards) {
    cards.push_back({{"card", card.card},
                     {"role", card.role},
                     {"used_bytes", card.used_bytes},
                     {"peak_bytes", card.peak_bytes},
                     {"budget_bytes", card.budget_bytes},
                     {"is_lost", card.is_lost},
                     {"losses", card.losses},
                     {"restarts", card.restarts}});
    const auto holds = objects.find(card.card);
    cards.back()["holds"] = holds == objects.end() ? Json::object() : Json(holds->second);
  }
  Json references = Json::array(), recent = Json::array();
  for (const ReferenceLine& line : run.references)
    references.push_back({{"name", line.name}, {"value", line.value}});
  for (const EventView& event : run.events)
    recent.push_back({{"time_s", event.time_s},
                      {"step", event.step},
                      {"kind", event.kind},
                      {"text", event.text}});
  Json json = {{"run", run.run_id},
               {"name", run.name},
               {"folder", run.folder},
               {"state", to_string(run.state)},
               {"stage", run.stage},
               {"phase", run.phase},
               {"stage_done", run.stage_done},
               {"step", run.step},
               {"steps", run.total_steps},
               {"trajectories", run.trajectories},
               {"tokens", run.tokens},
               {"elapsed_s", (run.ended > 0 ? run.ended : now) - run.started},
               {"eta_s", nullptr},
               {"events", run.event_counts},
               {"recent_events", std::move(recent)},
               {"cards", std::move(cards)},
               {"references", std::move(references)},
               {"held_out", held_out_json(run.evaluations.values())},
               {"last", nullptr}};
  if (!run.error.empty()) json["error"] = run.error;
  if (run.eta) json["eta_s"] = std::max(0.0, *run.eta - now);
  if (run.last) json["last"] = Json::parse(run.last->to_json(), nullptr, false);
  return json;
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string status_json(const DashboardData& data, double now) {
  Json json = Json::object();
  if (data.cluster) {
    json["version"] = data.cluster->version;
    json["up_s"] = data.cluster->up_s + std::max(0.0, now - data.cluster->at);
    json["runs"] = data.cluster->runs;
    json["nodes"] = nodes_json(*data.cluster, now);
  }
  if (data.run) json["run"] = run_json(*data.run, now);
  return dumped(json);
}

std::string flow_json(const FlowView& flow) {
  Json links = Json::array(), waits = Json::array();
  for (const LinkLine& link : flow.links)
    links.push_back({{"process", link.process},
                     {"link", link.name},
                     {"end", link.is_producer ? "producer" : "consumer"},
                     {"messages", link.messages},
                     {"bytes", link.bytes},
                     {"resent", link.resent},
                     {"messages_per_s", link.messages_per_s},
                     {"bytes_per_s", link.bytes_per_s},
                     {"queued_bytes", link.queued_bytes},
                     {"queue_bytes_max", link.queue_bytes_max},
                     {"credit_bytes", link.credit_bytes}});
  for (const WaitLine& wait : flow.waits)
    waits.push_back({{"process", wait.process},
                     {"level", wait.level},
                     {"who", wait.who},
                     {"for", wait.what},
                     {"ends_by", wait.ends_by},
                     {"where", wait.where},
                     {"s", wait.seconds}});
  return dumped({{"sentence", flow.sentence},
                 {"is_stalled", flow.is_stalled},
                 {"note", flow.note},
                 {"links", std::move(links)},
                 {"waits", std::move(waits)}});
}

}  // namespace cohort::observe
