/// Rules on roles, the model, environments and Cohort's own keys.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "runtime/config/check.hpp"
#include "runtime/config/suggest.hpp"

namespace cohort::config {
namespace {

bool has_problem(const Findings& f, const std::string& path) { return f.broken.contains(path); }

bool is_folder(const std::string& path) {
  std::error_code failure;
  return std::filesystem::is_directory(path, failure);
}

void check_cards(const RunConfig& c, Findings& f, const WorkerConfig& role,
                 const std::string& name) {
  std::string path = name + ".device_mapping";
  if (has_problem(f, path) || has_problem(f, "num_gpus_per_node")) return;
  for (uint32_t id : role.device_mapping) {
    if (id >= static_cast<uint64_t>(c.num_gpus_per_node))
      return f.problem(path,
                       fmt::format("card {} does not exist: a run has one node, with cards 0..{} "
                                   "(num_gpus_per_node {})",
                                   id, c.num_gpus_per_node - 1, c.num_gpus_per_node));
  }
}

void check_role(const RunConfig& c, Findings& f, const WorkerConfig& role, const std::string& name,
                bool is_required) {
  if (has_problem(f, name)) return;
  bool is_mapped = !role.device_mapping.empty() || has_problem(f, name + ".device_mapping");
  if (is_required && !role.is_configured)
    f.problem(name, "missing: every run needs this role, with a device_mapping");
  else if (is_required && !is_mapped)
    f.problem(name + ".device_mapping", "missing: the role needs at least one card");
  check_cards(c, f, role, name);
  if (role.model_args.dtype == ModelDtype::fp16)
    f.problem(name + ".model_args.dtype", "fp16 is not built in; use bf16 or fp32");
}

void check_shape(ModelSection& m, Findings& f) {
  for (const char* key :
       {"hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"}) {
    if (has_problem(f, std::string("model.") + key)) return;
  }
  if (m.num_attention_heads % m.num_key_value_heads != 0)
    f.problem("model.num_key_value_heads",
              fmt::format("{} does not divide num_attention_heads {}", m.num_key_value_heads,
                          m.num_attention_heads));
  if (m.head_dim == 0 && m.hidden_size % m.num_attention_heads != 0)
    return f.problem(
        "model.hidden_size",
        fmt::format(
            "{} is not a multiple of num_attention_heads {}; nearest that work: {}, {}; or "
            "give head_dim",
            m.hidden_size, m.num_attention_heads,
            std::max<int64_t>(1, m.hidden_size / m.num_attention_heads) * m.num_attention_heads,
            (m.hidden_size / m.num_attention_heads + 1) * m.num_attention_heads));
  if (m.head_dim == 0) m.head_dim = m.hidden_size / m.num_attention_heads;
  if (m.head_dim % 2 != 0)
    f.problem(
        f.has("model.head_dim") ? "model.head_dim" : "model.hidden_size",
        fmt::format("a head of {} is odd; rotary positions need an even head_dim", m.head_dim));
}

void check_paths(const RunConfig& c, Findings& f, const LoadOptions& options) {
  if (c.pretrain.empty() && !c.model.is_configured && !has_problem(f, "model") &&
      !has_problem(f, "pretrain"))
    f.problem("pretrain",
              "missing: give a checkpoint folder, or a `model` section for a random start");
  if (!options.check_files) return;
  if (!c.pretrain.empty() && !is_folder(c.pretrain))
    f.problem("pretrain",
              fmt::format("no folder '{}' (nothing is downloaded: give a local folder with "
                          "config.json and safetensors)",
                          c.pretrain));
  const std::string& checkpoint = c.resume_from_checkpoint.path;
  if (!checkpoint.empty() && !is_folder(checkpoint))
    f.problem("resume_from_checkpoint", fmt::format("no folder '{}'", checkpoint));
}

void complete_partition(EnvManagerConfig& m, Findings& f, const std::string& name) {
  std::string path = name + ".num_groups_partition";
  auto tags = static_cast<int64_t>(m.tags.size());
  if (has_problem(f, path) || has_problem(f, name + ".num_env_groups")) return;
  if (m.num_groups_partition.empty()) {
    for (int64_t i = 0; i < tags; ++i)
      m.num_groups_partition.push_back(m.num_env_groups / tags +
                                       (i < m.num_env_groups % tags ? 1 : 0));
    return;
  }
  if (m.num_groups_partition.size() != m.tags.size())
    return f.problem(path,
                     fmt::format("{} numbers for {} tags", m.num_groups_partition.size(), tags));
  int64_t sum = 0;
  std::string arithmetic;
  for (int64_t groups : m.num_groups_partition) {
    sum += std::min<int64_t>(groups, int64_t{1} << 40);
    arithmetic += fmt::format("{}{}", arithmetic.empty() ? "" : " + ", groups);
  }
  if (sum != m.num_env_groups)
    f.problem(path,
              fmt::format("{} = {}, not num_env_groups {}", arithmetic, sum, m.num_env_groups));
}

/// Problems of the template texts and of the turn budget of one environment that is played.
void check_environment(RunConfig& c, Findings& f, const std::string& tag, EnvTemplate& e) {
  static const std::vector<std::string> k_placeholders = {"turn_idx", "observation", "actions_left",
                                                          "max_response_length", "event"};
  std::string path = "custom_envs." + tag;
  if (e.env_type != EnvType::frozen_lake)
    return f.problem(path + ".env_type", fmt::format("{} is not built in (built in: frozen_lake)",
                                                     to_string(e.env_type)));
  std::string_view text = e.agent_template;
  if (text.find("{observation}") == std::string_view::npos &&
      !has_problem(f, path + ".agent_template"))
    f.problem(path + ".agent_template", "has no {observation}: the policy would see nothing");
  for (size_t open = text.find('{'); open != std::string_view::npos;
       open = text.find('{', open + 1)) {
    size_t close = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", open + 1);
    if (close == std::string_view::npos || text[close] != '}' || close == open + 1) continue;
    std::string name(text.substr(open + 1, close - open - 1));
    if (std::find(k_placeholders.begin(), k_placeholders.end(), name) == k_placeholders.end())
      f.problem(path + ".agent_template", fmt::format("unknown placeholder '{{{}}}'{}", name,
                                                      did_you_mean(name, k_placeholders)));
  }
  int64_t new_tokens = c.actor_infer.generating_args.max_new_tokens;
  if (e.max_tokens_per_step > new_tokens) {
    f.warn(path + ".max_tokens_per_step",
           fmt::format("{} is cut to max_new_tokens {}", e.max_tokens_per_step, new_tokens));
    e.max_tokens_per_step = new_tokens;
  }
  if (c.sequence_length > 0 && e.max_steps * e.max_tokens_per_step >= c.sequence_length)
    f.warn(path + ".max_steps",
           fmt::format("{} turns of {} answer tokens alone fill sequence_length {}: long "
                       "trajectories will be cut",
                       e.max_steps, e.max_tokens_per_step, c.sequence_length));
}

void check_manager(RunConfig& c, Findings& f, EnvManagerConfig& m, const std::string& name) {
  if (has_problem(f, name) || has_problem(f, name + ".tags")) return;
  if (m.tags.empty())
    return f.problem(name + ".tags", "missing: name at least one entry of custom_envs");
  std::vector<std::string> known;
  for (const auto& [tag, environment] : c.custom_envs) known.push_back(tag);
  for (const std::string& tag : m.tags) {
    bool is_broken = has_problem(f, "custom_envs") || has_problem(f, "custom_envs." + tag);
    if (!c.custom_envs.contains(tag) && !is_broken)
      f.problem(name + ".tags",
                fmt::format("there is no custom_envs.{}{}", tag, did_you_mean(tag, known)));
  }
  complete_partition(m, f, name);
}

}  // namespace

void check_roles(RunConfig& c, Findings& f, const LoadOptions& options) {
  check_role(c, f, c.actor_train, "actor_train", true);
  check_role(c, f, c.actor_infer, "actor_infer", true);
  check_role(c, f, c.reference, "reference", false);
  if (c.actor_infer.generating_args.top_k < 0) c.actor_infer.generating_args.top_k = 0;
  if (c.model.is_configured) check_shape(c.model, f);
  if (c.rewards.empty() && !has_problem(f, "rewards")) c.rewards["env_return"] = {};
  check_paths(c, f, options);
}

void check_environments(RunConfig& c, Findings& f) {
  std::vector<std::string> played = c.train_env_manager.tags;
  check_manager(c, f, c.train_env_manager, "train_env_manager");
  if (c.eval_steps > 0) {
    check_manager(c, f, c.val_env_manager, "val_env_manager");
    played.insert(played.end(), c.val_env_manager.tags.begin(), c.val_env_manager.tags.end());
  }
  for (auto& [tag, environment] : c.custom_envs) {
    if (std::find(played.begin(), played.end(), tag) != played.end())
      check_environment(c, f, tag, environment);
    else
      f.note("custom_envs." + tag, "no environment manager plays this tag");
  }
}

void check_runtime(RunConfig& c, Findings& f) {
  if (c.platform != Platform::cpu)
    f.problem("platform",
              fmt::format("{} is not built into this binary; it has: cpu", to_string(c.platform)));
  if (c.placement.mode == PlacementMode::timeshare)
    f.problem("placement.mode",
              "timeshare is not built into this binary; use separate, with cards of their own for "
              "actor_train and actor_infer");
  if (c.cards.reserve_bytes >= c.cards.memory_bytes)
    f.problem("cards.reserve_bytes", fmt::format("{} bytes leave nothing of memory_bytes {}",
                                                 c.cards.reserve_bytes, c.cards.memory_bytes));
  for (auto [key, bytes] : {std::pair{"credit_bytes", c.transport.credit_bytes},
                            std::pair{"queue_bytes", c.transport.queue_bytes}}) {
    if (c.transport.chunk_bytes > bytes)
      f.problem("transport.chunk_bytes",
                fmt::format("{} is more than transport.{} {}: no chunk would ever fit",
                            c.transport.chunk_bytes, key, bytes));
  }
  const WarmStartSection& w = c.warm_start;
  if (w.steps > 0 && w.rounds > w.steps)
    f.problem("warm_start.rounds",
              fmt::format("{} rounds for {} optimizer steps; at most one round a step", w.rounds,
                          w.steps));
  if (w.steps > 0 && w.warmup_steps > w.steps)
    f.problem("warm_start.warmup_steps",
              fmt::format("{} of only {} steps", w.warmup_steps, w.steps));
}

}  // namespace cohort::config
