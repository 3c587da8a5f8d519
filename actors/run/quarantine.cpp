#include "actors/run/quarantine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/observe/output_file.hpp"

namespace cohort::actors {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QuarantineEntry, prompt, tag, seed, kind, step, group, deaths,
                                   time_us)

namespace {

std::optional<QuarantineEntry> parse(const std::string& line) {
  try {
    return nlohmann::json::parse(line).get<QuarantineEntry>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Error io(const std::filesystem::path& path, const char* what) {
  return {Errc::io, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno))};
}

}  // namespace

std::string to_json(const QuarantineEntry& entry) {
  nlohmann::ordered_json json = {{"prompt", entry.prompt}, {"tag", entry.tag},
                                 {"seed", entry.seed},     {"kind", entry.kind},
                                 {"step", entry.step},     {"group", entry.group},
                                 {"deaths", entry.deaths}, {"time_us", entry.time_us}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Expected<Quarantine> Quarantine::open(const std::filesystem::path& run_folder) {
  Quarantine found;
  found.path_ = run_folder / "quarantine.jsonl";
  std::error_code failed;
  const bool is_there = std::filesystem::exists(found.path_, failed);
  if (failed) return Error{Errc::io, fmt::format("{}: {}", found.path_.string(), failed.message())};
  if (!is_there) return found;
  COHORT_ASSIGN(std::string text, observe::read_file(found.path_));
  size_t number = 0;
  size_t whole = 0;
  for (size_t end; (end = text.find('\n', whole)) != std::string::npos; whole = end + 1) {
    ++number;
    if (end == whole) continue;
    auto entry = parse(text.substr(whole, end - whole));
    if (!entry)
      return Error{Errc::corrupt,
                   fmt::format("{}:{} is no entry of a quarantine: mend the line or delete it",
                               found.path_.string(), number)};
    std::string prompt = entry->prompt;
    found.entries_.insert_or_assign(std::move(prompt), std::move(*entry));
  }
  if (whole < text.size())
    if (::truncate(found.path_.c_str(), static_cast<off_t>(whole)) != 0)
      return io(found.path_, "cut the last line of");
  return found;
}

Expected<void> Quarantine::add(const QuarantineEntry& entry) {
  const std::string line = to_json(entry) + "\n";
  int file = ::open(path_.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return io(path_, "open");
  const bool is_written =
      ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      ::fsync(file) == 0;
  Error error = io(path_, "write");
  ::close(file);
  if (!is_written) return error;
  entries_.insert_or_assign(entry.prompt, entry);
  return {};
}

}  // namespace cohort::actors
