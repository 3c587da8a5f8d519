#include "runtime/doctor/report/doctor_job.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "runtime/config/enums.hpp"
#include "runtime/doctor/rules/hccl_rules.hpp"

namespace cohort::doctor {
namespace {

struct Role {
  std::string name;
  const config::WorkerConfig* worker = nullptr;
  bool is_rollout = false;
};

/// The roles that will get cards, in ROLL's order: no reference without KL, no critic without gae.
std::vector<Role> roles_with_cards(const config::RunConfig& config) {
  std::vector<Role> roles{{"actor_train", &config.actor_train, false},
                          {"actor_infer", &config.actor_infer, true}};
  if (config.derived.is_reference_needed) roles.push_back({"reference", &config.reference, false});
  if (config.opd.is_asked()) roles.push_back({"teacher", &config.teacher, false});
  if (catalog::entry(config.adv_estimator).has(catalog::need::critic))
    roles.push_back({"critic", &config.critic, false});
  roles.push_back({"reward_model", &config.reward_model, false});
  for (const auto& [domain, reward] : config.rewards)
    roles.push_back({"rewards." + domain, &reward.worker, false});
  std::erase_if(roles, [](const Role& role) { return role.worker->device_mapping.empty(); });
  return roles;
}

/// Device ids of the host that a job sees, in the order in which its mapping counts them.
std::vector<uint32_t> visible_cards(const Host& host) {
  std::vector<uint32_t> present;
  for (const Card& card : host.cards) present.push_back(card.device_id);
  auto set = host.env.find("ASCEND_RT_VISIBLE_DEVICES");
  if (set == host.env.end()) return present;
  auto listed = parse_visible_devices(set->second);
  if (!listed) return present;  // E01 says so
  std::erase_if(*listed, [&](uint32_t id) {
    return std::find(present.begin(), present.end(), id) == present.end();
  });
  return *listed;
}

uint32_t cards_per_node(const Cluster& cluster, const config::RunConfig& config) {
  size_t visible = visible_cards(cluster.hosts.front()).size();
  if (visible > 0) return static_cast<uint32_t>(visible);
  return static_cast<uint32_t>(std::clamp<int64_t>(config.num_gpus_per_node, 1, 1024));
}

/// Ranks of a role: by server, then in the order of its mapping.
void add_processes(Cluster& cluster, const Role& role, uint32_t per_node) {
  std::map<uint32_t, std::vector<uint32_t>> by_node;
  for (uint32_t id : role.worker->device_mapping) by_node[id / per_node].push_back(id % per_node);
  size_t count = by_node.begin()->second.size();
  bool is_even = std::all_of(by_node.begin(), by_node.end(),
                             [&](const auto& x) { return x.second.size() == count; });
  uint32_t rank = 0, node_rank = 0;
  const Host& head = cluster.hosts.front();
  for (const auto& [node, locals] : by_node) {
    auto visible =
        node < cluster.hosts.size() ? visible_cards(cluster.hosts[node]) : std::vector<uint32_t>();
    for (uint32_t i = 0; i < locals.size(); ++i, ++rank) {
      Process x;
      x.role = role.name;
      x.host = node;
      x.device_id = locals[i] < visible.size() ? visible[locals[i]] : locals[i];
      x.rank = rank;
      x.world_size = static_cast<uint32_t>(role.worker->device_mapping.size());
      // Uneven servers (H06) have no nproc_per_node: ranks count on.
      x.nproc_per_node = is_even ? static_cast<uint32_t>(count) : 0;
      x.node_rank = is_even ? node_rank : 0;
      x.local_rank = is_even ? i : rank;
      x.master_addr = std::string(env_of(head, "MASTER_ADDR"));
      cluster.processes.push_back(std::move(x));
    }
    ++node_rank;
  }
}

/// Without a config: one process on every visible card of every host.
void guess_processes(Cluster& cluster) {
  uint32_t rank = 0;
  for (size_t i = 0; i < cluster.hosts.size(); ++i)
    for (uint32_t id : visible_cards(cluster.hosts[i])) {
      Process x;
      x.role = "all cards";
      x.host = i;
      x.device_id = id;
      x.rank = rank++;
      cluster.processes.push_back(std::move(x));
    }
  for (Process& x : cluster.processes) x.world_size = rank;
}

Dtype dtype_of(config::ModelDtype x) {
  return x == config::ModelDtype::fp32   ? Dtype::fp32
         : x == config::ModelDtype::bf16 ? Dtype::bf16
                                         : Dtype::fp16;
}

uint32_t nodes_in(const Cluster& cluster) {
  constexpr uint32_t k_max_nodes = 65536;
  std::string_view text = env_of(cluster.hosts.front(), "WORLD_SIZE");
  uint32_t nodes = 0;
  std::from_chars(text.data(), text.data() + text.size(), nodes);
  size_t count = std::max<size_t>(cluster.hosts.size(), std::min(nodes, k_max_nodes));
  for (const Process& x : cluster.processes) count = std::max(count, x.host + 1);
  return static_cast<uint32_t>(count);
}

EnvironmentFacts describe_environment(const Cluster& cluster, const config::RunConfig* config) {
  EnvironmentFacts facts;
  const Host& here = cluster.hosts.front();
  for (const Card& card : here.cards) facts.present_cards.push_back(card.device_id);
  facts.interfaces = here.interfaces;
  if (config == nullptr) {
    facts.roles.push_back({"this shell", "", false, here.name, {}, here.env});
    return facts;
  }
  facts.is_strict = config->determinism == config::Determinism::strict &&
                    config->platform == config::Platform::npu;
  uint32_t per_node = cards_per_node(cluster, *config);
  for (const Role& role : roles_with_cards(*config)) {
    RoleEnvironment x{
        role.name, role.worker->strategy_args.strategy_name, role.is_rollout, here.name, {},
        here.env};
    for (uint32_t id : role.worker->device_mapping)
      if (id / per_node == 0) x.cards.push_back(id % per_node);
    // The role's own value wins over the file's, the file's over the shell's.
    for (const auto& envs : {config->system_envs, role.worker->system_envs})
      for (const auto& [name, value] : envs) x.env[name] = value;
    facts.roles.push_back(std::move(x));
  }
  return facts;
}

void add_wants(Machine& machine, const config::RunConfig& config) {
  if (config.platform != config::Platform::cpu)
    machine.wanted_platform = config::to_string(config.platform);
  if (machine.platform != PlatformKind::cpu || config.platform != config::Platform::cpu) return;
  std::set<uint32_t> cards;
  for (const Role& role : roles_with_cards(config))
    cards.insert(role.worker->device_mapping.begin(), role.worker->device_mapping.end());
  machine.memory_wanted_bytes = config.cards.memory_bytes * cards.size();
  machine.threads_wanted =
      static_cast<uint32_t>(std::clamp<int64_t>(config.cards.threads_per_card, 0, 1024) *
                            static_cast<int64_t>(cards.size()));
}

}  // namespace

DoctorJob describe_job(const HostReport& here, const std::vector<Host>& other_hosts,
                       const config::RunConfig* config, const DoctorJobOptions& options) {
  DoctorJob job;
  Cluster& cluster = job.cluster;
  cluster.series = options.series.value_or(here.series);
  cluster.hosts.push_back(here.host);
  cluster.hosts.insert(cluster.hosts.end(), other_hosts.begin(), other_hosts.end());
  if (config != nullptr) {
    for (Host& host : cluster.hosts)
      for (const auto& [name, value] : config->system_envs) host.env[name] = value;
    cluster.is_job_known = true;
    uint32_t per_node = cards_per_node(cluster, *config);
    for (const Role& role : roles_with_cards(*config)) {
      add_processes(cluster, role, per_node);
      cluster.dtypes.push_back(
          {role.name + ".model_args.dtype", dtype_of(role.worker->model_args.dtype)});
    }
  } else {
    guess_processes(cluster);
  }
  cluster.host_count = nodes_in(cluster);
  constexpr double k_roll_join_s = 600;
  cluster.start_skew_s = options.start_skew_s.value_or(cluster.host_count > 1 ? k_roll_join_s : 0);
  cluster.phase_skew_s = options.phase_skew_s;
  job.environment = describe_environment(cluster, config);
  job.machine = here.machine;
  if (config != nullptr) add_wants(job.machine, *config);
  return job;
}

}  // namespace cohort::doctor
