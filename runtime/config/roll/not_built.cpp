#include "runtime/config/roll/not_built.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/config/env_manager.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/config/train_groups.hpp"
#include "runtime/config/tree/yaml_node.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::config {
namespace {

class List {
 public:
  explicit List(const RunConfig& config) : config_(config) {}

  void add(const std::string& key, std::string text) {
    auto origin = config_.origins.find(key);
    notes.push_back({key, origin == config_.origins.end() ? "" : origin->second, std::move(text)});
  }
  void add_if(bool is_asked, const std::string& key, std::string text) {
    if (is_asked) add(key, std::move(text));
  }
  /// A row of the catalogue that this version does not run.
  template <catalog::Kind E>
  void add_row(const std::string& key, E x) {
    const catalog::Entry& row = catalog::entry(x);
    if (!row.is_built)
      add(key, fmt::format("{} is not built in; use {}", row.name(),
                           catalog::built_names(catalog::entries(x), " or ")));
  }

  std::vector<Note> notes;

 private:
  const RunConfig& config_;
};

void add_run(const RunConfig& c, List& list) {
  const TrainingArgs& t = c.actor_train.training_args;
  const bool falls = t.lr_scheduler_type != SchedulerType::constant &&
                     t.lr_scheduler_type != SchedulerType::constant_with_warmup &&
                     t.lr_scheduler_type != SchedulerType::inverse_sqrt;
  const bool is_endless = c.max_steps < 0 && c.pipeline <= Pipeline::rlvr;
  list.add_if(is_endless && (falls || (t.warmup_ratio > 0 && t.warmup_steps == 0)),
              "actor_train.training_args.lr_scheduler_type",
              fmt::format("{} with max_steps -1: a rate that falls towards the end needs one, and "
                          "so does warmup_ratio; use constant_with_warmup and warmup_steps",
                          to_string(t.lr_scheduler_type)));
}

bool shares(const WorkerConfig& a, const WorkerConfig& b) {
  return std::ranges::any_of(a.device_mapping, [&b](uint32_t card) {
    return std::ranges::find(b.device_mapping, card) != b.device_mapping.end();
  });
}

/// Who generates and who trains need cards of their own, with all that they compute with.
void add_async(const RunConfig& c, List& list) {
  if (c.async.mode == AsyncMode::sync || c.pipeline > Pipeline::rlvr) return;
  const std::string_view mode = to_string(c.async.mode);
  list.add_if(
      has_group_filter(c), "async.mode",
      fmt::format("{} with a filter of groups: a checkpoint could not say which groups that "
                  "were played ahead are left out; use sync, or take the filter out",
                  mode));
  list.add_if(!c.critic.device_mapping.empty(), "critic.device_mapping",
              fmt::format("a critic with async.mode {} is not built in; use sync, or an estimator "
                          "without a critic",
                          mode));
  list.add_if(c.placement.mode == PlacementMode::timeshare, "placement.mode",
              fmt::format("timeshare with async.mode {}: roles that take turns cannot generate "
                          "while others train; give them cards of their own, or use sync",
                          mode));
  for (const auto& [name, role, is_built] :
       {std::tuple{"reference", &c.reference, c.derived.is_reference_needed},
        std::tuple{"teacher", &c.teacher, has_teacher(c)}})
    list.add_if(is_built && (shares(*role, c.actor_train) || shares(*role, c.actor_infer)),
                std::string(name) + ".device_mapping",
                fmt::format("shares cards with a role that computes beside it (async.mode {}); "
                            "give the {} a card of its own",
                            mode, name));
}

void add_cards(const RunConfig& c, List& list) {
  list.add_if(
      c.pipeline == Pipeline::distill && c.teacher.device_mapping != c.student.device_mapping,
      "teacher.device_mapping",
      "other cards than the student's: the teacher's logits, a whole vocabulary for each token, "
      "stay on the card that compares them; give the student's mapping, or leave the key out");
}

/// Whether all of these, with commas between them, are names that ROLL and Hugging Face give to the
/// parts of a model that see, hear and speak: a text model has none.
bool is_no_text_module(std::string_view prefixes) {
  constexpr std::string_view k_model = "model.";  // Hugging Face's name of what is around all parts
  while (!prefixes.empty()) {
    const std::string_view whole = prefixes.substr(0, prefixes.find(','));
    const std::string_view prefix =
        whole.starts_with(k_model) ? whole.substr(k_model.size()) : whole;
    const bool is_known =
        std::ranges::any_of(std::array{"vision_", "visual", "audio_", "talker", "code2wav",
                                       "token2wav", "multi_modal_projector", "mm_projector"},
                            [prefix](std::string_view part) { return prefix.starts_with(part); });
    if (!is_known) return false;
    prefixes.remove_prefix(std::min(whole.size() + 1, prefixes.size()));
  }
  return true;
}

void add_role(const std::string& name, const WorkerConfig& w, const RunConfig& c, List& list) {
  const ModelArgs& m = w.model_args;
  std::string model = name + ".model_args";
  list.add_if(
      !m.model_name_or_path.empty() && m.model_name_or_path != c.pretrain && name != "reference" &&
          name != "critic" && name != "teacher",
      model + ".model_name_or_path",
      "is not built in: the policy starts from `pretrain` in every role; set that key (reference, "
      "critic and teacher may have a folder of their own)");
  list.add_if(!freezes_no_text(m), model + ".freeze_module_prefix",
              "is not built in: every weight trains; remove the key");
  list.add_if(!m.freeze_module_contains.empty(), model + ".freeze_module_contains",
              "is not built in: every weight trains; remove the key");
  const bool is_classifier = m.model_type == ModelType::auto_sequence_classification ||
                             m.model_type == ModelType::auto_token_classification;
  const bool has_scores = name == "critic" || (c.pipeline == Pipeline::rm && name == "actor_train");
  const bool is_value_model = name == "critic" && m.model_type == ModelType::trl;
  list.add_if(m.model_type.has_value() && !(has_scores && is_classifier) && !is_value_model,
              model + ".model_type",
              has_scores ? "trl's value model is not built in; use ~: the folder of a "
                           "classifier with one label, or of a language model"
                         : "is not built in: the policy is a causal language model; use ~");
  const StrategySettings& s = w.strategy_args;
  const std::string strategy = name + ".strategy_args.strategy_config";
  list.add_if(name == "critic" && s.expert_parallel_size > 1, strategy,
              fmt::format("EP {} is not built in for a critic; use 1", s.expert_parallel_size));
}

void add_schedule(const std::string& role, const TrainingArgs& args, List& list) {
  const SchedulerArgs& kwargs = args.lr_scheduler_kwargs;
  const std::string key = role + ".training_args.lr_scheduler_kwargs";
  list.add_if(args.lr_scheduler_type == SchedulerType::cosine_with_min_lr && !kwargs.min_lr &&
                  !kwargs.min_lr_rate,
              key, "cosine_with_min_lr falls to min_lr, or min_lr_rate: give one of them");
  list.add_if(
      args.lr_scheduler_type == SchedulerType::warmup_stable_decay && kwargs.num_decay_steps == 0,
      key, "warmup_stable_decay falls over the last num_decay_steps: give their number");
}

/// ROLL's files say all-linear to the trainer and each name to vLLM, which takes no other word.
bool is_every_layer(const std::set<std::string>& names) {
  static const std::set<std::string> each = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                             "gate_proj", "up_proj", "down_proj"};
  return names == std::set<std::string>{"all-linear"} || names == std::set<std::string>{"all"} ||
         std::ranges::includes(names, each);
}

