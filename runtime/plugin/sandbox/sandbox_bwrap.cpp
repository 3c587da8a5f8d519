#include "runtime/plugin/sandbox/sandbox_bwrap.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace cohort::plugin {
namespace {

constexpr const char* k_way_out =
    "; or take --sandbox=rlimits: limits without isolation, for code that you trust";

std::string first_existing(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    if (::access(path.c_str(), X_OK) == 0) return path;
  return "";
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text, '\0');
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// Linux 5.14 counts RLIMIT_NPROC per user namespace, older ones over the whole machine.
bool counts_processes_per_namespace() {
  utsname name{};
  int major = 0, minor = 0;
  if (::uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 14);
}

/// Returns a limit for where other processes of the user count too: it never refuses what is
/// allowed, and a fork bomb still ends.
rlim_t shared_process_limit(uint32_t processes) {
  struct sysinfo info {};
  return ::sysinfo(&info) == 0 ? rlim_t{info.procs} + processes : rlim_t{processes};
}

/// Root alone may become someone else; ids far above those of people and packages.
uid_t fresh_user() {
  constexpr uid_t k_nobody = 65534;
  if (::geteuid() != 0) return 0;
  // In a container's user namespace (rootless podman) most ids do not exist.
  static const bool has_all_ids =
      text_of("/proc/self/uid_map").find("4294967295") != std::string::npos;
  if (!has_all_ids) return k_nobody;
  static std::atomic<uint32_t> count{0};
  constexpr uid_t k_first = 1'700'000'000, k_processes = 200'000, k_per_process = 1'000;
  return k_first + static_cast<uid_t>(::getpid()) % k_processes * k_per_process +
         count.fetch_add(1, std::memory_order_relaxed) % k_per_process;
}

void add(std::vector<std::string>& to, std::initializer_list<std::string> words) {
  to.insert(to.end(), words);
}

/// The system's programs and libraries, and of /etc what the loader and the compilers need.
std::vector<std::string> system_view() {
  std::vector<std::string> view{"--ro-bind", "/usr", "/usr"};
  for (const char* path : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    std::array<char, 256> target{};
    if (::readlink(path, target.data(), target.size() - 1) > 0)
      add(view, {"--symlink", target.data(), path});
    else if (::access(path, F_OK) == 0)
      add(view, {"--ro-bind", path, path});
  }
  add(view, {"--perms", "0755", "--dir", "/etc"});
  for (const char* path : {"/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"})
    if (::access(path, F_OK) == 0) add(view, {"--ro-bind", path, path});
  add(view, {"--proc", "/proc", "--tmpfs", "/dev"});
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    if (::access(path, F_OK) == 0) add(view, {"--dev-bind", path, path});
  add(view, {"--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "/proc/self/fd/0", "/dev/stdin",
             "--symlink", "/proc/self/fd/1", "/dev/stdout", "--symlink", "/proc/self/fd/2",
             "/dev/stderr"});
  return view;
}

/// Files for resolving a name and checking a certificate.
void add_network_files(std::vector<std::string>& argv) {
  for (const char* path : {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl",
                           "/etc/pki", "/etc/ca-certificates"})
    add(argv, {"--ro-bind-try", path, path});
}

struct Machine {
  std::string bwrap;    // path; empty: there is none
  std::string setpriv;  // for root
  bool has_tmp_size = false;
  std::vector<std::string> view;
};

bool has_option(const std::string& program, const std::string& option) {
  FILE* pipe = ::popen((program + " --help 2>&1").c_str(), "re");
  if (pipe == nullptr) return false;
  std::string text;
  std::array<char, 4096> buffer;
  for (size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), got);
  ::pclose(pipe);
  return text.find(option) != std::string::npos;
}

const Machine& machine() {
  static const Machine found = [] {
    Machine m;
    m.bwrap = first_existing({"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"});
    m.setpriv = first_existing({"/usr/bin/setpriv", "/bin/setpriv"});
    m.has_tmp_size = !m.bwrap.empty() && has_option(m.bwrap, "--size");
    m.view = system_view();
    return m;
  }();
  return found;
}

std::vector<std::pair<int, rlim_t>> limits_of(const SandboxLimits& limits) {
  return {{RLIMIT_AS, limits.memory_bytes},
          {RLIMIT_FSIZE, limits.file_bytes},
          {RLIMIT_NOFILE, limits.open_files},
          {RLIMIT_CORE, 0}};
}

/// A tmpfs has no size of its own but half of the machine's memory.
void add_tmpfs(std::vector<std::string>& argv, const std::string& path, uint64_t bytes) {
  if (machine().has_tmp_size) add(argv, {"--size", std::to_string(bytes)});
  add(argv, {"--perms", "1777", "--tmpfs", path});
}

