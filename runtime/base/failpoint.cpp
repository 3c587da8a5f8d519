#include "runtime/base/failpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/clock.hpp"

namespace cohort::failpoint {

// Constant-initialised: a point that is passed before `from_environment` below is not armed.
std::atomic<bool> detail::is_armed = false;

namespace {

constexpr size_t k_points_max = 16;
constexpr int k_slow_ms = 100;

enum class Action : uint8_t { kill, stop, fail, hang, slow, page };

struct Point {
  std::string name;
  uint64_t count = 0;
  Action action = Action::kill;
  std::string claim;
  std::atomic<uint64_t> passed = 0;
  std::atomic<bool> is_slow = false;
};

std::deque<Point>& points() {
  static std::deque<Point> armed;
  return armed;
}

Error unreadable(std::string_view entry) {
  return {
      Errc::invalid_argument,
      fmt::format(
          "COHORT_FAILPOINT: \"{}\" is not name:count:kill|stop|fail|hang|slow|page[:claim file]",
          entry)};
}

Expected<void> add(std::string_view entry, std::deque<Point>& armed) {
  std::array<std::string_view, 4> fields;
  std::string_view rest = entry;
  for (size_t i = 0; i < fields.size(); ++i) {
    size_t colon = i + 1 == fields.size() ? std::string_view::npos : rest.find(':');
    fields[i] = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
  }
  uint64_t count = 0;
  const char* end = fields[1].data() + fields[1].size();
  auto read = std::from_chars(fields[1].data(), end, count);
  constexpr std::array<std::pair<std::string_view, Action>, 6> k_actions = {
      {{"kill", Action::kill},
       {"stop", Action::stop},
       {"fail", Action::fail},
       {"hang", Action::hang},
       {"slow", Action::slow},
       {"page", Action::page}}};
  const auto* action = std::find_if(k_actions.begin(), k_actions.end(),
                                    [&](const auto& each) { return each.first == fields[2]; });
  if (fields[0].empty() || read.ec != std::errc{} || read.ptr != end || count == 0 ||
      action == k_actions.end())
    return unreadable(entry);
  if (armed.size() == k_points_max)
    return Error{Errc::invalid_argument,
                 fmt::format("COHORT_FAILPOINT: more than {} points", k_points_max)};
  Point& point = armed.emplace_back();
  point.name = fields[0];
  point.count = count;
  point.action = action->second;
  point.claim = fields[3];
  return {};
}

/// Returns true if this process is the one to act.
bool claim(const Point& point) {
  if (point.claim.empty()) return true;
  int file = ::open(point.claim.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  std::string text = fmt::format("{} {} {}\n", point.name, ::getpid(), wall_time_us());
  [[maybe_unused]] ssize_t written = ::write(file, text.data(), text.size());
  ::close(file);
  return true;
}

/// As a process whose memory does not fit: each page that it touches comes from a disk. Returns if
/// the system does not let it.
void page_forever() {
  constexpr size_t k_bytes = 16 << 20, k_page = 4096;
  std::FILE* file = std::tmpfile();
  if (file == nullptr) return;
  const int fd = ::fileno(file);
  const std::string block(k_bytes, 'x');
  if (::write(fd, block.data(), k_bytes) != k_bytes || ::fsync(fd) != 0) return;
  void* memory = ::mmap(nullptr, k_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED || ::madvise(memory, k_bytes, MADV_RANDOM) != 0) return;
  volatile const char* bytes = static_cast<const char*>(memory);
  for (size_t at = 0;; at = (at + k_page) % k_bytes) {
    if (at == 0 && (::madvise(memory, k_bytes, MADV_DONTNEED) != 0 ||
                    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0))
      return;
    static_cast<void>(bytes[at]);
  }
}

bool act(Point& point) {
  const Action action = point.action;
  if (action == Action::fail) return true;
  if (action == Action::slow) {
    point.is_slow = true;
    return false;
  }
  if (action == Action::page) page_forever();
  if (action == Action::kill || action == Action::stop)
    ::kill(::getpid(), action == Action::kill ? SIGKILL : SIGSTOP);
  // The signal may reach another thread first: this one does not pass the point before.
  if (action != Action::stop)
    for (;;) ::pause();
  return false;
}

[[maybe_unused]] const bool from_environment = [] {
  const char* text = std::getenv("COHORT_FAILPOINT");
  if (text == nullptr) return false;
  if (auto armed = arm(text); !armed) {
    std::fprintf(stderr, "error: %s\n", armed.error().detail.c_str());
    std::_Exit(2);
  }
  return true;
}();

}  // namespace

bool detail::pass(std::string_view name) {
  bool is_to_fail = false;  // every point of this name counts
  for (Point& point : points()) {
    if (point.name != name) continue;
    if (++point.passed == point.count && claim(point)) is_to_fail = act(point) || is_to_fail;
    if (point.is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(k_slow_ms));
  }
  return is_to_fail;
}

Expected<void> arm(std::string_view text) {
  std::deque<Point> armed;
  while (!text.empty()) {
    size_t end = text.find(';');
    COHORT_TRY(add(text.substr(0, end), armed));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  points().swap(armed);
  detail::is_armed = !points().empty();
  return {};
}

}  // namespace cohort::failpoint
