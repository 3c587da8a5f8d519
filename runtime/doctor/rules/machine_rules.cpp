/// The machine itself: M01 to M07.
#include <fmt/format.h>

#include "runtime/base/text.hpp"
#include "runtime/doctor/rules/environment_rules.hpp"
#include "runtime/doctor/rules/hccl_rule_parts.hpp"

namespace cohort::doctor {
namespace {

constexpr uint64_t k_mib = uint64_t{1} << 20;
constexpr uint64_t k_gib = uint64_t{1} << 30;

std::string gib(uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(k_gib));
}

std::vector<Finding> done(std::vector<Finding> found, const Machine& machine) {
  for (Finding& finding : found) finding.host = machine.host;
  return found;
}

std::vector<Finding> check_m01(const Machine& x) {
  Findings found("M01");
  for (const std::string& fault : x.faults)
    found.add(x.platform == PlatformKind::npu && x.cards_listed == 0 ? Severity::error
                                                                     : Severity::warning,
              "tools", fault, "an answer",
              x.platform == PlatformKind::npu
                  ? "in a container: -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi -v "
                    "/usr/local/Ascend/driver:/usr/local/Ascend/driver"
                  : "");
  if (x.device_files > 0 && x.cards_listed > x.device_files)
    found.add(Severity::warning, "device files",
              fmt::format("{} of {} cards have one", x.device_files, x.cards_listed),
              "each card that the job uses under /dev",
              x.platform == PlatformKind::npu ? "docker run --device /dev/davinci<k> …"
                                              : "docker run --gpus all …");
  if (!x.wanted_platform.empty() && x.wanted_platform != to_string(x.platform) &&
      x.wanted_platform != "cpu")
    found.add(Severity::error, "platform", fmt::format("{}: {}", to_string(x.platform), x.evidence),
              fmt::format("{}, as the config says", x.wanted_platform), "platform=cpu");
  return done(
      std::move(found).or_ok("platform", fmt::format("{}: {}", to_string(x.platform), x.evidence)),
      x);
}

std::vector<Finding> check_m02(const Machine& x) {
  constexpr uint64_t k_least = 2 * k_gib;  // the default budget of one cpu card
  Findings found("M02");
  if (!x.memory_bytes) return done(std::move(found).or_skipped("memory", "not read"), x);
  if (x.memory_wanted_bytes > 0 && *x.memory_bytes < x.memory_wanted_bytes)
    found.add(Severity::warning, "memory", gib(*x.memory_bytes) + " available",
              gib(x.memory_wanted_bytes) + ", the budgets of the config's cards together",
              "cards.memory_bytes=… or fewer cards in device_mapping");
  else if (x.memory_wanted_bytes == 0 && *x.memory_bytes < k_least)
    found.add(Severity::warning, "memory", gib(*x.memory_bytes) + " available",
              gib(k_least) + ", the budget of one card", "");
  return done(std::move(found).or_ok("memory", gib(*x.memory_bytes) + " available"), x);
}

std::vector<Finding> check_m03(const Machine& x) {
  Findings found("M03");
  if (x.cores == 0) return done(std::move(found).or_skipped("cores", "not read"), x);
  if (x.threads_wanted > x.cores)
    found.add(Severity::warning, "cores", std::to_string(x.cores),
              fmt::format("{}: cards times threads_per_card of the config", x.threads_wanted),
              "cards.threads_per_card=1");
  return done(std::move(found).or_ok("cores", std::to_string(x.cores)), x);
}

std::vector<Finding> check_m04(const Machine& x) {
  constexpr uint64_t k_docker_default = 64 * k_mib;
  Findings found("M04");
  if (!x.shm_bytes)
    return done(std::move(found).or_skipped("/dev/shm", "not there or not readable"), x);
  if (*x.shm_bytes <= k_docker_default)
    found.add(Severity::warning, "/dev/shm", fmt::format("{} MiB", *x.shm_bytes / k_mib),
              "some GiB: collectives between processes and data loaders live there",
              "docker run --ipc=host … or --shm-size=16g");
  return done(std::move(found).or_ok("/dev/shm", gib(*x.shm_bytes)), x);
}

std::vector<Finding> check_m05(const Machine& x) {
  // Each link and each rank takes a few; ROLL's NPU containers ask for 65536.
  constexpr uint64_t k_cards = 65536, k_cpu = 1024;
  Findings found("M05");
  uint64_t wanted = x.platform == PlatformKind::cpu ? k_cpu : k_cards;
  if (!x.open_files) return done(std::move(found).or_skipped("open files", "not read"), x);
  if (*x.open_files < wanted)
    found.add(
        Severity::warning, "open files", std::to_string(*x.open_files), std::to_string(wanted),
        fmt::format("ulimit -n {}  (docker run --ulimit nofile={}:{})", wanted, wanted, wanted));
  return done(std::move(found).or_ok("open files", std::to_string(*x.open_files)), x);
}

std::vector<Finding> check_m06(const Machine& x) {
  Findings found("M06");
  if (x.blas.empty())
    return done(std::move(found).or_skipped("BLAS", "none is loaded in this program"), x);
  bool is_fast = false;
  for (const char* name : {"openblas", "mkl", "blis"})
    is_fast = is_fast || x.blas.find(name) != std::string::npos;
  if (!is_fast)
    found.add(Severity::warning, "BLAS", x.blas,
              "OpenBLAS: the reference BLAS is many times slower",
              "apt-get install libopenblas0-pthread");
  return done(std::move(found).or_ok("BLAS", x.blas), x);
}

std::vector<Finding> check_m07(const Machine& x) {
  constexpr uint64_t k_least = k_gib;
  Findings found("M07");
  if (!x.disk_bytes) return done(std::move(found).or_skipped("disk", "not read"), x);
  std::string seen = fmt::format("{} free at {}", gib(*x.disk_bytes), x.disk_path);
  if (*x.disk_bytes < x.disk_wanted_bytes)
    found.add(Severity::error, "disk", seen, gib(x.disk_wanted_bytes), "output_dir=…");
  else if (*x.disk_bytes < k_least)
    found.add(Severity::warning, "disk", seen, gib(k_least) + " for stream and checkpoints",
              "output_dir=…");
  return done(std::move(found).or_ok("disk", seen), x);
}

}  // namespace

std::string_view to_string(PlatformKind x) { return name_in({"cpu", "cuda", "npu"}, x); }

std::vector<Finding> check_machine(const Machine& machine) {
  return run_rules(machine,
                   {check_m01, check_m02, check_m03, check_m04, check_m05, check_m06, check_m07});
}

}  // namespace cohort::doctor
