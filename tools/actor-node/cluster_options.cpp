#include "tools/actor-node/cluster_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/base/listen.hpp"

namespace cohort {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Expected<uint32_t> number_in(const char* name, uint32_t least, uint32_t most) {
  const std::string text = variable(name);
  uint32_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most)
    return Error{Errc::invalid_argument,
                 fmt::format("WORLD_SIZE is set, so {} must be a number of {} to {}, not \"{}\" "
                             "(unset WORLD_SIZE to run on this host alone)",
                             name, least, most, text)};
  return number;
}

/// Listens everywhere, and says nothing about where others find it.
bool is_wildcard(std::string_view host) { return host == "0.0.0.0" || host == "::"; }

std::string keys_of(const ClusterAccess& access) {
  return access.keys.empty() ? variable("COHORT_KEYS") : access.keys;
}

}  // namespace

void add_access_options(CLI::App& app, ClusterAccess& access) {
  app.add_option("--keys", access.keys,
                 "credentials of the cluster, made by `actor-node keys new DIR` (or COHORT_KEYS)");
  app.add_flag("--insecure", access.is_insecure,
               "no credentials: every host of this network may command the cluster");
  app.add_option("--host", access.host, "address by which other hosts reach this one");
}

Expected<void> check_reach(const ClusterAccess& access, const control::Address& listen) {
  if (access.host.empty() && is_wildcard(listen.host))
    return Error{Errc::invalid_argument,
                 fmt::format("--listen {} listens everywhere: say with --host by which address "
                             "other hosts reach this one",
                             listen.host)};
  if (access.host.empty() || is_loopback(access.host) || !is_loopback(listen.host)) return {};
  return Error{Errc::invalid_argument,
               fmt::format("--host {} only tells other hosts where this one is, and the head would "
                           "listen on {}, where they do not reach it: say --listen {} --keys DIR",
                           access.host, control::to_text(listen),
                           control::to_text({access.host, listen.port}))};
}

Expected<control::SystemOptions> system_options(const ClusterAccess& access) {
  if (is_wildcard(access.host))
    return Error{Errc::invalid_argument,
                 fmt::format("--host {} is no address at which other hosts find this one: name its "
                             "own, such as 10.0.0.1 (--listen says where a head listens)",
                             access.host)};
  control::SystemOptions options;
  options.scheduler_threads = 1;
  options.has_network = true;
  const std::string keys = keys_of(access);
  if (access.is_insecure && !access.keys.empty())
    return Error{Errc::invalid_argument, "--keys and --insecure exclude each other"};
  options.is_insecure = access.is_insecure;
  if (access.is_insecure || keys.empty()) return options;
  COHORT_ASSIGN(options.credentials, control::load_credentials(keys));
  return options;
}

std::vector<std::string> access_words(const ClusterAccess& access) {
  if (access.is_insecure) return {"--insecure"};
  const std::string keys = keys_of(access);
  if (keys.empty()) return {};
  return {"--keys", std::filesystem::absolute(keys).string()};
}

Expected<std::optional<RankStart>> rank_start() {
  if (variable("WORLD_SIZE").empty()) return std::optional<RankStart>();
  RankStart start;
  COHORT_ASSIGN(start.nodes, number_in("WORLD_SIZE", 1, 4096));
  if (start.nodes == 1) return std::optional<RankStart>();
  COHORT_ASSIGN(start.rank, number_in("RANK", 0, start.nodes - 1));
  start.head.host = variable("MASTER_ADDR");
  if (start.head.host.empty())
    return Error{Errc::invalid_argument,
                 "WORLD_SIZE is set, so MASTER_ADDR must be the address of the host with RANK 0"};
  start.head.port = k_head_port;
  if (!variable("MASTER_PORT").empty()) {
    COHORT_ASSIGN(uint32_t port, number_in("MASTER_PORT", 1, 65535));
    start.head.port = static_cast<uint16_t>(port);
  }
  return std::optional(start);
}

Expected<control::Address> head_address(const std::string& text, bool is_to_listen) {
  if (text.find(':') == std::string::npos) return control::Address{text, k_head_port};
  return control::parse_address(text, is_to_listen);
}

std::string runner_path() {
  std::error_code ignored;
  return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "actor-node-run")
      .string();
}

}  // namespace cohort
