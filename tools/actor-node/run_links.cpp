#include "tools/actor-node/run_links.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_name.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/observe/flow_page.hpp"
#include "runtime/observe/output_file.hpp"
#include "runtime/observe/status_reading.hpp"
#include "runtime/transport/link_book.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds k_period{500};
constexpr double k_asked_s = 10;  // a process goes on so long after the last look
constexpr double k_stale_s = 5;   // older numbers are none
constexpr milliseconds k_first_look{1000}, k_first_step{50};
constexpr std::string_view k_prefix = "links_", k_asked = "links.asked", k_new = ".new";

double wall_seconds() { return static_cast<double>(wall_time_us()) * 1e-6; }

std::string shown_host() {
  std::string host = host_name();
  std::ranges::replace(host, '/', '_');
  return host;
}

fs::path own_file(const fs::path& folder) {
  return folder / fmt::format("{}{}_{}", k_prefix, shown_host(), ::getpid());
}

/// When somebody looked last [ns of the file's clock]; 0: nobody has.
int64_t asked_at(const fs::path& folder) {
  struct stat at {};
  if (::stat((folder / k_asked).c_str(), &at) != 0) return 0;
  return int64_t{at.st_mtim.tv_sec} * 1'000'000'000 + at.st_mtim.tv_nsec;
}

void ask(const fs::path& folder) {
  const int file = ::open((folder / k_asked).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return;  // a folder that is only read: what is there is shown
  ::futimens(file, nullptr);
  ::close(file);
}

observe::LinkLine line_of(const transport::LinkEnd& end) {
  observe::LinkLine line;
  line.name = end.name;
  line.is_producer = end.is_producer;
  line.messages = end.stats.messages;
  line.bytes = end.stats.bytes;
  line.resent = end.stats.resent;
  line.queued_bytes = end.pending_bytes;
  line.queue_bytes_max = end.queue_bytes;
  line.credit_bytes = end.credit_bytes;
  return line;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with(k_prefix) && entry.path().extension() != k_new)
      found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

/// What a process has told.
struct Told {
  std::string process, host;
  pid_t pid = 0;
  double age_s = 0;
  std::vector<observe::LinkLine> links;
};

/// None: the file goes at this moment, is of another version, or its process is gone.
std::optional<Told> read_told(const fs::path& file) {
  const Expected<std::string> text = observe::read_file(file);
  if (!text) return std::nullopt;
  const json read = json::parse(*text, nullptr, false);
  if (read.is_discarded()) return std::nullopt;
  try {
    Told told;
    told.process = read.at("process");
    told.host = read.at("host");
    told.pid = read.at("pid");
    told.age_s = wall_seconds() - read.at("at").get<double>();
    if (told.host == host_name() && process_started(told.pid) == 0) return std::nullopt;
    auto flow = observe::read_flow_json(read.at("flow").dump());
    if (!flow || *flow == nullptr) return std::nullopt;
    told.links = (*flow)->links;
    return told;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::vector<Told> look(const fs::path& folder) {
  std::vector<Told> all;
  for (const fs::path& file : files_of(folder))
    if (auto told = read_told(file); told && told->age_s <= k_stale_s)
      all.push_back(std::move(*told));
  return all;
}

/// The processes that wait and have not told: gone, stopped, or without room on the disk.
std::vector<ProcessWaits> silent_of(const fs::path& folder, const std::vector<Told>& told) {
  std::vector<ProcessWaits> silent;
  for (const fs::path& file : waits_files(folder)) {
    auto process = read_waits(file);
    if (!process) continue;
    const bool has_told = std::ranges::any_of(told, [&](const Told& each) {
      return each.host == process->host && each.pid == process->pid;
    });
    if (!has_told) silent.push_back(std::move(*process));
  }
  return silent;
}

RunLinks shown(std::vector<Told> told, const std::vector<ProcessWaits>& silent) {
  constexpr size_t k_named = 3;
  std::set<std::string> hosts;
  for (const Told& each : told) hosts.insert(each.host);
  for (const ProcessWaits& each : silent) hosts.insert(each.host);
  const auto named = [&](const std::string& process, const std::string& host) {
    return hosts.size() > 1 ? process + " on " + host : process;
  };
  RunLinks found;
  for (Told& each : told)
    for (observe::LinkLine& line : each.links) {
      line.process = named(each.process, each.host);
      found.links.push_back(std::move(line));
    }
  for (size_t i = 0; i < std::min(k_named, silent.size()); ++i)
    found.note += (i == 0 ? "" : ", ") + named(silent[i].name, silent[i].host);
  if (silent.size() > k_named) found.note += fmt::format(" and {} more", silent.size() - k_named);
  if (!silent.empty()) found.note += ": no links are told";
  return found;
}

}  // namespace

Expected<void> write_links(const fs::path& folder, const std::string& process,
                           const std::vector<observe::LinkLine>& links) {
  observe::FlowView flow;
  flow.links = links;
  const json told = {{"process", process},
                     {"host", host_name()},
                     {"pid", ::getpid()},
                     {"at", wall_seconds()},
                     {"flow", json::parse(observe::flow_json(flow))}};
  const fs::path target = own_file(folder);
  fs::path fresh = target;
  fresh += k_new;
  std::ofstream file(fresh, std::ios::trunc);
  file << told.dump(-1, ' ', false, json::error_handler_t::replace);
  file.close();
  if (file && ::rename(fresh.c_str(), target.c_str()) == 0) return {};
  const int code = errno;
  ::unlink(fresh.c_str());
  return Error{Errc::io, fmt::format("{}: write: {}", target.string(), std::strerror(code))};
}

LinkTeller::LinkTeller(fs::path folder, std::string process)
    : folder_(std::move(folder)), process_(std::move(process)), thread_([this] { tell(); }) {}

LinkTeller::~LinkTeller() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
  std::error_code ignored;
  fs::remove(own_file(folder_), ignored);
}

void LinkTeller::tell() {
  int64_t seen = asked_at(folder_);
  double until = 0;
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, k_period, [this] { return is_ending_; })) {
    lock.unlock();
    if (const int64_t asked = asked_at(folder_); asked != seen) {
      seen = asked;
      until = now_seconds() + k_asked_s;
    }
    if (now_seconds() < until) {
      std::vector<observe::LinkLine> links;
      for (const transport::LinkEnd& end : transport::links_here()) links.push_back(line_of(end));
      // A full disk ends no run: the numbers grow old, and the page says so.
      auto written = write_links(folder_, process_, links);
      static_cast<void>(written);
    }
    lock.lock();
  }
}

RunLinks read_links(const fs::path& folder) {
  const bool is_first = wall_seconds() - static_cast<double>(asked_at(folder)) * 1e-9 > k_asked_s;
  ask(folder);
  std::vector<Told> told = look(folder);
  std::vector<ProcessWaits> silent = silent_of(folder, told);
  for (milliseconds waited{0}; is_first && !silent.empty() && waited < k_first_look;
       waited += k_first_step) {
    std::this_thread::sleep_for(k_first_step);
    told = look(folder);
    silent = silent_of(folder, told);
  }
  return shown(std::move(told), silent);
}

}  // namespace cohort
