#include "runtime/config/verl/verl_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <tuple>

#include "runtime/base/suggest.hpp"
#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/override.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "runtime/config/verl/verl_check.hpp"
#include "runtime/config/verl/verl_describe.hpp"
#include "runtime/config/verl/verl_sft.hpp"

namespace cohort::config {
namespace {

namespace fs = std::filesystem;

/// Whether the dialect has this key: one of the schema, or one inside a section of free content.
bool is_verl_key(const std::string& path) {
  return std::any_of(verl_keys().begin(), verl_keys().end(), [&](const KeyInfo& key) {
    bool is_open =
        !key.has_effect || key.type == "section of any keys" || key.type == "map of options";
    return key.path == path || (is_open && path.starts_with(key.path + "."));
  });
}

/// Returns "; did you mean '<full path>'?" for a key that section `section` has not, or "".
std::string verl_advice(const std::string& section, const std::string& key) {
  std::vector<std::string> siblings;
  for (const KeyInfo& info : verl_keys()) {
    size_t dot = info.path.rfind('.');
    std::string parent = dot == std::string::npos ? "" : info.path.substr(0, dot);
    if (parent == section)
      siblings.push_back(dot == std::string::npos ? info.path : info.path.substr(dot + 1));
  }
  if (std::string near = nearest_name(key, siblings); !near.empty())
    return fmt::format("; did you mean '{}'?", join_path(section, near));
  return full_name_of(verl_keys(), key);
}
/// Binds the user's part of `root` (interpolated). `definitions`: top-level keys that some `${…}`
/// names. Keys without effect become notes, unknown ones problems with the nearest name.
void bind_verl(const Node& root, const std::set<std::string>& definitions, VerlConfig& config,
               Findings& findings) {
  BindOptions options;
  options.definitions = &definitions;
  options.is_layered = true;
  options.class_key = "_target_";
  options.class_reason = "names a Python class of verl";
  options.advice = [](const std::string& section, const std::vector<std::string>&,
                      const std::string& key) { return verl_advice(section, key); };
  bind_keys([&config](Visitor& visitor) { describe_verl(visitor, config); }, root, options,
            findings);
}

/// Every key of `config` with its value. Marks have no source.
Node verl_to_node(const VerlConfig& config) {
  VerlConfig copy = config;  // the visitors share one interface, with mutable members
  return write_tree([&copy](Visitor& visitor) { describe_verl(visitor, copy); });
}

Mark command_line() { return {std::make_shared<const std::string>("command line"), 0, 0}; }

Error wrong(std::string_view text) { return {Errc::config, fmt::format("command line: {}", text)}; }

/// The words before the overrides: where a YAML file is, or which of verl's own configs is meant.
struct Primary {
  fs::path file;
  bool is_megatron = false;  // verl's ppo_megatron_trainer
  std::string sft;           // the name of one of verl's supervised configs, or empty
  std::string missing;       // where one of verl's own configs was looked for, or empty
  size_t word_count = 0;     // taken from the front of the arguments
};

bool is_own_config(std::string_view name) {
  return name == "ppo_trainer" || name == "ppo_megatron_trainer";
}

bool is_sft_config(std::string_view name) {
  return name == "sft_trainer" || name == "sft_trainer_engine";
}

std::string_view option_name(std::string_view word) {
  std::string_view name = word.substr(0, word.find('='));
  if (name == "--config-path" || name == "-cp") return "--config-path";
  if (name == "--config-name" || name == "-cn") return "--config-name";
  return {};
}

/// "'a'" -> "a": quotes that no shell has taken off.
std::string unquoted(std::string text) {
  const bool is_quoted = text.size() >= 2 && text.front() == text.back() &&
                         (text.front() == '\'' || text.front() == '"');
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

/// The file that --config-path and --config-name mean. verl's scripts name the folder of its
/// package: where it is not there, the dialect's defaults are the file.
void find_file(Primary& primary, const fs::path& folder, const std::string& name) {
  if (is_sft_config(name)) primary.sft = name;
  if (!folder.empty()) primary.file = folder / ((name.empty() ? "ppo_trainer" : name) + ".yaml");
  const bool is_own = name.empty() || is_own_config(name) || is_sft_config(name);
  std::error_code failure;
  if (is_own && !primary.file.empty() && !fs::exists(primary.file, failure)) {
    primary.missing = primary.file.string();
    primary.file.clear();
  }
  primary.is_megatron = primary.file.empty() && name == "ppo_megatron_trainer";
}

Expected<Primary> find_primary(const std::vector<std::string>& args) {
  Primary primary;
  fs::path folder;
  std::string name;
  size_t& at = primary.word_count;
  while (at < args.size() && args[at].starts_with('-')) {
    const std::string& word = args[at++];
    std::string_view option = option_name(word);
    if (option.empty())
      return wrong(
          fmt::format("'{}' is no option of the verl dialect; known: --config-path, "
                      "--config-name, then overrides a.b=c",
                      word));
    size_t equals = word.find('=');
    if (equals == std::string::npos && at == args.size())
      return wrong(fmt::format("'{}' without a value", word));
    std::string value =
        unquoted(equals == std::string::npos ? args[at++] : word.substr(equals + 1));
    if (option == "--config-path")
      folder = value;
    else
      name = value;
  }
  bool has_options = at > 0;
  if (at < args.size() && args[at].find('=') == std::string::npos &&
      (args[at].ends_with(".yaml") || args[at].ends_with(".yml"))) {
    if (has_options) return wrong(fmt::format("'{}' beside --config-name: give one", args[at]));
    primary.file = args[at++];
    return primary;
  }
  if (name.ends_with(".yaml")) name.resize(name.size() - 5);
  if (folder.empty() && !name.empty() && !is_own_config(name) && !is_sft_config(name))
    return wrong(
        fmt::format("--config-name {} needs its --config-path (known without: "
                    "ppo_trainer, ppo_megatron_trainer, sft_trainer, sft_trainer_engine)",
                    name));
  find_file(primary, folder, name);
  return primary;
}

/// Takes verl's own entries out of a defaults list: their values are the dialect's defaults. What
/// is left is composed as in a ROLL file.
void drop_own_defaults(Node& root, Primary& primary) {
  Entry* defaults = root.find("defaults");
  if (defaults == nullptr || defaults->node().kind != NodeKind::sequence) return;
  std::erase_if(defaults->node().items, [&](const Node& item) {
    std::string text = item.scalar;
    if (item.kind == NodeKind::map && item.entries.size() == 1)
      text = item.entries.front().key + ": " + item.entries.front().node().scalar;
    if (text.find("megatron") != std::string::npos) primary.is_megatron = true;
    if (is_sft_config(text)) primary.sft = text;
    return item.kind == NodeKind::map || is_own_config(text) || is_sft_config(text);
  });
}

Expected<Node> read_primary(Primary& primary) {
  if (primary.file.empty()) return Node::make_map(command_line());
  COHORT_ASSIGN(Node root, read_yaml(primary.file));
  if (root.kind == NodeKind::null) root = Node::make_map(root.mark);
  if (root.kind != NodeKind::map)
    return fault(root.mark, "expected a map of keys, got " + describe_value(root));
  drop_own_defaults(root, primary);
  return compose(std::move(root), primary.file.parent_path());
}

/// "~a.b" of a key that nobody set: verl would drop its default, here that default stands.
bool is_idle_removal(const Node& user, const std::string& text) {
  return text.starts_with('~') && text.find('=') == std::string::npos &&
         user.at_path(text.substr(1)) == nullptr && is_verl_key(text.substr(1));
}

/// An unknown key to remove is told with the dialect's names, not those that happen to be set.
Expected<void> apply(Node& user, const std::string& text, Findings& findings) {
  if (is_idle_removal(user, text)) {
    findings.notes.push_back({text.substr(1), fmt::format("override '{}'", text),
                              "nothing to remove: the default stays"});
    return {};
  }
  if (text.starts_with('~') && user.at_path(text.substr(1)) == nullptr &&
      text.find('=') == std::string::npos) {
    std::string path = text.substr(1);
    size_t dot = path.rfind('.');
    std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
    return Error{Errc::config,
                 fmt::format("override '{}': unknown key '{}'{}", text, path,
                             verl_advice(section, path.substr(section.empty() ? 0 : dot + 1)))};
  }
  return apply_override(user, text);
}

/// Problems in the order of the file and then of the command line.
Error report(std::vector<Problem> problems, const std::vector<std::string>& args) {
  auto place = [&](const Problem& x) {
    std::string source = x.mark.source ? *x.mark.source : "";
    size_t at = 0;
    for (size_t i = 0; i < args.size(); ++i)
      if (source == fmt::format("override '{}'", args[i])) at = i + 1;
    return std::make_tuple(at, x.mark.line, x.mark.column);
  };
  std::stable_sort(problems.begin(), problems.end(),
                   [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  return error_of(problems);
}

/// The config in verl's own keys; load_verl() of it gives the same settings.
std::string resolved_text(VerlConfig c, const RunConfig& r) {
  c.cohort.platform = r.platform;
  c.cohort.placement.mode = r.placement.mode;
  c.cohort.placement.offload = r.placement.offload;
  c.cohort.seed = r.seed;
  c.cohort.max_running_requests = r.max_running_requests;
  c.output_dir = r.output_dir;
  if (!c.hybrid_engine) c.num_gpus_per_node = r.num_gpus_per_node;
  return resolved_text(verl_to_node(c), r.notes);
}

VerlConfig defaults_of(bool is_megatron) {
  VerlConfig config;
  if (is_megatron) {
    config.actor.strategy = VerlStrategy::megatron;
    config.critic.strategy = VerlStrategy::megatron;
  }
  return config;
}

/// Megatron's sizes of the reference are the actor's, where the user gives none.
void inherit_sizes(VerlConfig& config, const Findings& findings) {
  VerlMegatron& ref = config.ref.megatron;
  const VerlMegatron& actor = config.actor.megatron;
  auto inherit = [&](const char* key, auto member) {
    if (!findings.has(fmt::format("actor_rollout_ref.ref.megatron.{}", key)))
      ref.*member = actor.*member;
  };
  inherit("tensor_model_parallel_size", &VerlMegatron::tensor_model_parallel_size);
  inherit("expert_model_parallel_size", &VerlMegatron::expert_model_parallel_size);
  inherit("expert_tensor_parallel_size", &VerlMegatron::expert_tensor_parallel_size);
  inherit("pipeline_model_parallel_size", &VerlMegatron::pipeline_model_parallel_size);
  inherit("virtual_pipeline_model_parallel_size",
          &VerlMegatron::virtual_pipeline_model_parallel_size);
  inherit("context_parallel_size", &VerlMegatron::context_parallel_size);
  inherit("param_offload", &VerlMegatron::param_offload);
}

/// Megatron's layers by PEFT's names; "": no such layer.
std::string peft_names(const std::string& layer) {
  if (layer == "linear_qkv") return "q_proj,k_proj,v_proj";
  if (layer == "linear_proj") return "o_proj";
  if (layer == "linear_fc1") return "gate_proj,up_proj";
  return layer == "linear_fc2" ? "down_proj" : "";
}

/// model.lora says for megatron what lora_rank, lora_alpha and target_modules say for FSDP.
void complete_lora(VerlConfig& config, Findings& findings) {
  const VerlMegatronLora& asked = config.model.megatron_lora;
  const std::string key = "actor_rollout_ref.model.lora";
  if (asked.rank == 0 || config.model.lora.rank > 0) return;
  if (config.actor.strategy != VerlStrategy::megatron)
    return findings.warn(key + ".rank", "has no effect: strategy {} reads model.lora_rank",
                         to_string(config.actor.strategy));
  VerlLora lora;
  lora.rank = asked.rank;
  lora.alpha = asked.alpha;
  lora.targets.clear();
  for (const auto& [name, layers, names] :
       {std::tuple{"target_modules", &asked.targets, &lora.targets},
        std::tuple{"exclude_modules", &asked.excluded, &lora.excluded}})
    for (const std::string& layer : *layers) {
      names->push_back(peft_names(layer));
      if (names->back().empty())
        return verl_problem(findings, fmt::format("{}.{}", key, name),
                            "'{}' is no layer that takes an adapter here; there are linear_qkv, "
                            "linear_proj, linear_fc1 and linear_fc2",
                            layer);
    }
  config.model.lora = std::move(lora);
}

/// Names that verl has given up, and what it reads in their place.
void complete_old_names(VerlConfig& config, Findings& findings) {
  const std::string actor = "actor_rollout_ref.actor.", rollout = "actor_rollout_ref.rollout.";
  VerlActor& a = config.actor;
  const std::string loss_mode = actor + "policy_loss.loss_mode";
  if (a.use_gpg_loss && findings.has(loss_mode) && a.loss_mode_name != "gpg")
    verl_problem(findings, actor + "use_gpg_loss", "not together with policy_loss.loss_mode {}",
                 a.loss_mode_name);
  if (a.use_gpg_loss) {
    a.loss_mode_name = "gpg";
    a.loss_mode = *catalog::find<PolicyLossKind>("gpg", Dialect::verl);
    findings.warn(actor + "use_gpg_loss", "policy_loss.loss_mode gpg, its newer name");
  }
  if (config.rollout.name == VerlEngine::sglang_async) {
    config.rollout.name = VerlEngine::sglang;
    findings.warn(rollout + "name", "sglang_async is part of sglang since, which is taken for it");
  }
  if (config.rollout.mode == VerlRolloutMode::sync)
    findings.note(rollout + "mode",
                  "sync: verl has dropped it; a step is generated the same way with either");
  complete_lora(config, findings);
}

/// A rollout pool of its own is verl's recipe one_step_off, or fully_async with the section
/// async_training. Old log-probabilities are those of the rollout unless a key says otherwise.
void complete_recipe(VerlConfig& config, const Findings& findings) {
  AsyncSection& async = config.cohort.async;
  const VerlAsync& asked = config.async_training;
  const bool is_recipe = !config.hybrid_engine || asked.is_configured;
  if (is_recipe && !findings.has("async.mode")) {
    // Between two pushes verl starts M = require_batches mini (1 + threshold) trigger groups; here
    // a policy is pushed after each step, and depth + 1 steps may have been started by then.
    const double depth =
        static_cast<double>(asked.trigger_parameter_sync_step) * (1 + asked.staleness_threshold) -
        1;
    async.mode = !asked.is_configured ? AsyncMode::one_step_off
                 : depth > 0          ? AsyncMode::fully_async
                                      : AsyncMode::sync;
    if (async.mode == AsyncMode::fully_async && !findings.has("async.depth")) async.depth = depth;
  }
  const char* bypass = "algorithm.rollout_correction.bypass_mode";
  if (async.mode != AsyncMode::sync && !findings.has(bypass))
    config.algorithm.rollout_correction.bypass_mode = true;
}

/// From the user's part, its overrides applied.
Expected<RunConfig> load_user(const Node& user, bool is_megatron, Findings findings,
                              const std::vector<std::string>& args) {
  VerlConfig config = defaults_of(is_megatron);
  Node tree = verl_to_node(config);
  merge(tree, user);
  tree.mark = user.mark;
  InterpolationSources sources = process_sources();
  Interpolated interpolated = interpolate(tree, sources);
  findings.problems = std::move(interpolated.problems);
  bind_verl(interpolated.root, interpolated.used, config, findings);
  complete_old_names(config, findings);
  inherit_sizes(config, findings);
  complete_recipe(config, findings);
  check_verl_distillation(config, findings);
  const VerlConfig meant = with_distillation(config);
  VerlNumbers numbers = check_verl(meant, findings, sources);
  if (!findings.problems.empty()) return report(std::move(findings.problems), args);
  RunConfig run = translate_verl(meant, numbers, findings);
  if (!findings.problems.empty()) return report(std::move(findings.problems), args);
  for (const auto& [path, mark] : findings.present)
    if (!path.empty()) run.origins[path] = mark.file_line();
  if (findings.has("trainer.device") && !findings.has("platform"))
    run.origins["platform"] = findings.mark_of("trainer.device").file_line();
  run.notes = std::move(findings.notes);
  run.warnings = std::move(findings.warnings);
  run.resolved_yaml = resolved_text(config, run);
  return run;
}

/// Says that the defaults stand for a file that is not there.
void note_missing(const Primary& primary, std::vector<Note>& notes) {
  if (!primary.missing.empty())
    notes.push_back({"--config-path", "command line",
                     fmt::format("{}: no such file; its name is that of a config of verl's, whose "
                                 "values are this dialect's defaults",
                                 primary.missing)});
}

Expected<RunConfig> load_sft(Node user, const Primary& primary,
                             const std::vector<std::string>& args, const LoadOptions& options) {
  for (size_t i = primary.word_count; i < args.size(); ++i)
    COHORT_TRY(apply_override(user, args[i]));
  COHORT_ASSIGN(SftTree tree, translate_verl_sft(user, primary.sft == "sft_trainer_engine"));
  COHORT_ASSIGN(RunConfig run, load_node(std::move(tree.root), options));
  run.notes.insert(run.notes.begin(), tree.notes.begin(), tree.notes.end());
  note_missing(primary, run.notes);
  run.origins.merge(tree.origins);
  return run;
}

/// Whether the words before the overrides, or the keys of these, are a supervised trainer's.
bool is_sft(const Primary& primary, const Node& user, const std::vector<std::string>& args) {
  if (!primary.sft.empty() || is_verl_sft(user)) return true;
  Node keys = Node::make_map(command_line());
  for (size_t i = primary.word_count; i < args.size(); ++i)
    if (auto word = parse_override(args[i]); word && word->kind != Override::Kind::remove)
      keys.set(word->path.front(), command_line(), Node{});
  return is_verl_sft(keys);
}

}  // namespace

Expected<RunConfig> load_verl(const std::vector<std::string>& args, const LoadOptions& options) {
  COHORT_ASSIGN(Primary primary, find_primary(args));
  COHORT_ASSIGN(Node user, read_primary(primary));
  if (is_sft(primary, user, args)) return load_sft(std::move(user), primary, args, options);
  Findings findings;
  note_missing(primary, findings.notes);
  for (size_t i = primary.word_count; i < args.size(); ++i)
    COHORT_TRY(apply(user, args[i], findings));
  return load_user(user, primary.is_megatron, std::move(findings), args);
}

Expected<RunConfig> load_verl_tree(Node user, const std::vector<std::string>& overrides) {
  Findings findings;
  for (const std::string& text : overrides) COHORT_TRY(apply(user, text, findings));
  return load_user(user, false, std::move(findings), overrides);
}

const std::vector<KeyInfo>& verl_keys() {
  static const std::vector<KeyInfo> k_keys = list_keys([](Visitor& visitor) {
    VerlConfig defaults;
    describe_verl(visitor, defaults);
  });
  return k_keys;
}

}  // namespace cohort::config
