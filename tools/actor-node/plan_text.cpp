#include "tools/actor-node/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "tools/actor-node/plan_bytes.hpp"

namespace cohort {
namespace {

using plan::with_thousands;

std::string plural(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", with_thousands(count), count == 1 ? one : many);
}

std::string verdict(const plan::JobPlan& plan) {
  std::string fullest =
      fmt::format("fullest is card {} in {}: {} of {} ({})", plan.peak_card.value,
                  to_string(plan.peak_phase), bytes_text(plan.peak_bytes),
                  bytes_text(plan.budget_bytes), percent_text(plan.peak_bytes, plan.budget_bytes));
  if (plan.fits) return "FITS · " + fullest;
  if (plan.peak_bytes <= plan.budget_bytes)
    return "DOES NOT FIT · the KV cache holds not one whole sequence; " + fullest;
  return "DOES NOT FIT · " + fullest;
}

std::string model_line(const PlannedJob& job) {
  const model::ModelShape& shape = job.job.spec.model;
  std::string out = fmt::format("{} · {} parameters", job.job.model_name,
                                with_thousands(model::parameter_count(shape)));
  if (shape.moe)
    out += fmt::format(" · {} experts, {} for a token", shape.moe->num_experts,
                       shape.moe->experts_per_token);
  std::set<std::string_view> dtypes;
  for (const config::WorkerConfig* x : {&job.config.actor_train, &job.config.actor_infer})
    if (x->is_configured) dtypes.insert(config::to_string(x->model_args.dtype));
  for (std::string_view dtype : dtypes) out += fmt::format(" · {}", dtype);
  return out;
}

std::string cards_line(const PlannedJob& job) {
  const plan::JobSpec& spec = job.job.spec;
  uint32_t per_node = spec.cards_per_node > 0 ? spec.cards_per_node : spec.card.cards_per_node;
  std::set<uint32_t> nodes;
  for (const plan::CardSpec& card : job.plan.placement.cards)
    nodes.insert(per_node == 0 ? 0 : card.id.value / per_node);
  return fmt::format("{} × {} ({}, {}) on {} · {}", job.plan.placement.cards.size(), spec.card.name,
                     spec.card.device, bytes_text(spec.card.capacity_bytes),
                     plural(nodes.size(), "node", "nodes"), to_string(job.plan.placement.mode));
}

/// What takes no card: environments, rule rewards and tools.
std::string cpu_line(const config::RunConfig& c) {
  std::string out;
  auto add = [&](const std::string& text) { out += (out.empty() ? "" : " · ") + text; };
  if (c.derived.train_environments > 0)
    add(fmt::format("{} train + {} validation environments",
                    with_thousands(static_cast<uint64_t>(c.derived.train_environments)),
                    with_thousands(static_cast<uint64_t>(c.derived.val_environments))));
  for (const auto& [name, reward] : c.rewards)
    if (reward.worker.device_mapping.empty())
      add(fmt::format("rewards.{}{}", name,
                      reward.worker.world_size > 0
                          ? fmt::format(" in {} workers", reward.worker.world_size)
                          : ""));
  for (const auto& [name, tool] : c.tools)
    add(fmt::format("tools.{} in {}, {} s a call at most", name,
                    plural(static_cast<uint64_t>(tool.plugin.workers), "child", "children"),
                    tool.plugin.timeout_s));
  return out;
}

/// The policy loss, how it is added up, and what corrects it.
std::string loss_line(const config::RunConfig& c) {
  const catalog::Entry& loss =
      catalog::entry(c.actor_train.pg_variant.value_or(config::PolicyLossKind::ppo));
  std::string out(loss.name());
  if (c.ratio_type == config::RatioType::segment) out += ", a ratio per answer";
  if (c.rlvr.importance_sampling == config::ImportanceSampling::seq)
    out += ", a ratio per sequence";
  if (!loss.has(catalog::need::own_aggregation))
    out += fmt::format(" · {}", config::to_string(c.loss_agg_mode));
  if (loss.has(catalog::need::first_pass)) out += " · a pass before each optimizer step";
  const catalog::Correction& rules = c.train_infer_correction.rules;
  if (rules.is_weighted) {
    const auto levels = catalog::words(names_of(rules.level));
    const auto bounds = catalog::words(names_of(rules.bound));
    out += fmt::format(" · weights per {}, {}", levels[static_cast<size_t>(rules.level)],
                       bounds[static_cast<size_t>(rules.bound)]);
    if (rules.low) out += fmt::format(" from {}", *rules.low);
    if (rules.high) out += fmt::format(" to {}", *rules.high);
  }
  for (const catalog::Rejection& rule : rules.rejections)
    out += fmt::format(" · {} up to {}", rule.name(), rule.high);
  if (!rules.filters.empty()) out += fmt::format(" · {} filters", rules.filters.size());
  return out;
}

std::string pair_loss_line(const config::RunConfig& c) {
  const config::PreferenceSection& x = c.preference;
  if (c.pipeline == config::Pipeline::rm)
    return fmt::format("Bradley-Terry · center_rewards_coefficient {}",
                       x.center_rewards_coefficient);
  std::string out =
      fmt::format("{} · beta {} · {} over an answer's tokens", config::to_string(x.loss), x.beta,
                  config::to_string(x.answer_scale));
  if (x.label_smoothing > 0) out += fmt::format(" · label smoothing {}", x.label_smoothing);
  if (x.loss == config::PreferenceKind::simpo)
    return out + fmt::format(" · gamma/beta {}", x.gamma_beta_ratio);
  if (!c.derived.is_reference_needed) return out + " · no reference";
  return out + (c.reference.device_mapping.empty() ? " · reference: the adapter off" : "");
}

std::string distill_loss_line(const config::RunConfig& c) {
  const config::DistillSection& x = c.distill;
  std::string out = fmt::format(
      "{} x {} to the teacher, over {}", x.loss_weight, config::to_string(x.objective),
      x.topk > 0 ? fmt::format("its {} likeliest entries", x.topk) : "the whole vocabulary");
  if (x.temperature != 1 || x.teacher_temperature != 1)
    out += fmt::format(" · temperature {}, teacher's {}", x.temperature,
                       x.temperature * x.teacher_temperature);
  return out + fmt::format(" · {} x the answers' own", 1 - x.loss_weight);
}

void add_header(Page& page, const PlannedJob& job, const std::string& config_name) {
  const config::RunConfig& c = job.config;
  page.heading("actor-node plan", config_name);
  auto row = [&](std::string_view name, const std::string& text, Tone tone = Tone::plain) {
    if (!text.empty()) page.wrapped(fmt::format("  {:<9}", name), text, tone);
  };
  std::string run =
      fmt::format("{} · {} · {}", c.exp_name,
                  c.dialect == config::Dialect::verl ? "verl dialect" : "ROLL dialect",
                  config::to_string(c.pipeline));
  if (!config::is_supervised(c.pipeline))
    run += fmt::format(" · {}", config::to_string(c.adv_estimator));
  row("run", run);
  if (c.pipeline <= config::Pipeline::rlvr) row("loss", loss_line(c));
  if (config::has_pairs(c.pipeline)) row("loss", pair_loss_line(c));
  if (c.pipeline == config::Pipeline::distill) row("loss", distill_loss_line(c));
  row("model", model_line(job));
  row("cards", cards_line(job));
  row("CPU", cpu_line(c));
  row("verdict", verdict(job.plan), job.plan.fits ? Tone::good : Tone::bad);
}

/// Where a run here takes them from; without a key also what ROLL would do (decisions/0001).
std::string old_log_probs_text(const config::RunConfig& c) {
  const config::Derived& d = c.derived;
  switch (d.old_log_probs) {
    case config::OldLogProbs::first_pass:
      return "old log-probs taken from the update's first pass: " + d.recompute_reason;
    case config::OldLogProbs::recomputed:
      return "old log-probs computed before the update: " + d.recompute_reason;
    case config::OldLogProbs::behavior:
      break;
  }
  const std::string recorded = "old log-probs recorded at generation";
  if (c.dialect == config::Dialect::verl) return recorded + ": " + d.recompute_reason;
  return fmt::format("{}; ROLL {}: {} ({}: true asks for it here)", recorded,
                     d.recompute_old_log_prob ? "computes them before the update"
                                              : "takes them from the update's first pass",
                     d.recompute_reason,
                     d.recompute_old_log_prob ? "enable_old_logprobs_recompute"
                                              : "force_disable_old_logprobs_recompute");
}

void add_batch(Page& page, const PlannedJob& job) {
  if (!job.plan.batch) return;
  page.heading("BATCH");
  std::vector<Row> rows;
  for (const plan::PlanNumber& x : job.plan.batch->numbers)
    rows.push_back({{x.name, with_thousands(x.value), x.arithmetic}, Tone::plain});
  page.table(2, {{}, {true, 0}, {}}, rows);
  const bool is_supervised = config::is_supervised(job.config.pipeline);
  if (!job.config.derived.recompute_reason.empty() && !is_supervised)
    page.wrapped("  ", old_log_probs_text(job.config));
  if (!job.config.derived.group_baseline.empty() && !is_supervised)
    page.wrapped("  ", "group baseline: " + job.config.derived.group_baseline);
}

std::string bound_text(const plan::ReshardLine& x) {
  if (x.receive_total == x.lower_bound_total) return "lower bound";
  if (x.lower_bound_total == 0) return "bound is 0";
  return fmt::format("{:.2f} × bound", static_cast<double>(x.receive_total) /
                                           static_cast<double>(x.lower_bound_total));
}

void add_reshard(Page& page, const PlannedJob& job) {
  if (job.plan.reshard.empty()) return;
  page.heading("WEIGHTS TO THE ROLLOUT",
               "once per step: most that one card moves; bound: what cards lack");
  std::vector<Row> rows = {
      {{"mode", "receives", "sends", "stages", "all cards", "time", ""}, Tone::faint}};
  for (const plan::ReshardLine& x : job.plan.reshard) {
    std::string name(to_string(x.mode));
    std::vector<std::string> rest = {"", "", "", "", "", "not possible: " + x.refused};
    if (x.refused.empty())
      rest = {bytes_text(x.receive_max),   bytes_text(x.send_max),  bytes_text(x.staging_max),
              bytes_text(x.receive_total), seconds_text(x.seconds), bound_text(x)};
    // Modes that come to the same share a line.
    if (std::ranges::equal(std::span(rows.back().cells).subspan(1), rest)) {
      rows.back().cells[0] += ", " + name;
      continue;
    }
    rest.insert(rest.begin(), name);
    rows.push_back({rest, x.mode == plan::ReshardMode::p2p ? Tone::good : Tone::plain});
  }
  size_t modes = page.width() < 100 ? 12 : 34;
  page.table(2, {{false, modes}, {true, 0}, {true, 0}, {true, 0}, {true, 0}, {true, 0}, {}}, rows);
}

void add_traffic(Page& page, const PlannedJob& job) {
  if (job.plan.traffic.empty()) return;
  page.heading("TRAFFIC OF A STEP", "most that one card moves, and all cards together");
  std::vector<Row> rows = {{{"", "a card", "all", "time", ""}, Tone::faint}};
  for (const plan::TrafficLine& x : job.plan.traffic)
    rows.push_back({{x.name, bytes_text(x.bytes_max_card), bytes_text(x.bytes_total),
                     seconds_text(x.seconds), x.arithmetic},
                    Tone::plain});
  size_t names = page.width() < 100 ? 20 : 30;
  page.table(2, {{false, names}, {true, 0}, {true, 0}, {true, 0}, {}}, rows);
  if (job.plan.host_bytes_per_node > 0)
    page.wrapped("  ", fmt::format("host memory of a node: up to {} of what leaves its cards",
                                   bytes_text(job.plan.host_bytes_per_node)));
}

/// "line 12" in the config itself, "name.yaml:3" elsewhere.
std::string place_text(const std::string& where, const std::string& config_name) {
  if (where.empty()) return "";
  std::string name = std::filesystem::path(where).filename().string();
  std::string own = std::filesystem::path(config_name).filename().string();
  if (!own.empty() && name.starts_with(own + ":")) return "line " + name.substr(own.size() + 1);
  return where.find('\'') == std::string::npos ? name : where;
}

std::string keyed(const config::Note& note, const std::string& config_name) {
  std::string place = place_text(note.where, config_name);
  return place.empty() ? note.key : fmt::format("{} ({})", note.key, place);
}

void add_notes(Page& page, const PlannedJob& job, const std::string& config_name) {
  if (job.config.notes.empty()) return;
  page.heading("KEYS WITHOUT EFFECT", fmt::format("{}", job.config.notes.size()));
  for (const std::string& line : keys_without_effect(job.config, config_name))
    page.wrapped("  - ", line);
}

constexpr std::string_view k_not_run =
    "not run by this version: ";  // config::not_built's, in load()

void add_warnings(Page& page, const PlannedJob& job, const std::string& config_name) {
  std::vector<const config::Note*> warnings, not_run;
  for (const config::Note& x : job.config.warnings)
    (x.text.starts_with(k_not_run) ? not_run : warnings).push_back(&x);
  if (!not_run.empty()) {
    page.heading("PLANNED, NOT RUN BY THIS VERSION", fmt::format("{}", not_run.size()));
    for (const config::Note* x : not_run)
      page.wrapped("  - ", keyed(*x, config_name) + ": " + x->text.substr(k_not_run.size()));
  }
  size_t count = warnings.size() + job.plan.warnings.size();
  if (count == 0) return;
  page.heading("WARNINGS", fmt::format("{}", count));
  for (const config::Note* x : warnings)
    page.wrapped("  ! ", keyed(*x, config_name) + ": " + x->text, Tone::careful);
  for (const plan::PlanWarning& x : job.plan.warnings)
    page.wrapped("  ! ", with_short_lists(x.text), Tone::careful);
}

void add_good_to_know(Page& page, const PlannedJob& job) {
  if (job.job.assumptions.empty() && job.plan.notes.empty()) return;
  page.heading("GOOD TO KNOW");
  for (const plan::PlanWarning& x : job.job.assumptions)
    page.wrapped("  - ", x.key + ": " + x.text);
  for (const std::string& note : job.plan.notes) page.wrapped("  - ", with_short_lists(note));
}

void add_remedies(Page& page, const PlannedJob& job) {
  if (job.plan.fits) return;
  page.heading("WHAT WOULD HELP", "each tried by planning the changed job");
  if (job.plan.remedies.empty())
    page.wrapped("  ", "none of the changes that the planner knows applies to this job");
  std::vector<Row> rows;
  for (const plan::Remedy& x : job.plan.remedies) {
    std::string peak = x.refused.empty() ? fmt::format("{} of {}", bytes_text(x.peak_bytes),
                                                       bytes_text(x.budget_bytes))
                                         : "";
    std::string text = x.refused.empty() ? x.text : fmt::format("{} ({})", x.text, x.refused);
    rows.push_back({{x.fits ? "fits" : "no", peak, text}, x.fits ? Tone::good : Tone::plain});
  }
  page.table(2, {{}, {true, 0}, {}}, rows);
}

}  // namespace

std::string plan_text(const PlannedJob& job, const std::string& config_name,
                      const PageStyle& style) {
  Page page(style);
  add_header(page, job, config_name);
  add_cards(page, job);
  add_roles(page, job);
  add_batch(page, job);
  add_phases(page, job);
  add_reshard(page, job);
  add_traffic(page, job);
  add_notes(page, job, config_name);
  add_good_to_know(page, job);
  add_warnings(page, job, config_name);
  add_remedies(page, job);
  page.blank();
  page.wrapped("", verdict(job.plan), job.plan.fits ? Tone::good : Tone::bad);
  return page.text();
}

std::vector<std::string> keys_without_effect(const config::RunConfig& config,
                                             const std::string& config_name) {
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const config::Note& note : config.notes) {
    auto at = std::ranges::find(reasons, note.text, &std::pair<std::string, std::string>::first);
    if (at == reasons.end()) at = reasons.insert(reasons.end(), {note.text, ""});
    at->second += (at->second.empty() ? "" : ", ") + keyed(note, config_name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, keys] : reasons) lines.push_back(keys + ": " + reason);
  return lines;
}

}  // namespace cohort