bool is_same_adapter(const ModelArgs& a, const ModelArgs& b) {
  const auto names = [](const ModelArgs& m) {
    const std::vector<std::string> each = model::target_names(m.lora_target);
    return std::set<std::string>(each.begin(), each.end());
  };
  const std::set<std::string> of_a = names(a), of_b = names(b);
  const bool is_same_target = of_a == of_b || (is_every_layer(of_a) && is_every_layer(of_b));
  return is_same_target && a.lora_rank == b.lora_rank && a.lora_alpha == b.lora_alpha &&
         a.adapter_name_or_path == b.adapter_name_or_path;
}

/// LoRA: what of it does not run. ROLL's files name the adapter for each role of the policy.
void add_lora(const RunConfig& c, List& list) {
  const ModelArgs& m = c.actor_train.model_args;
  for (const auto& [name, role] :
       {std::pair{"actor_infer", &c.actor_infer}, std::pair{"reference", &c.reference}})
    list.add_if(has_adapter(role->model_args) && !is_same_adapter(role->model_args, m),
                std::string(name) + ".model_args.lora_target",
                "another adapter than actor_train's is not built in; give the same keys, or none");
  if (!has_adapter(m)) return;
  const std::string model = train_section(c) + ".model_args.";
  list.add_if(c.pretrain.empty(), "pretrain",
              "an adapter is trained over weights that rollouts can read too: give a folder (a "
              "checkpoint of a run will do), or remove lora_target");
  list.add_if(m.lora_dropout > 0, model + "lora_dropout",
              "is not built in: log-probabilities would differ from those of the rollouts; use 0");
  list.add_if(c.pipeline == Pipeline::rm, model + "lora_target",
              "is not built in with a reward model: every weight trains; remove the key");
  list.add_if(
      c.actor_infer.engine != "built_in", "actor_infer.engine",
      fmt::format("{} is sent whole weights: with LoRA use built_in", c.actor_infer.engine));
  if (!own_reference(c).empty()) return;
  list.add_if(c.derived.is_reference_needed && !m.adapter_name_or_path.empty(),
              model + "adapter_name_or_path",
              "a run that starts from an adapter has no reference: with its adapter off the model "
              "is not the start; set init_kl_coef to 0 and use_kl_loss to false, or name the "
              "reference's folder in reference.model_args.model_name_or_path");
}

