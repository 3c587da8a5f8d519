#include "runtime/doctor/probes/probe.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/doctor/probes/system_text.hpp"
#include "runtime/doctor/probes/tool_output.hpp"
#include "runtime/doctor/rules/hccl_products.hpp"
#include "runtime/platform/process.hpp"

namespace cohort::doctor {
namespace {

namespace fs = std::filesystem;

/// One external program. Thread-safe: ask() may be called from several threads.
class Tool {
 public:
  Tool(std::string name, const ProbeOptions& options) : name_(std::move(name)), options_(options) {
    path_ = platform::find_program(name_, value_of_path());
    // Where the Ascend driver and the distributions put them when PATH does not say.
    if (path_.empty())
      for (const char* folder : {"/usr/local/Ascend/driver/tools", "/usr/local/bin",
                                 "/usr/local/sbin", "/usr/sbin", "/sbin"})
        if (path_.empty()) path_ = platform::find_program(name_, options.sysroot + folder);
  }
  bool is_found() const { return !path_.empty(); }
  const std::string& name() const { return name_; }

  /// Returns what the tool printed. Errc::closed when it hung before and is not asked again.
  Expected<std::string> ask(const std::vector<std::string>& arguments) {
    if (is_hung_) return Error{Errc::closed, name_ + " hung before"};
    std::vector<std::string> argv{path_};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    platform::CommandOptions command{.time_limit = options_.time_limit, .env = options_.env};
    auto result = platform::run_command_line(argv, command);
    std::string asked = fmt::format("{} {}", name_, fmt::join(arguments, " "));
    if (!result) {
      if (result.error().code == Errc::timeout) note_hang(asked);
      return result.error();
    }
    if (result->exit_code != 0)
      return Error{Errc::io, fmt::format("{}: exit code {}: {}", asked, result->exit_code,
                                         printable(trim(result->output), 100))};
    return std::move(result->output);
  }

  /// The first question, in letter order, that got no answer in time; empty: none.
  std::string hang() const {
    if (hung_on_.empty()) return "";
    return fmt::format("{}: no answer in {:.1f} s, killed; {} was not asked again", hung_on_,
                       std::chrono::duration<double>(options_.time_limit).count(), name_);
  }

 private:
  std::string value_of_path() const {
    auto path = options_.env.find("PATH");
    return path == options_.env.end() ? "" : path->second;
  }
  void note_hang(const std::string& asked) {
    std::lock_guard lock(mutex_);
    is_hung_ = true;
    if (hung_on_.empty() || asked < hung_on_) hung_on_ = asked;
  }

  std::string name_, path_;
  const ProbeOptions& options_;
  std::atomic<bool> is_hung_ = false;
  std::mutex mutex_;
  std::string hung_on_;
};

/// Runs the jobs on up to `threads` threads; each job is run once.
void run_all(const std::vector<std::function<void()>>& jobs, unsigned threads) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) jobs[i]();
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 1; i < std::min<size_t>(threads, jobs.size()); ++i) workers.emplace_back(work);
  work();
}

class Probe {
 public:
  explicit Probe(const ProbeOptions& options)
      : options_(options),
        npu_smi_("npu-smi", options),
        hccn_("hccn_tool", options),
        nvidia_("nvidia-smi", options) {}

  HostReport run() {
    report_.host.env = options_.env;
    read_system();
    read_machine();
    uint32_t npu_files = device_files("davinci"), gpu_files = device_files("nvidia");
    if (npu_files > 0 || npu_smi_.is_found()) read_npu(npu_files);
    if (report_.machine.platform == PlatformKind::cpu && (gpu_files > 0 || nvidia_.is_found()))
      read_gpu(gpu_files);
    if (report_.machine.platform == PlatformKind::cpu)
      report_.machine.evidence =
          "no NPU and no GPU: neither /dev/davinci* nor /dev/nvidia*, no card "
          "from npu-smi or nvidia-smi";
    else
      read_firewall();
    return std::move(report_);
  }

