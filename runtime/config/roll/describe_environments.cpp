/// Keys of the environment managers and of the environments.
#include "runtime/config/env_manager.hpp"
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

void describe_manager(Visitor& v, EnvManagerConfig& m, const Key& key) {
  if (!v.enter(key, m.is_configured)) return;
  m.is_configured = true;
  v.key({"num_env_groups", "driver", "Groups that play at once: different maps.",
         between(1, 1 << 20)},
        m.num_env_groups);
  v.key({"group_size", "driver", "Trajectories on one map; an advantage compares them.",
         between(1, 1 << 16)},
        m.group_size);
  v.key({"tags", "environments", "Entries of custom_envs that are played."}, m.tags);
  v.key({"num_groups_partition", "environments",
         "Groups of each tag; adds up to num_env_groups. Missing: an even split.", at_least(0)},
        m.num_groups_partition);
  v.key({"max_env_num_per_worker", "environments", "Environments of one environment actor; 0: all.",
         at_least(0)},
        m.max_env_num_per_worker);
  v.key({"group_size_redundancy", "plan",
         "ROLL: started beyond group_size; a group is complete without its slowest. Here none is.",
         between(0, 1 << 16)},
        m.group_size_redundancy);
  v.nullable_text({"group_filter_cls", "plan", "ROLL's class that drops groups; ~: none is."},
                  m.group_filter_cls);
  v.inert("max_traj_per_env", "follows from the batch size");
  if (v.enter({"llm_proxy", "plan", "Who answers the environments."},
              m.llm_proxy_type != "policy" || v.is_listing())) {
    v.key({"proxy_type", "plan", "policy: actor_infer; openai and random are not built in."},
          m.llm_proxy_type);
    v.inert("proxy_config", "belongs to a proxy that is not built in");
    v.leave();
  }
  v.inert(
      "worker_cls device_mapping num_gpus_per_worker infer_batch_size model_args data_args "
      "generating_args strategy_args training_args backend_timeout model_update_frequency "
      "agent_runner_config env_num_per_worker world_size system_envs name max_concurrency "
      "format_penalty",
      "belongs to ROLL's environment workers");
  v.leave();
}

void describe_action(Visitor& v, EnvConfigSection& e) {
  v.key({"format_penalty", "environments", "Reward of a turn without a valid action."},
        e.format_penalty);
  v.key({"action_pattern", "environments",
         "Regular expression on the answer; the last group of the first match is the action."},
        e.action_pattern);
  v.key({"env_instruction", "environments",
         "Text before the first observation; ~: the environment's own, \"\": none."},
        e.env_instruction);
}

void describe_sokoban(Visitor& v, EnvConfigSection& e) {
  v.key({"dim_room", "environments", "sokoban: rows and columns.", between(4, 64)}, e.dim_room);
  v.key({"num_boxes", "environments", "sokoban: boxes.", between(1, 8)}, e.num_boxes);
  v.key({"search_depth", "environments",
         "sokoban: pulls that the room's maker tries; more give harder rooms.", between(1, 1000)},
        e.search_depth);
  v.key({"grid_lookup", "environments",
         "sokoban: glyph of each cell (0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5 "
         "player, 6 player on target)."},
        e.grid_lookup);
  v.key({"grid_vocab", "environments", "sokoban: what the instructions call each glyph."},
        e.grid_vocab);
}

void describe_package(Visitor& v, PluginSection& p) {
  v.key({"modules", "environments",
         "What is imported so that env_type is registered with GEM; none: for ROLL's names "
         "roll.pipeline.agentic.env."},
        p.modules);
  v.key({"pythonpath", "environments", "Folders in which `python` looks for modules first."},
        p.pythonpath);
}

