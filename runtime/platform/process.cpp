#include "runtime/platform/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>

#include "runtime/base/descriptor.hpp"

extern char** environ;

namespace cohort::platform {
namespace {

using Clock = std::chrono::steady_clock;

/// What posix_spawn needs, released together.
class SpawnSetup {
 public:
  explicit SpawnSetup(int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    // A child must not inherit blocked signals, or its own timeouts never fire.
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

Expected<pid_t> spawn(const std::vector<std::string>& argv, const CommandOptions& options,
                      int output) {
  std::vector<std::string> arguments = argv, variables;
  for (const auto& [name, value] : options.env) variables.push_back(name + "=" + value);
  std::vector<char*> argument_pointers = pointers_of(arguments);
  std::vector<char*> variable_pointers = pointers_of(variables);
  SpawnSetup setup(output);
  pid_t pid = 0;
  int error = posix_spawn(&pid, argv[0].c_str(), setup.actions(), setup.attributes(),
                          argument_pointers.data(), variable_pointers.data());
  if (error != 0)
    return Error{Errc::not_found, fmt::format("{}: {}", argv[0], std::strerror(error))};
  return pid;
}

/// Reads until the end or the limit. True: the end came.
bool read_until(int fd, Clock::time_point deadline, size_t max_bytes, CommandResult& result) {
  std::array<char, 4096> buffer;
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd item{fd, POLLIN, 0};
    int ready = ::poll(&item, 1, static_cast<int>(std::min<int64_t>(left.count(), 60000)));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    size_t room = max_bytes - std::min(max_bytes, result.output.size());
    size_t taken = std::min(room, static_cast<size_t>(count));
    result.output.append(buffer.data(), taken);
    result.is_cut = result.is_cut || taken < static_cast<size_t>(count);
  }
}

/// Reaps the child; nothing when it has not ended by the deadline.
std::optional<int> reap(pid_t pid, Clock::time_point deadline) {
  // The pipe is closed already, so the child is about to end: a short wait is enough as a rule.
  constexpr std::chrono::milliseconds k_pause{2};
  for (;;) {
    int status = 0;
    pid_t done = ::waitpid(pid, &status, WNOHANG);
    if (done == pid) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (done < 0 && errno != EINTR) return 127;
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(k_pause);
  }
}

void kill_group(pid_t pid) {
  ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Expected<CommandResult> run_command_line(const std::vector<std::string>& argv,
                                         const CommandOptions& options) {
  if (argv.empty()) return Error{Errc::invalid_argument, "run_command_line: no program"};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Error{Errc::io, fmt::format("pipe: {}", std::strerror(errno))};
  Descriptor reader(ends[0]), writer(ends[1]);
  COHORT_ASSIGN(pid_t pid, spawn(argv, options, writer.get()));
  writer.close();
  auto deadline = Clock::now() + options.time_limit;
  CommandResult result;
  std::optional<int> code;
  if (read_until(reader.get(), deadline, options.max_output_bytes, result))
    code = reap(pid, deadline);
  if (!code) {
    kill_group(pid);
    return Error{Errc::timeout,
                 fmt::format("{}: killed after {:.1f} s", argv[0],
                             std::chrono::duration<double>(options.time_limit).count())};
  }
  result.exit_code = *code;
  return result;
}

std::string find_program(const std::string& name, const std::string& path) {
  for (std::string_view rest = path; !rest.empty();) {
    size_t colon = rest.find(':');
    std::string folder(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    struct stat info {};
    if (::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return "";
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    size_t equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0)
      env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

uint64_t anonymous_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0, shared = 0;  // [pages]
  if (!(file >> size >> resident >> shared) || shared > resident) return 0;
  return (resident - shared) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace cohort::platform
