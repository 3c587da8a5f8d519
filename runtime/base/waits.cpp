#include "runtime/base/waits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_name.hpp"

namespace cohort {
namespace {

constexpr std::array<char, 8> k_magic{'c', 'h', 'w', 'a', 'i', 't', 's', '3'};
constexpr int k_read_tries = 1000;

/// A place in the mapping. `turn` is odd while it is written: a reader of another process takes
/// what it has read if the turn was even and is the same behind it.
struct Slot {
  std::atomic<uint32_t> turn;
  uint8_t is_used, level;
  uint8_t spare[2];
  int32_t pid;
  uint32_t spare_end;
  double since;
  char who[64], what[128], ends_by[64], where[128];
};

struct Head {
  std::array<char, 8> magic;
  int32_t pid;
  uint32_t slots;
  uint64_t started;
  std::atomic<uint64_t> left_out;
  char name[64], host[64];
};

struct Table {
  Head head;
  Slot slots[k_waits_max];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

template <size_t N>
std::string text_of(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}

/// The waits of this process: one, as its log is.
class Registry {
 public:
  static Registry& here() {
    static Registry registry;
    return registry;
  }
  ~Registry() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  int add(const WaitText& text) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      ++table_->head.left_out;
      return -1;
    }
    const int slot = free_.back();
    free_.pop_back();
    write(slot, [&](Slot& to) {
      to.level = static_cast<uint8_t>(text.level);
      to.pid = text.pid;
      to.since = text.since > 0 ? text.since : now_seconds();
      put(to.who, text.who);
      put(to.what, text.what);
      put(to.ends_by, text.ends_by);
      to.where[0] = '\0';
      to.is_used = 1;
    });
    return slot;
  }
  void remove(int slot) {
    std::lock_guard lock(mutex_);
    write(slot, [](Slot& to) { to.is_used = 0; });
    free_.push_back(slot);
  }
  template <class Change>
  void change(int slot, const Change& change) {
    std::lock_guard lock(mutex_);
    write(slot, change);
  }
  Expected<void> publish(const std::filesystem::path& folder, std::string_view name);

 private:
  Registry() {
    void* memory =
        ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    table_ = static_cast<Table*>(memory);
    for (int slot = k_waits_max; slot > 0; --slot) free_.push_back(slot - 1);
    fill_head(*table_, "");
  }
  static void fill_head(Table& table, std::string_view name) {
    table.head.magic = k_magic;
    table.head.pid = ::getpid();
    table.head.slots = k_waits_max;
    table.head.started = process_started(::getpid());
    put(table.head.name, name);
    put(table.head.host, host_name());
  }
  template <class Change>
  void write(int slot, const Change& change) {
    Slot& to = table_->slots[slot];
    to.turn.fetch_add(1, std::memory_order_acq_rel);
    change(to);
    to.turn.fetch_add(1, std::memory_order_release);
  }

  std::mutex mutex_;
  Table* table_ = nullptr;
  std::vector<int> free_;
  std::string path_;  // of the file; empty: in memory alone
};

Error io_error(const std::filesystem::path& path, const char* what, int code) {
  return {Errc::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(code))};
}

Expected<void> Registry::publish(const std::filesystem::path& folder, std::string_view name) {
  // Hosts share the folder, and a process id may be that of another host's process too.
  std::string host = host_name();
  std::ranges::replace(host, '/', '_');
  const std::filesystem::path path = folder / fmt::format("waits_{}_{}", host, ::getpid());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(path, "open", errno);
  // Every page is there before it is mapped: on a full disk a write to a hole would be a SIGBUS.
  const int code = ::posix_fallocate(fd, 0, sizeof(Table));
  void* memory = MAP_FAILED;
  if (code == 0) memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int map_code = errno;
  ::close(fd);
  if (memory == MAP_FAILED) {
    ::unlink(path.c_str());
    return io_error(path, code == 0 ? "mmap" : "reserve", code == 0 ? map_code : code);
  }
  std::lock_guard lock(mutex_);
  std::memcpy(memory, static_cast<const void*>(table_), sizeof(Table));
  ::munmap(table_, sizeof(Table));
  table_ = static_cast<Table*>(memory);
  fill_head(*table_, name);
  path_ = path.string();
  return {};
}