void describe_env_config(Visitor& v, EnvTemplate& x) {
  EnvConfigSection& e = x.env_config;
  if (!v.enter({"env_config", "environments",
                "The environment's own settings; of a world of GEM what gem.make() takes, and the "
                "keys of its process: python, sandbox, timeout_s, workers (docs/plugins.md)."},
               true))
    return;
  if (!v.is_listing() && is_of_gem(x.env_type)) {  // as gem.make() takes it
    describe_plugin_process(v, e.plugin, "environments");
    describe_package(v, e.plugin);
    v.others(e.plugin.args);
    v.leave();
    return;
  }
  const bool is_lake = x.env_type == EnvType::frozen_lake;
  if (!v.is_listing() && !is_lake) {
    if (x.env_type == EnvType::plugin)
      describe_plugin(v, e.plugin, "environments");
    else if (x.env_type == EnvType::sokoban)
      describe_sokoban(v, e);
    else
      v.json_map({"args", "environments", "The environment's own settings."}, e.plugin.args);
    describe_action(v, e);
    v.inert("max_steps", "max_steps of the custom_envs entry decides");
    v.inert(
        "env_instruction_template render_mode action_lookup special_token_list seed reset "
        "return_state",
        "symbols and action words are fixed");
    v.leave();
    return;
  }
  v.key({"size", "environments", "The map has size x size cells.", between(2, 64)}, e.size);
  v.key(
      {"p", "environments", "Probability that a cell is frozen, not a hole.", {0, 1, true, false}},
      e.p);
  v.key({"is_slippery", "environments",
         "Each move turns left or right in a third of the cases each."},
        e.is_slippery);
  describe_action(v, e);
  if (v.is_listing()) {
    describe_sokoban(v, e);
    describe_plugin(v, e.plugin, "environments");
    describe_package(v, e.plugin);
  } else {
    v.inert("grid_lookup grid_vocab", "symbols and action words are fixed");
  }
  v.inert("max_steps", "max_steps of the custom_envs entry decides");
  v.inert(
      "env_instruction_template render_mode action_lookup map_seed desc special_token_list seed "
      "map_lookup",
      "symbols and action words are fixed");
  v.leave();
}

void describe_environment(Visitor& v, EnvTemplate& e) {
  v.env_type({"env_type", "environments",
              "Kind of the environment; docs/environments.md says which run. A name that ends with "
              "a colon stands for all that begin with it."},
             e.env_type, e.env_type_name);
  v.nullable_text(
      {"env_manager_cls", "environments",
       "ROLL's class: TrajEnvManager (or none), StepEnvManager, StepConcatEnvManager, "
       "AgentNativeStepEnvManager, ProxyEnvManager; docs/environments.md says what each asks."},
      e.env_manager_cls);
  v.nullable_text({"agent_runner_cls", "environments",
                   "ProxyEnvManager: ROLL's class, or yours, whose run_job(seed) plays an episode; "
                   "~: env_type plugin names an agent."},
                  e.agent_runner_cls);
  if (has_step_template(e) || v.is_listing())
    v.key(
        {"history_length", "environments",
         "Step managers: turns that a prompt shows, the one that is asked among them; 0: it alone.",
         at_least(0)},
        e.history_length);
  else
    v.inert("history_length", "a dialogue shows what its manager has it show");
  v.key({"max_steps", "environments", "Turns of a trajectory.", between(1, 1 << 16)}, e.max_steps);
  v.key({"max_tokens_per_step", "environments",
         "Answer tokens of a turn. The smallest of this, "
         "generating_args.max_new_tokens and what sequence_length leaves counts.",
         between(1, 1 << 20)},
        e.max_tokens_per_step);
  v.nullable_text({"agent_system_template", "environments", "System message; ~: none."},
                  e.agent_system_template);
  v.key({"agent_template", "environments",
         "User message of a turn, with {turn_idx} {observation} {actions_left} "
         "{max_response_length} {event}; of a step manager with {env_instruction} {history} "
         "{history_length} {step_count} {current_step} {current_observation} "
         "{max_response_length}."},
        e.agent_template);
  // A manager of ROLL's that shows images has keys of its own.
  const bool is_built =
      catalog::entry(e.env_type).is_built && env_manager_of(e) != EnvManager::other;
  if (is_built || v.is_listing())
    describe_env_config(v, e);
  else
    v.inert("env_config", "the environment, or its manager, is not built in");
  if (v.is_listing() || (is_built && is_of_gem(e.env_type)))
    v.json_map({"tool_wrapper", "environments",
                "Tools around a world of GEM: wrapper_args, and tool_configs with tool_id "
                "python_code or search (docs/plugins.md)."},
               e.tool_wrapper);
  v.inert("use_thread_lock max_env_step_concurrent max_actions_per_traj",
          "belongs to ROLL's environment workers");
  if (!is_built) v.rest("belongs to an environment, or a manager, that is not built in", {});
}

}  // namespace

void describe_environments(Visitor& v, RunConfig& c) {
  describe_manager(v, c.train_env_manager,
                   {"train_env_manager", "driver, environments", "Environments of training."});
  describe_manager(v, c.val_env_manager,
                   {"val_env_manager", "driver, environments",
                    "Environments of evaluation; their maps are never trained on."});
  std::vector<std::string> tags;
  for (const auto& [tag, environment] : c.custom_envs) tags.push_back(tag);
  v.each({"custom_envs", "environments", "Environments by tag."}, tags,
         [&](const std::string& tag) {
           auto [it, is_new] = c.custom_envs.try_emplace(tag);
           if (is_new && c.max_tokens_per_step > 0)
             it->second.max_tokens_per_step = c.max_tokens_per_step;
           describe_environment(v, it->second);
         });
}

}  // namespace cohort::config