/// What of a critic does not run.
void add_critic(const RunConfig& c, List& list) {
  add_role("critic", c.critic, c, list);
  add_schedule("critic", c.critic.training_args, list);
  list.add_if(has_adapter(c.critic.model_args), "critic.model_args.lora_target",
              "is not built in: every weight of the critic trains; remove the key");
  // Critic and policy put the same KL into the rewards, each by itself, out of what is recorded.
  const bool is_lora_reference = has_adapter(c.actor_train.model_args) && own_reference(c).empty();
  list.add_if(
      c.add_token_level_kl &&
          (is_lora_reference || c.derived.old_log_probs == OldLogProbs::recomputed),
      "add_token_level_kl",
      fmt::format("a critic needs the KL's log-probabilities, and {} in the policy's update "
                  "alone: {}, or use_kl_loss",
                  is_lora_reference ? "an adapter's reference computes them"
                                    : "enable_old_logprobs_recompute computes them",
                  is_lora_reference ? "name reference.model_args.model_name_or_path"
                                    : "leave that key out"));
}

void add_algorithm(const RunConfig& c, List& list) {
  const catalog::Entry& estimator = catalog::entry(c.adv_estimator);
  list.add_row("adv_estimator", c.adv_estimator);
  if (estimator.is_built && estimator.has(catalog::need::critic)) {
    if (c.critic.device_mapping.empty())
      list.add("adv_estimator",
               fmt::format("{}{} needs a critic: give it cards (critic.device_mapping; the "
                           "trainer's will do), or use grpo or reinforce",
                           c.origins.contains("adv_estimator") ? "" : "missing: its default ",
                           estimator.name()));
    else
      add_critic(c, list);
  }
  list.add_if(estimator.has(catalog::need::turns) && c.pipeline == Pipeline::rlvr, "adv_estimator",
              fmt::format("{} credits the turns of an environment, and a row has one; use grpo",
                          estimator.name()));
  list.add_row("kl_penalty", c.kl_penalty);
  if (c.opd.kind) list.add_row("opd_kl_penalty", *c.opd.kind);
  list.add_row("actor_train.pg_variant", c.actor_train.pg_variant.value_or(PolicyLossKind::ppo));
  add_schedule(train_section(c), c.actor_train.training_args, list);
}

void add_sampling(const GeneratingArgs& g, List& list) {
  const std::string key = "actor_infer.generating_args.";
  list.add_if(g.num_beams > 1, key + "num_beams",
              fmt::format("{} is not built in: sampling only; use 1", g.num_beams));
  list.add_if(std::ranges::count(g.stop_strings, "") > 0, key + "stop_strings",
              "an empty text is in every answer; remove it");
}