 private:
  std::optional<std::string> read(const std::string& path) const {
    return read_text(options_.sysroot + path, size_t{8} << 20);  // /proc/net/tcp of 50,000 sockets
  }
  std::optional<uint64_t> read_number(const std::string& path) const {
    auto text = read(path);
    return text ? parse_number(*text) : std::nullopt;
  }
  std::vector<std::string> names_in(const std::string& folder) const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(options_.sysroot + folder, error), end;
         !error && entry != end && names.size() < k_max_cards * 4; entry.increment(error))
      names.push_back(entry->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  uint32_t device_files(std::string_view prefix) const {
    uint32_t count = 0;
    for (const std::string& name : names_in("/dev"))
      if (name.starts_with(prefix) && parse_number(name.substr(prefix.size()))) ++count;
    return count;
  }

  void read_system();
  void read_machine();
  void read_npu(uint32_t files);
  void list_cards(uint32_t files);
  void read_versions();
  void read_cards();
  void ask_card(std::vector<std::function<void()>>& jobs, Card& card);
  void read_gpu(uint32_t files);
  void read_firewall();

  const ProbeOptions& options_;
  Tool npu_smi_, hccn_, nvidia_;
  HostReport report_;
  std::optional<uint32_t> first_npu_;
};

void Probe::read_system() {
  Host& host = report_.host;
  host.name = std::string(trim(read("/proc/sys/kernel/hostname").value_or("this host")));
  auto u32 = [&](const char* path) {
    auto value = read_number(path);
    return value ? std::optional(static_cast<uint32_t>(std::min<uint64_t>(*value, UINT32_MAX)))
                 : std::nullopt;
  };
  host.somaxconn = u32("/proc/sys/net/core/somaxconn");
  host.tcp_max_syn_backlog = u32("/proc/sys/net/ipv4/tcp_max_syn_backlog");
  if (auto text = read("/proc/sys/net/ipv4/ip_local_reserved_ports"))
    if (auto ranges = parse_port_ranges(*text)) host.reserved_ports = *ranges;
  if (auto text = read("/proc/sys/net/ipv4/ip_local_port_range"))
    host.ephemeral_ports = parse_port_range(*text);
  std::optional<std::string> tcp = read("/proc/net/tcp"), tcp6 = read("/proc/net/tcp6");
  if (tcp || tcp6)
    host.listen_ports = parse_proc_net_tcp(tcp.value_or("") + "\n" + tcp6.value_or(""));
  if (auto names = names_in("/sys/class/net"); !names.empty()) host.interfaces = std::move(names);
  auto exists = [&](const char* path) {
    std::error_code error;
    return fs::exists(options_.sysroot + path, error);
  };
  host.is_container = exists("/.dockerenv") || exists("/run/.containerenv") ||
                      options_.env.contains("KUBERNETES_SERVICE_HOST");
}

void Probe::read_machine() {
  Machine& machine = report_.machine;
  machine.host = report_.host.name;
  if (auto text = read("/proc/meminfo")) machine.memory_bytes = parse_mem_available(*text);
  auto limit = read_number("/sys/fs/cgroup/memory.max");
  auto used = read_number("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    uint64_t left = *limit - std::min(*limit, *used);
    machine.memory_bytes = std::min(machine.memory_bytes.value_or(left), left);
  }
  machine.cores = std::thread::hardware_concurrency();
  struct statvfs info {};
  if (::statvfs((options_.sysroot + "/dev/shm").c_str(), &info) == 0)
    machine.shm_bytes = uint64_t{info.f_blocks} * info.f_frsize;
  struct rlimit files {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) machine.open_files = files.rlim_cur;
  machine.blas = parse_loaded_blas(read("/proc/self/maps").value_or(""));
  // The run's folder need not exist yet: its nearest parent does.
  std::error_code error;
  fs::path path = fs::absolute(options_.disk_path, error);
  while (!path.empty() && !fs::exists(path, error) && path != path.parent_path())
    path = path.parent_path();
  machine.disk_path = path.string();
  if (::statvfs(path.c_str(), &info) == 0)
    machine.disk_bytes = uint64_t{info.f_bavail} * info.f_frsize;
}