std::optional<WaitEntry> entry_of(const Slot& slot) {
  Slot copy;
  for (int tries = 0; tries < k_read_tries; ++tries) {
    const uint32_t before = slot.turn.load(std::memory_order_acquire);
    std::memcpy(static_cast<void*>(&copy), static_cast<const void*>(&slot), sizeof copy);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole = before % 2 == 0 && slot.turn.load(std::memory_order_relaxed) == before;
    if (!is_whole) continue;
    if (copy.is_used == 0) return std::nullopt;
    WaitEntry entry;
    entry.level = static_cast<WaitLevel>(
        std::min<uint8_t>(copy.level, static_cast<uint8_t>(WaitLevel::outside)));
    entry.who = text_of(copy.who);
    entry.what = text_of(copy.what);
    entry.ends_by = text_of(copy.ends_by);
    entry.where = text_of(copy.where);
    entry.pid = copy.pid;
    entry.since = copy.since;
    return entry;
  }
  return std::nullopt;  // its process was stopped while it wrote
}

ProcessWaits waits_of(const Table& table) {
  ProcessWaits found;
  found.pid = table.head.pid;
  found.name = text_of(table.head.name);
  found.host = text_of(table.head.host);
  found.started = table.head.started;
  found.left_out = table.head.left_out;
  for (const Slot& slot : table.slots)
    if (auto entry = entry_of(slot)) found.waits.push_back(std::move(*entry));
  return found;
}

/// Of processes of this host that are gone.
void remove_stale(const std::filesystem::path& folder) {
  for (const std::filesystem::path& path : waits_files(folder)) {
    auto waits = read_waits(path);
    std::error_code ignored;
    if (waits && waits->host == host_name() && process_started(waits->pid) != waits->started)
      std::filesystem::remove(path, ignored);
  }
}

}  // namespace

std::string_view to_string(WaitLevel level) {
  constexpr std::string_view k_names[] = {"run", "step", "role", "link", "call", "outside"};
  return k_names[static_cast<size_t>(level)];
}

Wait::Wait(const WaitText& text) : slot_(Registry::here().add(text)) {}
Wait::Wait(Wait&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}
Wait& Wait::operator=(Wait&& other) noexcept {
  if (this == &other) return *this;
  end();
  slot_ = std::exchange(other.slot_, -1);
  return *this;
}
void Wait::moved() {
  if (slot_ >= 0) Registry::here().change(slot_, [](Slot& to) { to.since = now_seconds(); });
}
void Wait::set_where(std::string_view where) {
  if (slot_ >= 0) Registry::here().change(slot_, [&](Slot& to) { put(to.where, where); });
}
void Wait::end() {
  if (slot_ >= 0) Registry::here().remove(std::exchange(slot_, -1));
}

Expected<void> publish_waits(const std::filesystem::path& folder, std::string_view name) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return io_error(folder, "make", failed.value());
  remove_stale(folder);
  return Registry::here().publish(folder, name);
}

Expected<ProcessWaits> read_waits(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(file, "open", errno);
  const off_t size = ::lseek(fd, 0, SEEK_END);
  void* memory = MAP_FAILED;
  if (size >= static_cast<off_t>(sizeof(Table)))
    memory = ::mmap(nullptr, sizeof(Table), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  const Error not_one{Errc::corrupt, file.string() + ": no waits of a process of this version"};
  if (memory == MAP_FAILED) return not_one;
  const Table& table = *static_cast<const Table*>(memory);
  const bool is_one = table.head.magic == k_magic && table.head.slots == k_waits_max;
  Expected<ProcessWaits> found = is_one ? Expected<ProcessWaits>(waits_of(table)) : not_one;
  ::munmap(memory, sizeof(Table));
  return found;
}

std::vector<std::filesystem::path> waits_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("waits_")) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

uint64_t process_started(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(in, line)) return 0;
  const size_t end = line.rfind(')');  // the name may hold anything
  if (end == std::string::npos) return 0;
  std::istringstream fields(line.substr(end + 1));
  std::string field;
  constexpr int k_start_field = 20;  // the 22nd of all
  for (int i = 0; i < k_start_field; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

}  // namespace cohort
