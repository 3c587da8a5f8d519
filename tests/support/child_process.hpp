#pragma once
/// Child processes for integration tests: start, wait with a limit, kill. Owner: the test. Every
/// wait has an end.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace cohort::test {

/// Returns the path of one of our programs: in COHORT_BIN_DIR, else beside this program or in bin/
/// beside its folder (tests lie in build/PRESET/tests, programs and benches in build/PRESET/bin).
inline std::string binary(const std::string& name) {
  if (const char* folder = std::getenv("COHORT_BIN_DIR")) return std::string(folder) + "/" + name;
  std::error_code failed;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const auto beside = here / name;
  return (std::filesystem::exists(beside, failed) ? beside : here / "../bin" / name).string();
}

/// The bytes of a file, or those that could be read. A file of /proc may fail in the middle: its
/// process has ended since it was opened (ESRCH), where an iterator over the file would throw.
inline std::string slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Polls `condition` until it holds or `limit_ms` are over; returns whether it holds.
inline bool wait_until(const std::function<bool()>& condition, int limit_ms) {
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
    ::usleep(500);
  }
  return true;
}

class Process {
 public:
  Process(const std::vector<std::string>& command, const TempFolder& folder)
      : out_(folder.path() / ("out." + std::to_string(counter()++))), err_(out_.string() + ".err") {
    pid_ = ::fork();
    if (pid_ == 0) {
      redirect(out_, STDOUT_FILENO);
      redirect(err_, STDERR_FILENO);
      std::vector<char*> arguments;
      for (const std::string& argument : command)
        arguments.push_back(const_cast<char*>(argument.c_str()));
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
  }
  ~Process() {
    if (pid_ > 0 && !is_done_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  bool is_running() {
    poll();
    return !is_done_;
  }
  /// Returns the exit code, -signal if it was killed, or -1000 if `limit_ms` passed (then it is
  /// killed).
  int wait(int limit_ms = 60000) {
    if (!wait_until(
            [this] {
              poll();
              return is_done_;
            },
            limit_ms)) {
      send(SIGKILL);
      ::waitpid(pid_, &status_, 0);
      is_done_ = true;
      return -1000;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }
  std::string out() const { return slurp(out_); }
  std::string err() const { return slurp(err_); }

 private:
  static int& counter() {
    static int count = 0;
    return count;
  }
  static void redirect(const std::filesystem::path& path, int fd) {
    int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    ::dup2(file, fd);
  }
  void poll() {
    if (!is_done_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) is_done_ = true;
  }
  std::filesystem::path out_, err_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool is_done_ = false;
};

}  // namespace cohort::test