/// Fills report_.host.cards and the series, from npu-smi or, without it, the device files.
void Probe::list_cards(uint32_t files) {
  Machine& machine = report_.machine;
  Expected<NpuSmiInfo> info = Error{Errc::not_found,
                                    "npu-smi is neither on PATH nor under "
                                    "/usr/local: cards were not listed"};
  if (npu_smi_.is_found()) {
    auto text = npu_smi_.ask({"info"});
    info = text ? parse_npu_smi_info(*text) : text.error();
  }
  if (info) {
    machine.cards_listed = static_cast<uint32_t>(info->cards.size());
    report_.host.versions.driver = info->version;
    for (const NpuSmiCard& x : info->cards) {
      if (!first_npu_) first_npu_ = x.npu_id;
      if (report_.series == Series::unknown)
        report_.series = series_of(x.name, x.hbm_mib, info->dies_per_npu);
      Card card;
      card.device_id = x.device_id;
      card.name = x.name;
      card.health = x.health;
      card.hbm_mib = x.hbm_mib;
      report_.host.cards.push_back(std::move(card));
    }
    std::sort(report_.host.cards.begin(), report_.host.cards.end(),
              [](const Card& a, const Card& b) { return a.device_id < b.device_id; });
    return;
  }
  machine.faults.push_back(npu_smi_.hang().empty() ? info.error().detail : npu_smi_.hang());
  for (const std::string& name : names_in("/dev"))
    if (auto id = parse_number(std::string_view(name).substr(std::min<size_t>(7, name.size())));
        name.starts_with("davinci") && id && *id < k_max_cards && files > 0) {
      Card card;
      card.device_id = static_cast<uint32_t>(*id);
      report_.host.cards.push_back(std::move(card));
    }
}

void Probe::read_versions() {
  Versions& versions = report_.host.versions;
  if (first_npu_ && npu_smi_.is_found()) {
    auto text = npu_smi_.ask({"info", "-t", "board", "-i", std::to_string(*first_npu_)});
    auto board = text ? parse_npu_board(*text) : text.error();
    if (board) {
      if (!board->software.empty()) versions.driver = board->software;
      versions.firmware = board->firmware;
      if (!board->compatibility.empty() && board->compatibility != "OK" &&
          board->compatibility != "NA")
        report_.machine.faults.push_back("driver and firmware do not fit: Compatibility " +
                                         board->compatibility);
    }
  }
  auto value = [&](const std::string& path, std::string_view key) {
    auto text = read(path);
    return text ? parse_version_info(*text, key).value_or("") : std::string();
  };
  if (versions.driver.empty())
    versions.driver = value("/usr/local/Ascend/driver/version.info", "Version");
  if (versions.firmware.empty())
    versions.firmware = value("/usr/local/Ascend/firmware/version.info", "Version");
  std::vector<std::string> homes;
  for (const char* name : {"ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"})
    if (auto home = options_.env.find(name); home != options_.env.end())
      homes.push_back(home->second);
  homes.insert(homes.end(), {"/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann"});
  for (const std::string& home : homes)
    for (const char* arch : {"/aarch64-linux", "/x86_64-linux"})
      if (versions.cann.empty())
        versions.cann = value(home + arch + "/ascend_toolkit_install.info", "version");
}

/// Appends the queries of one card. Each job writes fields of this card only; jobs of one card
/// share `faults`, so they are one job.
void Probe::ask_card(std::vector<std::function<void()>>& jobs, Card& card) {
  jobs.push_back([this, &card] {
    std::string id = std::to_string(card.device_id);
    auto ask = [&](std::vector<std::string> what, auto parse, auto take) {
      std::vector<std::string> arguments{"-i", id};
      arguments.insert(arguments.end(), what.begin(), what.end());
      auto text = hccn_.ask(arguments);
      // A hang is told once, for the whole tool.
      if (!text && (text.error().code == Errc::timeout || text.error().code == Errc::closed))
        return;
      auto value = text ? parse(std::string_view(*text)) : decltype(parse(""))(text.error());
      if (value)
        take(*value);
      else
        card.faults.push_back(
            text ? fmt::format("hccn_tool {}: {}", fmt::join(arguments, " "), value.error().detail)
                 : value.error().detail);
    };
    ask({"-ip", "-g"}, parse_hccn_ip, [&](const DeviceAddress& x) {
      card.is_ip_read = true;
      if (!x.address.empty()) card.ip = x.address;
      if (!x.netmask.empty()) card.netmask = x.netmask;
    });
    ask({"-link", "-g"}, parse_hccn_link, [&](bool x) { card.is_link_up = x; });
    ask({"-net_health", "-g"}, parse_hccn_net_health, [&](int x) { card.net_health = x; });
    ask({"-netdetect", "-g"}, parse_hccn_netdetect,
        [&](const std::string& x) { card.netdetect = x; });
    ask({"-tls", "-g"}, parse_hccn_tls, [&](bool x) { card.is_tls_on = x; });
    ask({"-lldp", "-g"}, parse_hccn_lldp, [&](bool x) { card.has_lldp_neighbour = x; });
    for (const std::string& address : options_.ping_addresses)
      ask({"-ping", "-g", "address", address}, parse_hccn_ping, [&](double x) {
        card.pings.push_back({address, x});
      });
  });
}