void add_manager(const std::string& name, const EnvManagerConfig& m, List& list) {
  bool has_filter = !m.group_filter_cls.empty() &&
                    m.group_filter_cls != "roll.pipeline.agentic.agentic_pipeline.GroupFilter";
  list.add_if(has_filter, name + ".group_filter_cls",
              "no class of ROLL's is loaded: dynamic_sampling says which groups train; use ~");
  list.add_if(m.llm_proxy_type != "policy", name + ".llm_proxy.proxy_type",
              fmt::format("{} is not built in; use policy", m.llm_proxy_type));
}

/// Returns the tools of a world of GEM that it cannot have: a server is asked by search alone,
/// where the world's sandbox has a network. It has one for that tool, unless programs of the policy
/// run in it, too.
std::vector<std::string> tools_out_of_reach(const EnvTemplate& environment) {
  std::vector<std::string> names;
  const auto wrapper = parse_yaml(environment.tool_wrapper, "tool_wrapper");  // JSON is YAML
  const Entry* tools = wrapper ? wrapper->find("tool_configs") : nullptr;
  if (tools == nullptr) return names;
  bool runs_programs = false;
  for (const Node& tool : tools->node().items) {
    const Entry* id = tool.find("tool_id");
    names.push_back(id == nullptr ? "a tool without tool_id" : id->node().scalar);
    runs_programs = runs_programs || names.back() == "python_code";
  }
  const bool is_reached = environment.env_config.plugin.sandbox.network || !runs_programs;
  std::erase_if(names, [is_reached](const std::string& name) {
    return name == "python_code" || (name == "search" && is_reached);
  });
  return names;
}

void add_environments(const RunConfig& c, List& list) {
  std::set<std::string> played(c.train_env_manager.tags.begin(), c.train_env_manager.tags.end());
  add_manager("train_env_manager", c.train_env_manager, list);
  if (c.eval_steps > 0) {
    played.insert(c.val_env_manager.tags.begin(), c.val_env_manager.tags.end());
    add_manager("val_env_manager", c.val_env_manager, list);
  }
  for (const auto& [tag, environment] : c.custom_envs) {
    if (!played.contains(tag)) continue;
    const auto worlds = catalog::entries(environment.env_type);
    list.add_if(
        !catalog::entry(environment.env_type).is_built, "custom_envs." + tag + ".env_type",
        fmt::format(
            "{} is not built in (built in: {}); take {} out of the tags of the env managers",
            environment.env_type_name, catalog::built_names(worlds), tag));
    list.add_if(c.warm_start.steps > 0 && is_hosted(environment.env_type), "warm_start.steps",
                fmt::format("{} steps imitate scripted play, and the plugin that plays {} has "
                            "none; use 0",
                            c.warm_start.steps, tag));
    for (const std::string& tool : tools_out_of_reach(environment))
      list.add(
          "custom_envs." + tag + ".tool_wrapper",
          fmt::format("{} asks a server: {}", tool,
                      tool == "search" ? "set env_config.sandbox.network: true (programs of the "
                                         "policy have it then), or take python_code out"
                                       : "use python_code, or `tools` with a plugin whose "
                                         "sandbox.network is true"));
    list.add_if(env_manager_of(environment) == EnvManager::other,
                "custom_envs." + tag + ".env_manager_cls",
                "is not built in; use TrajEnvManager, StepEnvManager, StepConcatEnvManager, "
                "AgentNativeStepEnvManager or ProxyEnvManager");
    list.add_if(
        asks_anew(environment) && catalog::entry(c.adv_estimator).has(catalog::need::critic),
        "custom_envs." + tag + ".env_manager_cls",
        fmt::format("asks each turn anew, and {} values a trajectory in one piece; use gigpo or "
                    "step_reinforce, or TrajEnvManager",
                    to_string(c.adv_estimator)));
  }
}

