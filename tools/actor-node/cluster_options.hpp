#pragma once
/// What every command of a cluster is told: whom it may trust, where it is reached, and what a
/// launcher (Slurm, Kubernetes, ROLL's scripts) says by RANK and its kin.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "runtime/base/host_name.hpp"
#include "runtime/control/network.hpp"

namespace cohort {

inline constexpr uint16_t k_head_port = 6379;  // as ROLL's MASTER_PORT
inline constexpr const char* k_version = "0.1.0";

struct ClusterAccess {
  std::string keys;  // folder of credentials; empty: the environment's COHORT_KEYS
  bool is_insecure = false;
  std::string host;  // where others reach this process; empty: found out
};

void add_access_options(CLI::App& app, ClusterAccess& access);

/// Checks that others reach `listen` at `access.host` (empty: at `listen.host`), which may be no
/// wildcard; a loopback address serves this host only. Errc::invalid_argument, with the remedy.
Expected<void> check_reach(const ClusterAccess& access, const control::Address& listen);

/// Options of an actor system that takes part in a cluster. Errors of load_credentials.
/// Errc::invalid_argument if access.host is a wildcard.
Expected<control::SystemOptions> system_options(const ClusterAccess& access);

/// Returns what the processes of this one are to be told: {"--keys", DIR} or {"--insecure"}.
std::vector<std::string> access_words(const ClusterAccess& access);

/// RANK, WORLD_SIZE (nodes), MASTER_ADDR, MASTER_PORT, as ROLL's launch scripts set them.
struct RankStart {
  uint32_t rank = 0;
  uint32_t nodes = 1;
  control::Address head;
};

/// Returns nothing if WORLD_SIZE is absent or 1; Errc::invalid_argument names the variable that is
/// missing or no number.
Expected<std::optional<RankStart>> rank_start();

/// Returns `text`, or `text` with the head's port; port 0, any, only to listen.
Expected<control::Address> head_address(const std::string& text, bool is_to_listen = false);

/// Returns the path of the program that holds runs and cards (actor-node-run), beside this one.
std::string runner_path();

}  // namespace cohort
