#include "tools/actor-node/run_files.hpp"

#include <algorithm>
#include <fstream>
#include <functional>

#include "runtime/base/read_file.hpp"
#include "runtime/observe/thinned.hpp"
#include "tools/actor-node/run_waits.hpp"
#include "tools/traj/flat_config.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr size_t k_rows_shown = 512, k_config_bytes_max = size_t{4} << 20;

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "metrics.jsonl", ignored);
}

/// Runs of one experiment lie in one folder, named by the time of their start.
std::vector<fs::path> runs_beside(const fs::path& run) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entry(run.parent_path(), failed), end; !failed && entry != end;
       entry.increment(failed))
    if (entry->path() != run && is_run(entry->path())) found.push_back(entry->path());
  std::ranges::sort(found, std::greater());
  if (found.size() > k_choices_max) found.resize(k_choices_max);
  return found;
}

void add(const fs::path& folder, std::vector<NamedRun>& to) {
  if (std::ranges::find(to, folder, &NamedRun::folder) != to.end()) return;
  std::string name = folder.filename().string();
  if (std::ranges::find(to, name, &NamedRun::name) != to.end())
    name = (folder.parent_path().filename() / name).string();
  if (std::ranges::find(to, name, &NamedRun::name) != to.end()) name = folder.string();
  to.push_back({std::move(name), folder});
}

}  // namespace

std::vector<NamedRun> comparable_runs(const fs::path& run, const std::vector<fs::path>& others) {
  std::vector<NamedRun> runs;
  add(run, runs);
  for (const fs::path& other : others) add(other, runs);
  for (const fs::path& beside : runs_beside(run)) add(beside, runs);
  return runs;
}

observe::ComparedRun read_compared(const NamedRun& run) {
  observe::ComparedRun out;
  out.name = run.name;
  std::ifstream in(run.folder / "metrics.jsonl");
  if (!in) out.error = (run.folder / "metrics.jsonl").string() + " cannot be read";
  observe::Thinned<observe::MetricRow> rows(k_rows_shown);
  for (std::string line; std::getline(in, line);)
    if (auto row = observe::MetricRow::from_json(line); row && row->step() > 0)
      rows.push(std::move(*row));
  out.rows = rows.values();
  if (auto yaml = read_file(run.folder / "config.yaml", k_config_bytes_max))
    out.config = traj::flat_config(*yaml);
  return out;
}

observe::LogView read_log(const fs::path& run, const std::string& file) {
  observe::LogView view;
  std::error_code failed;
  for (fs::directory_iterator entry(run / "log", failed), end; !failed && entry != end;
       entry.increment(failed))
    if (entry->is_regular_file(failed)) view.files.push_back(entry->path().filename().string());
  std::ranges::sort(view.files);
  view.file = file.empty() && !view.files.empty() ? view.files.front() : file;
  if (view.file.empty()) return view;
  if (std::ranges::find(view.files, view.file) == view.files.end()) {
    view.error = "the run has no log of that name";
    return view;
  }
  std::ifstream in(run / "log" / view.file, std::ios::binary | std::ios::ate);
  const auto size = static_cast<uint64_t>(std::max<std::streamoff>(0, in.tellg()));
  view.left_out_bytes = size > k_log_bytes_shown ? size - k_log_bytes_shown : 0;
  in.seekg(static_cast<std::streamoff>(view.left_out_bytes));
  view.text.resize(static_cast<size_t>(size - view.left_out_bytes));
  in.read(view.text.data(), static_cast<std::streamsize>(view.text.size()));
  view.text.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  if (const size_t line = view.text.find('\n');
      view.left_out_bytes > 0 && line != std::string::npos) {
    view.left_out_bytes += line + 1;
    view.text.erase(0, line + 1);
  }
  return view;
}

namespace {

// Beside the waits, since it ends with the run as they do.
fs::path pages_file(const fs::path& run) { return waits_folder(run) / "pages"; }

}  // namespace

Expected<void> write_pages_address(const fs::path& run, const std::string& url) {
  std::error_code ignored;
  fs::create_directories(waits_folder(run), ignored);
  std::ofstream out(pages_file(run));
  if (out << url << "\n" << std::flush) return {};
  return Error{Errc::io, pages_file(run).string() + ": cannot be written"};
}

std::string read_pages_address(const fs::path& run) {
  std::ifstream in(pages_file(run));
  std::string url;
  std::getline(in, url);
  return url;
}

}  // namespace cohort
