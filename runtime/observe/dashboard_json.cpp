#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/observe/dashboard_page.hpp"

namespace cohort::observe {
namespace {

using Json = nlohmann::json;

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

Json run_json(const RunView& run, double now) {
  Json cards = Json::array();
  for (const CardView& card : run.cards)
    cards.push_back({{"card", card.card},
                     {"role", card.role},
                     {"used_bytes", card.used_bytes},
                     {"peak_bytes", card.peak_bytes},
                     {"budget_bytes", card.budget_bytes},
                     {"is_lost", card.is_lost},
                     {"losses", card.losses},
                     {"restarts", card.restarts}});
  Json json = {{"run", run.run_id},
               {"name", run.name},
               {"folder", run.folder},
               {"state", to_string(run.state)},
               {"stage", run.stage},
               {"phase", run.phase},
               {"step", run.step},
               {"steps", run.total_steps},
               {"trajectories", run.trajectories},
               {"tokens", run.tokens},
               {"elapsed_s", now - run.started},
               {"eta_s", nullptr},
               {"events", run.event_counts},
               {"cards", std::move(cards)},
               {"last", nullptr}};
  if (!run.error.empty()) json["error"] = run.error;
  if (run.eta) json["eta_s"] = std::max(0.0, *run.eta - now);
  if (run.last) json["last"] = Json::parse(run.last->to_json(), nullptr, false);
  return json;
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
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cohort::observe
