#include "runtime/observe/prometheus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "runtime/observe/html.hpp"

namespace cohort::observe {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

/// Escapes \ and line ends, in label values " too; bytes that are not UTF-8 become U+FFFD.
std::string escape(std::string_view text, bool is_label) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_bytes(text);
    if (length == 0)
      out += "\xEF\xBF\xBD";
    else if (text[0] == '\\')
      out += "\\\\";
    else if (text[0] == '\n')
      out += "\\n";
    else if (text[0] == '"' && is_label)
      out += "\\\"";
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class Exposition {
 public:
  /// Begins a family; its samples follow.
  void family(std::string name, std::string_view type, std::string_view help) {
    COHORT_CHECK(names_.insert(name).second, "PROM-1: a family comes once: " + name);
    name_ = std::move(name);
    seen_.clear();
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, escape(help, false), name_, type);
  }
  /// Of two whose labels are the same once they are UTF-8 the first stays.
  void sample(double value, const Labels& labels = {}) {
    std::string text;
    for (const auto& [label, words] : labels)
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", label, escape(words, true));
    if (!labels.empty()) text += "}";
    if (seen_.insert(text).second) text_ += fmt::format("{}{} {}\n", name_, text, number(value));
  }
  void sample(uint64_t value, const Labels& labels = {}) {
    sample(static_cast<double>(value), labels);
  }
  /// Returns `wanted`, or with a number behind it if it is taken.
  std::string free_name(const std::string& wanted) const {
    std::string name = wanted;
    for (int i = 2; names_.contains(name); ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_, name_;
  std::set<std::string> names_;
  std::set<std::string> seen_;  // labels of this family
};

void add_run(Exposition& out, const RunView& run, double now) {
  out.family("cohort_run_info", "gauge", "The run that this process is; always 1.");
  out.sample(1.0, {{"run", run.run_id}, {"name", run.name}});
  out.family("cohort_run_state", "gauge", "1 for the state that the run is in.");
  for (RunState state : {RunState::starting, RunState::running, RunState::stopping,
                         RunState::finished, RunState::failed})
    out.sample(state == run.state ? 1.0 : 0.0, {{"state", std::string(to_string(state))}});
  out.family("cohort_run_elapsed_seconds", "gauge", "Seconds since this process of the run began.");
  out.sample(now - run.started);
  out.family("cohort_run_steps", "gauge", "Steps that the configuration asks for.");
  out.sample(run.total_steps);
  if (run.eta) {
    out.family("cohort_run_eta_seconds", "gauge", "Seconds that the run still needs, estimated.");
    out.sample(std::max(0.0, *run.eta - now));
  }
  out.family("cohort_steps_total", "counter", "Finished policy steps.");
  out.sample(run.step);
  out.family("cohort_trajectories_total", "counter", "Trajectories of the policy steps.");
  out.sample(run.trajectories);
  out.family("cohort_tokens_total", "counter", "Tokens of these trajectories.");
  out.sample(run.tokens);
  if (!run.phase_seconds.empty()) {
    out.family("cohort_phase_seconds_total", "counter",
               "Seconds that the steps of this process spent in each phase.");
    for (const auto& [phase, seconds] : run.phase_seconds) out.sample(seconds, {{"phase", phase}});
  }
  if (!run.event_counts.empty()) {
    out.family("cohort_events_total", "counter", "Events of this process of the run.");
    for (const auto& [kind, count] : run.event_counts) out.sample(count, {{"kind", kind}});
  }
}

void add_cards(Exposition& out, const std::vector<CardView>& cards) {
  struct Family {
    const char *name, *type, *help;
    double (*value)(const CardView&);
  };
  constexpr std::array<Family, 6> k_families = {{
      {"cohort_card_used_bytes", "gauge", "Bytes on the card since its last phase began.",
       [](const CardView& x) { return static_cast<double>(x.used_bytes); }},
      {"cohort_card_peak_bytes", "gauge", "The most of these so far.",
       [](const CardView& x) { return static_cast<double>(x.peak_bytes); }},
      {"cohort_card_budget_bytes", "gauge", "Bytes that the plan may use there.",
       [](const CardView& x) { return static_cast<double>(x.budget_bytes); }},
      {"cohort_card_up", "gauge", "0 while the process that holds the card is lost.",
       [](const CardView& x) { return x.is_lost ? 0.0 : 1.0; }},
      {"cohort_card_losses_total", "counter", "Times that the card's process was lost.",
       [](const CardView& x) { return static_cast<double>(x.losses); }},
      {"cohort_card_restarts_total", "counter", "Times that it came back.",
       [](const CardView& x) { return static_cast<double>(x.restarts); }},
  }};
  if (cards.empty()) return;
  for (const Family& family : k_families) {
    out.family(family.name, family.type, family.help);
    for (const CardView& card : cards)
      out.sample(family.value(card), {{"card", std::to_string(card.card)}, {"role", card.role}});
  }
}

void add_cluster(Exposition& out, const ClusterView& cluster, double now) {
  out.family("cohort_build_info", "gauge", "Version of the head, or of the run alone; always 1.");
  out.sample(1.0, {{"version", cluster.version}});
  if (cluster.is_this_one) return;
  out.family("cohort_cluster_heard_seconds", "gauge", "Seconds since the head was asked.");
  out.sample(std::max(0.0, now - cluster.at));
  out.family("cohort_cluster_runs", "gauge", "Runs that the head knows.");
  out.sample(static_cast<uint64_t>(cluster.runs.size()));
  if (cluster.nodes.empty()) return;
  auto labels = [](const NodeView& node) {
    return Labels{{"node", std::to_string(node.node)}, {"host", node.host}};
  };
  out.family("cohort_node_up", "gauge", "0 while the node is lost.");
  for (const NodeView& node : cluster.nodes) out.sample(node.is_lost ? 0.0 : 1.0, labels(node));
  out.family("cohort_node_heard_seconds", "gauge", "Seconds since the head heard of the node.");
  for (const NodeView& node : cluster.nodes)
    out.sample(node.heard_s + std::max(0.0, now - cluster.at), labels(node));
  out.family("cohort_node_losses_total", "counter", "Times that the node was lost.");
  for (const NodeView& node : cluster.nodes) out.sample(node.losses.value_or(0), labels(node));
}

void add_row(Exposition& out, const MetricRow& row) {
  for (const Metric& metric : row.metrics()) {
    const double* value = std::get_if<double>(&metric.value);
    if (value == nullptr) continue;
    out.family(out.free_name(prometheus_name(metric.name)), "gauge",
               fmt::format("{} of the last finished step.", metric.name));
    out.sample(*value);
  }
}

}  // namespace

std::string prometheus_name(std::string_view metric) {
  std::string name = "cohort_step_";
  for (char c : metric) {
    const bool is_allowed =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    name += is_allowed ? c : '_';
  }
  if (name.ends_with("_s")) name += "econds";  // units in full, as Prometheus asks for
  if (name.ends_with("_per_seconds")) name.pop_back();
  return name;
}

std::string prometheus_text(const DashboardData& data, double now) {
  Exposition out;
  if (data.cluster) add_cluster(out, *data.cluster, now);
  if (data.run) {
    add_run(out, *data.run, now);
    add_cards(out, data.run->cards);
    if (data.run->last) add_row(out, *data.run->last);
  }
  return out.take();
}

}  // namespace cohort::observe
