/// Rules on the environment managers and the environments of pipeline agentic.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/suggest.hpp"
#include "runtime/config/env_manager.hpp"
#include "runtime/config/roll/roll_check.hpp"

namespace cohort::config {
namespace {

void complete_partition(EnvManagerConfig& m, Findings& f, const std::string& name) {
  std::string path = name + ".num_groups_partition";
  auto tags = static_cast<int64_t>(m.tags.size());
  if (f.has_problem(path) || f.has_problem(name + ".num_env_groups")) return;
  if (m.num_groups_partition.empty()) {
    for (int64_t i = 0; i < tags; ++i)
      m.num_groups_partition.push_back(m.num_env_groups / tags +
                                       (i < m.num_env_groups % tags ? 1 : 0));
    return;
  }
  if (m.num_groups_partition.size() != m.tags.size())
    return f.problem(path, "{} numbers for {} tags", m.num_groups_partition.size(), tags);
  int64_t sum = 0;
  std::string arithmetic;
  for (int64_t groups : m.num_groups_partition) {
    sum += std::min<int64_t>(groups, int64_t{1} << 40);
    arithmetic += fmt::format("{}{}", arithmetic.empty() ? "" : " + ", groups);
  }
  if (sum != m.num_env_groups)
    f.problem(path, "{} = {}, not num_env_groups {}", arithmetic, sum, m.num_env_groups);
}

/// Problems of what an agent_template shows.
void check_placeholders(Findings& f, const std::string& path, const EnvTemplate& e) {
  static const std::vector<std::string> k_dialogue = {
      "turn_idx", "observation", "actions_left", "max_response_length", "event", "suffix"};
  static const std::vector<std::string> k_anew = {"env_instruction",    "history",
                                                  "step_count",         "history_length",
                                                  "current_step",       "current_observation",
                                                  "max_response_length"};
  const std::vector<std::string>& k_placeholders = has_step_template(e) ? k_anew : k_dialogue;
  const std::string_view text = e.agent_template;
  const std::string_view seen = has_step_template(e) ? "{current_observation}" : "{observation}";
  if (text.find(seen) == std::string_view::npos && !f.has_problem(path))
    f.problem(path, "has no {}: the policy would see nothing", seen);
  for (size_t open = text.find('{'); open != std::string_view::npos;
       open = text.find('{', open + 1)) {
    if (text.substr(open).starts_with("{{")) {  // a brace of the text
      ++open;
      continue;
    }
    size_t close = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", open + 1);
    if (close == std::string_view::npos || text[close] != '}' || close == open + 1) continue;
    std::string name(text.substr(open + 1, close - open - 1));
    if (std::find(k_placeholders.begin(), k_placeholders.end(), name) == k_placeholders.end())
      f.problem(path, "unknown placeholder '{{{}}}'{}", name, did_you_mean(name, k_placeholders));
  }
}

/// Problems of an environment that writes its dialogues, or of the agent that acts in its place.
void check_agent(Findings& f, const std::string& path, const EnvTemplate& e) {
  if (has_agent_runner(e) && e.agent_runner_cls.empty())
    f.problem(path + ".agent_runner_cls",
              "missing: ProxyEnvManager lets an agent act: give its class, or env_type plugin and "
              "env_config.plugin");
  if (!is_hosted(e.env_type))
    f.problem(path + ".env_manager_cls",
              "{} writes no dialogues; use TrajEnvManager, StepEnvManager or StepConcatEnvManager, "
              "or with ProxyEnvManager ROLL's GEMRunner as agent_runner_cls",
              e.env_type_name);
}

/// Problems of the template texts and of the turn budget of one environment that is played.
void check_environment(RunConfig& c, Findings& f, const std::string& tag, EnvTemplate& e) {
  const std::string path = "custom_envs." + tag;
  if (!catalog::entry(e.env_type).is_built || env_manager_of(e) == EnvManager::other)
    return;  // its texts are its own
  if (env_manager_of(e) == EnvManager::dialogue)
    check_agent(f, path, e);
  else
    check_placeholders(f, path + ".agent_template", e);
  int64_t new_tokens = c.actor_infer.generating_args.max_new_tokens;
  if (e.max_tokens_per_step > new_tokens) {
    f.warn(path + ".max_tokens_per_step", "{} is cut to max_new_tokens {}", e.max_tokens_per_step,
           new_tokens);
    e.max_tokens_per_step = new_tokens;
  }
  const int64_t turns = asks_anew(e) ? 1 : e.max_steps;  // of one context
  if (c.sequence_length > 0 && turns * e.max_tokens_per_step >= c.sequence_length)
    f.warn(path + ".max_steps",
           "{} turns of {} answer tokens alone fill "
           "sequence_length {}: long trajectories will be cut",
           turns, e.max_tokens_per_step, c.sequence_length);
}

void check_manager(RunConfig& c, Findings& f, EnvManagerConfig& m, const std::string& name) {
  if (f.has_problem(name) || f.has_problem(name + ".tags")) return;
  bool is_default = m.tags.empty() && c.custom_envs.contains("SimpleSokoban");
  if (is_default) m.tags = {"SimpleSokoban"};  // ROLL's default
  if (m.tags.empty())
    return f.problem(name + ".tags", "missing: name at least one entry of custom_envs");
  std::vector<std::string> known;
  for (const auto& [tag, environment] : c.custom_envs) known.push_back(tag);
  for (const std::string& tag : m.tags) {
    bool is_broken = f.has_problem("custom_envs") || f.has_problem("custom_envs." + tag);
    if (!c.custom_envs.contains(tag) && !is_broken)
      f.problem(name + ".tags", "there is no custom_envs.{}{}", tag, did_you_mean(tag, known));
  }
  complete_partition(m, f, name);
  if (m.group_size_redundancy > 0)
    f.note(name + ".group_size_redundancy",
           "no trajectory starts that would be dropped: what is late another rollout plays too "
           "(recovery.straggler_factor)");
}

/// A step manager gives a sample per turn. ROLL's optimizer batch counts those while its schedule
/// counts trajectories, so that the rate ends early (ROLL #407); here both count trajectories. Told
/// once, at the first of `tags`, which are played by one.
void check_step_managers(const RunConfig& c, Findings& f, const std::vector<std::string>& tags) {
  if (tags.empty()) return;
  const std::string key = "custom_envs." + tags.front() + ".env_manager_cls";
  f.warn(key,
         "a turn is a sample, up to {} of a trajectory, while the optimizer batch counts "
         "trajectories, as rollout_batch_size and the learning-rate schedule do (ROLL's counts "
         "turns, so that its rate ends early)",
         c.custom_envs.at(tags.front()).max_steps);
  if (!catalog::entry(c.adv_estimator).has(catalog::need::turns))
    f.warn(key,
           "adv_estimator {} gives every turn the advantage of its trajectory (ROLL: of its own "
           "reward alone); gigpo and step_reinforce tell turns apart",
           to_string(c.adv_estimator));
}

}  // namespace

void check_tools(const RunConfig& c, Findings& f) {
  if (c.tools.empty() && f.has("multi_turn")) f.warn("multi_turn", "has no effect without `tools`");
  const bool is_played = c.pipeline == Pipeline::agentic || c.pipeline == Pipeline::rlvr;
  if (!c.tools.empty() && !is_played)
    f.note("tools", "pipeline {} samples no answers; rows name their tools (tools_key)",
           to_string(c.pipeline));
  for (const auto& [name, tool] : c.tools) {
    const std::string key = "tools." + name;
    if (f.has_problem(key) || f.has_problem("tools")) continue;
    if (tool.type == ToolType::plugin && tool.plugin.path.empty())
      f.problem(key + ".plugin", "missing: give path.py:function, path.py:Class or path.so");
    if (tool.type == ToolType::python && !tool.plugin.path.empty())
      f.problem(key + ".plugin", "has no effect: type python is the interpreter; use type plugin");
    if (tool.type == ToolType::python && tool.plugin.sandbox.network)
      f.problem(key + ".sandbox.network", "the interpreter runs without a network; use a plugin");
  }
}

void check_environments(RunConfig& c, Findings& f) {
  check_tools(c, f);
  if (c.pipeline != Pipeline::agentic) {
    for (const char* key : {"train_env_manager", "val_env_manager", "custom_envs"})
      if (f.has(key)) f.note(key, "pipeline {} plays no environments", to_string(c.pipeline));
    return;
  }
  std::vector<std::string> played = c.train_env_manager.tags;
  check_manager(c, f, c.train_env_manager, "train_env_manager");
  if (c.eval_steps > 0) {
    check_manager(c, f, c.val_env_manager, "val_env_manager");
    played.insert(played.end(), c.val_env_manager.tags.begin(), c.val_env_manager.tags.end());
  }
  std::vector<std::string> asked_anew;
  for (auto& [tag, environment] : c.custom_envs) {
    if (std::find(played.begin(), played.end(), tag) == played.end()) {
      f.note("custom_envs." + tag, "no environment manager plays this tag");
      continue;
    }
    check_environment(c, f, tag, environment);
    if (has_step_template(environment)) asked_anew.push_back(tag);
  }
  check_step_managers(c, f, asked_anew);
}

}  // namespace cohort::config