/// Rewards that are models: cards of no role that trains, one model a card.
void add_reward_models(const RunConfig& c, List& list) {
  std::set<uint32_t> taken;
  for (const auto& [name, reward] : c.rewards) {
    const std::string key = "rewards." + name, cards = key + ".device_mapping";
    const WorkerConfig& w = reward.worker;
    if (!is_on_cards(reward)) {
      list.add_if(!w.device_mapping.empty(), cards,
                  fmt::format("a reward of type {} with cards of its own is planned, not run; "
                              "remove the key",
                              to_string(reward.type)));
      continue;
    }
    list.add_if(c.pipeline != Pipeline::rlvr, key + ".type",
                fmt::format("{} on cards scores the answers of pipeline rlvr alone",
                            to_string(reward.type)));
    list.add_if(w.device_mapping.empty(), cards, "no card; give the numbers of its cards");
    list.add_if(c.placement.mode == PlacementMode::separate &&
                    (shares(w, c.actor_train) || shares(w, c.critic)),
                cards,
                "shares a card with a role that trains; give the reward cards of its own, or of "
                "actor_infer, or let them take turns (placement.mode: timeshare)");
    for (uint32_t card : w.device_mapping)
      list.add_if(!taken.insert(card).second, cards,
                  fmt::format("card {} has another reward's model; give each a card", card));
  }
}

void add_rewards(const RunConfig& c, List& list) {
  add_reward_models(c, list);
  for (const auto& [name, reward] : c.rewards) {
    const std::string key = "rewards." + name;
    const RewardType type = reward.type;
    list.add_if(
        !catalog::entry(type).is_built, key + ".type",
        fmt::format("{} is not built in; a Python or C++ plugin can score (docs/plugins.md)",
                    to_string(type)));
    list.add_if(type == RewardType::env_return && c.pipeline == Pipeline::rlvr, key + ".type",
                "env_return is what an environment pays; give the rule that scores the answers");
    list.add_if(type == RewardType::code_sandbox && !reward.use_local, key + ".use_local",
                "false asks a server (code_url): not built in; use true");
    list.add_if(type == RewardType::llm_judge && !reward.judge_model_type.empty() &&
                    reward.judge_model_type != "api" && reward.judge_model_type != "inference",
                key + ".judge_model_type",
                fmt::format("{} is not built in; use inference, on cards of the run, or api",
                            reward.judge_model_type));
  }
}

void add_rlvr(const RunConfig& c, List& list) {
  const RlvrSection& x = c.rlvr;
  list.add_if(x.difficulty_loss_weight, "difficulty_loss_weight",
              "is not built in: a trajectory does not carry its row's difficulty; use "
              "difficulty_mask, which goes by the scores, or dynamic_sampling");
}

/// What load() knew of keys that no member of `c` stands for: of verl's dialect all.
void add_warned(const RunConfig& c, std::vector<Note>& notes) {
  for (const Note& warning : c.warnings) {
    if (!warning.text.starts_with(k_not_run)) continue;
    Note note{warning.key, warning.where, warning.text.substr(k_not_run.size())};
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  }
}

std::vector<Note> not_built_of_roll(const RunConfig& c) {
  List list(c);
  add_run(c, list);
  add_async(c, list);
  add_cards(c, list);
  add_role(train_section(c), c.actor_train, c, list);
  if (is_supervised(c.pipeline)) {
    if (c.derived.is_reference_needed) add_role("reference", c.reference, c, list);
    if (c.pipeline == Pipeline::distill) add_role("teacher", c.teacher, c, list);
    add_lora(c, list);
    add_schedule(train_section(c), c.actor_train.training_args, list);
    return list.notes;
  }
  add_role("actor_infer", c.actor_infer, c, list);
  if (c.derived.is_reference_needed) add_role("reference", c.reference, c, list);
  if (has_teacher(c)) add_role("teacher", c.teacher, c, list);
  add_lora(c, list);
  add_algorithm(c, list);
  add_sampling(c.actor_infer.generating_args, list);
  if (c.pipeline == Pipeline::agentic) {
    add_environments(c, list);
  }
  if (c.pipeline == Pipeline::rlvr) add_rlvr(c, list);
  add_rewards(c, list);
  return list.notes;
}

}  // namespace

bool freezes_no_text(const ModelArgs& m) {
  return std::ranges::all_of(m.freeze_module_prefix, is_no_text_module);
}

std::vector<Note> not_built(const RunConfig& c) {
  std::vector<Note> notes;
  if (c.dialect != Dialect::verl) notes = not_built_of_roll(c);
  add_warned(c, notes);
  return notes;
}

}  // namespace cohort::config
