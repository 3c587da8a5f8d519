#pragma once
/// Rules on the environment of each role and on the machine itself. Pure, as hccl_rules.hpp.
/// E01 … E07: variables that NPU engines read, where a value that is right for one role breaks
/// another (docs/doctor.md). M01 … M07: what every platform needs.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

struct RoleEnvironment {
  std::string role;
  std::string engine;       // strategy name as written: "vllm", "deepspeed_train", …
  bool is_rollout = false;  // generates, so its weights are replaced while it runs
  std::string host;
  std::vector<uint32_t> cards;             // local device ids it uses there
  std::map<std::string, std::string> env;  // the process's, system_envs of the config on top
};

struct EnvironmentFacts {
  std::vector<RoleEnvironment> roles;
  std::vector<uint32_t> present_cards;  // device ids of the host, ascending
  std::optional<std::vector<std::string>> interfaces;
  bool is_strict = false;  // determinism: strict is asked for
};

/// Runs E01 (visible devices), E02 (TASK_QUEUE_ENABLE), E03 (expandable segments), E04 (NZ weight
/// layout), E05 (device socket port), E06 (determinism), E07 (network interface).
std::vector<Finding> check_environment(const EnvironmentFacts& facts);

enum class PlatformKind : uint8_t { cpu, cuda, npu };
std::string_view to_string(PlatformKind x);

struct Machine {
  std::string host;
  PlatformKind platform = PlatformKind::cpu;
  std::string evidence;                  // what the platform was told by
  std::vector<std::string> faults;       // tools that are missing or gave no answer
  uint32_t device_files = 0;             // /dev/davinci<k>, or /dev/nvidia<k>
  uint32_t cards_listed = 0;             // by npu-smi or nvidia-smi
  std::optional<uint64_t> memory_bytes;  // available now
  uint32_t cores = 0;
  std::optional<uint64_t> shm_bytes;   // size of /dev/shm
  std::optional<uint64_t> open_files;  // soft limit
  std::string blas;                    // path of the loaded BLAS, empty: none found
  std::optional<uint64_t> disk_bytes;  // free where the run will write
  std::string disk_path;
  std::string wanted_platform;       // of the config, empty: not said
  uint64_t memory_wanted_bytes = 0;  // cards x budget, on the cpu platform
  uint32_t threads_wanted = 0;
  uint64_t disk_wanted_bytes = 0;
};

/// Runs M01 (platform), M02 (memory), M03 (cores), M04 (/dev/shm), M05 (open files), M06 (BLAS),
/// M07 (disk).
std::vector<Finding> check_machine(const Machine& machine);

/// Parses "0,1,2" or "0-3,8" as ASCEND_RT_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES hold it, in the
/// order written. Returns nothing for any other text, an empty list for "".
std::optional<std::vector<uint32_t>> parse_visible_devices(std::string_view text);

}  // namespace cohort::doctor