/// Folders on the way to `path`, which bwrap would make for its own user alone. Below the system's
/// they are there.
void add_parents(std::vector<std::string>& argv, const std::string& path) {
  std::string first = path.substr(0, path.find('/', 1));
  for (const char* system :
       {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/dev"})
    if (first == system) return;
  size_t from = first == "/tmp" || first == "/etc" ? first.size() + 1 : 1;
  for (size_t slash = path.find('/', from); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    add(argv, {"--perms", "0755", "--dir", path.substr(0, slash)});
}

/// The user's folders, outer ones first, so that none hides another.
void add_folders(std::vector<std::string>& argv, const SandboxOptions& options) {
  std::vector<std::pair<std::string, const char*>> binds;
  for (const std::string& path : options.readable) binds.emplace_back(path, "--ro-bind");
  for (const std::string& path : options.writable) binds.emplace_back(path, "--bind");
  std::sort(binds.begin(), binds.end());
  for (const auto& [path, option] : binds) add_parents(argv, path);
  for (const auto& [path, option] : binds) add(argv, {option, path, path});
}

void add_view(std::vector<std::string>& argv, const SandboxOptions& options) {
  argv.insert(argv.end(), machine().view.begin(), machine().view.end());
  add_tmpfs(argv, "/dev/shm", options.limits.tmp_bytes);
  add_tmpfs(argv, "/tmp", options.limits.tmp_bytes);
  if (options.has_network) add_network_files(argv);
  add_folders(argv, options);
  // The tmpfs under it all would be writable for the user who made it.
  add(argv, {"--remount-ro", "/dev", "--remount-ro", "/"});
}

Expected<void> check_folders(const SandboxOptions& options) {
  for (const auto* list : {&options.readable, &options.writable})
    for (const std::string& path : *list) {
      if (path.empty() || path[0] != '/')
        return Error{Errc::invalid_argument,
                     fmt::format("sandbox: '{}' is not an absolute path", path)};
      if (::access(path.c_str(), F_OK) != 0)
        return Error{Errc::not_found, fmt::format("sandbox: {} is not there", path)};
    }
  return {};
}

}  // namespace

std::string refusal(const std::string& message) {
  std::string why = message.empty() ? "bwrap ended without a word" : message;
  std::string what;
  if (text_of("/proc/sys/kernel/unprivileged_userns_clone") == "0")
    what = "user namespaces are switched off: sysctl kernel.unprivileged_userns_clone=1";
  else if (text_of("/proc/sys/user/max_user_namespaces") == "0")
    what = "user namespaces are switched off: sysctl user.max_user_namespaces=15000";
  else if (text_of("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1")
    what =
        "AppArmor keeps user namespaces from bwrap: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for bwrap";
  else
    what =
        "in a container, start it with --privileged, or with --cap-add SYS_ADMIN "
        "--security-opt seccomp=unconfined --security-opt systempaths=unconfined";
  return fmt::format("sandbox: this machine gives no namespaces ({}): {}{}", why, what, k_way_out);
}

Expected<SpawnRequest> bubblewrap_request(const SandboxOptions& options) {
  const Machine& m = machine();
  if (m.bwrap.empty())
    return Error{
        Errc::unsupported,
        fmt::format("sandbox: no bwrap on this machine: apt install bubblewrap{}", k_way_out)};
  COHORT_TRY(check_folders(options));
  uid_t user = fresh_user();
  SpawnRequest request;
  request.limits = limits_of(options.limits);
  request.environment = options.environment;
  std::vector<std::string>& argv = request.argv;
  add(argv, {m.bwrap, "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--die-with-parent",
             "--new-session", "--unshare-cgroup-try", "--cap-drop", "ALL", "--seccomp",
             std::to_string(k_filter_descriptor), "--info-fd", std::to_string(k_info_descriptor),
             "--chdir", options.folder});
  if (!options.has_network) argv.push_back("--unshare-net");
  // Without a process 1 of bwrap's the program's end is that of its namespace.
  if (user == 0) add(argv, {"--as-pid-1", "--unshare-user", "--uid", "65534", "--gid", "65534"});
  add_view(argv, options);
  if (user != 0) {
    // Root makes the namespaces, and then goes: no user namespace to be allowed, folders that only
    // root can reach may be given, and the limit of processes counts this sandbox alone. bwrap's
    // own process 1 stays root's: bwrap has no right to signal another user when it dies.
    if (m.setpriv.empty())
      return Error{
          Errc::unsupported,
          fmt::format("sandbox: no setpriv on this machine: apt install util-linux{}", k_way_out)};
    std::string id = std::to_string(user);
    add(argv, {"--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP",
               m.setpriv, "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all",
               "--bounding-set=-all", "--"});
    request.limits.emplace_back(RLIMIT_NPROC, options.limits.processes);
  } else {
    // The limit of the user's namespace would hold for all of the user's processes: it is set
    // inside. dash calls it -p, bash -u.
    rlim_t processes = counts_processes_per_namespace()
                           ? options.limits.processes
                           : shared_process_limit(options.limits.processes);
    add(argv, {"/bin/sh", "-c",
               fmt::format("ulimit -u {0} 2>/dev/null || ulimit -p {0} || exit 125; exec \"$@\"",
                           processes),
               "sh"});
  }
  argv.insert(argv.end(), options.argv.begin(), options.argv.end());
  return request;
}

Expected<SpawnRequest> rlimits_request(const SandboxOptions& options) {
  COHORT_TRY(check_folders(options));
  SpawnRequest request;
  request.uid = fresh_user();
  request.limits = limits_of(options.limits);
  request.limits.emplace_back(RLIMIT_NPROC, request.uid != 0
                                                ? rlim_t{options.limits.processes}
                                                : shared_process_limit(options.limits.processes));
  request.environment = options.environment;
  request.argv = options.argv;
  request.folder = options.folder;
  request.has_own_session = true;
  return request;
}

}  // namespace cohort::plugin