void Probe::read_cards() {
  if (!hccn_.is_found()) {
    report_.machine.faults.push_back(
        "hccn_tool is neither on PATH nor in /usr/local/Ascend/driver/tools: device addresses, "
        "links and TLS were not read");
    return;
  }
  std::vector<std::function<void()>> jobs;
  for (Card& card : report_.host.cards) ask_card(jobs, card);
  run_all(jobs, std::max(1U, options_.parallel));
  if (!hccn_.hang().empty()) report_.machine.faults.push_back(hccn_.hang());
}

void Probe::read_npu(uint32_t files) {
  Machine& machine = report_.machine;
  list_cards(files);
  bool is_npu = files > 0 || !report_.host.cards.empty();
  if (!is_npu) return;  // npu-smi is installed, no card is there: M01 shows its fault
  machine.platform = PlatformKind::npu;
  machine.device_files = files;
  read_versions();
  read_cards();
  const auto& cards = report_.host.cards;
  std::string name = cards.empty() || cards.front().name.empty() ? "NPU" : cards.front().name;
  machine.evidence =
      fmt::format("{} x {}, series {}, driver {}", cards.size(), name, to_string(report_.series),
                  report_.host.versions.driver.empty() ? "?" : report_.host.versions.driver);
}

void Probe::read_gpu(uint32_t files) {
  Machine& machine = report_.machine;
  Expected<std::vector<GpuCard>> cards = Error{Errc::not_found, "nvidia-smi is not on PATH"};
  if (nvidia_.is_found()) {
    auto text = nvidia_.ask(
        {"--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits"});
    cards = text ? parse_nvidia_smi(*text) : text.error();
  }
  if (!cards)
    machine.faults.push_back(nvidia_.hang().empty() ? cards.error().detail : nvidia_.hang());
  size_t count = cards ? cards->size() : 0;
  if (files == 0 && count == 0) return;
  machine.platform = PlatformKind::cuda;
  machine.device_files = files;
  machine.cards_listed = static_cast<uint32_t>(count);
  if (cards)
    for (const GpuCard& x : *cards)
      report_.gpus.push_back(fmt::format("{} {} {} MiB", x.index, x.name, x.memory_mib));
  machine.evidence = count > 0 ? fmt::format("{} x {}, driver {}", count, cards->front().name,
                                             cards->front().driver)
                               : fmt::format("{} device files /dev/nvidia*", files);
}

void Probe::read_firewall() {
  for (auto [name, firewall, arguments] :
       {std::tuple("ufw", "ufw", std::vector<std::string>{"status"}),
        std::tuple("firewall-cmd", "firewalld", std::vector<std::string>{"--state"})}) {
    Tool tool(name, options_);
    if (!tool.is_found()) continue;
    auto text = tool.ask(arguments);
    // firewall-cmd says "not running" with exit code 252.
    auto state = parse_firewall(text ? std::string_view(*text)
                                     : std::string_view(text.error().detail)
                                           .substr(std::min(text.error().detail.size(),
                                                            text.error().detail.rfind(": ") + 2)));
    if (!state) continue;
    report_.host.is_firewall_on = *state;
    report_.host.firewall = firewall;
    if (*state) return;
  }
}

}  // namespace

std::optional<std::string> read_text(const std::string& path, size_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  char buffer[65536];
  while (text.size() < max_bytes && (file.read(buffer, sizeof(buffer)), file.gcount() > 0))
    text.append(buffer, static_cast<size_t>(file.gcount()));
  return text;
}

HostReport probe_host(const ProbeOptions& options) { return Probe(options).run(); }

}  // namespace cohort::doctor
