#include "tools/actor-node/run_browser.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <list>

#include "runtime/base/clock.hpp"
#include "runtime/observe/metrics.hpp"
#include "runtime/stream/stream_file.hpp"
#include "tools/actor-node/run_files.hpp"
#include "tools/actor-node/run_flow.hpp"
#include "tools/actor-node/step_index.hpp"
#include "tools/actor-node/step_reading.hpp"
#include "tools/traj/trajectory_page.hpp"

namespace cohort {
namespace {

using observe::BrowseAddress;
using observe::ComparedRun;
using observe::FlowView;
using observe::LogView;
using observe::StepList;
using observe::StepView;
using observe::TokenPage;
using observe::TrajectoryPage;

constexpr int k_nice = 10;           // as the dashboard's server
constexpr double k_slice_s = 0.004;  // of following and of reading a step, in one pass
constexpr double k_asked_s = 10;     // a page that nobody has asked for since is not read on
constexpr double k_partly_s = 0.1;   // between two pictures of a step that is being read
constexpr size_t k_shelf = 8;        // steps, and pages of trajectories, that are kept
constexpr double k_fresh_s = 0.3;    // less than a page waits before it looks again
constexpr size_t k_follow_batch = 256;
constexpr size_t k_coloured_max = 16384;  // tokens of a page that shows all columns: some 4 MB
constexpr double k_flow_every_s = 0.9, k_flow_fresh_s = 2, k_flow_old_s = 5;

struct StepKey {
  uint64_t step = 0;
  std::string where;
  bool operator==(const StepKey&) const = default;
};

struct PageKey {
  TrajectoryKey key;
  size_t page = 0;
  bool operator==(const PageKey&) const = default;
};

/// What has been asked for last, and the answers.
template <class Key, class Value>
class Shelf {
 public:
  void ask(const Key& key) {
    const auto found = std::ranges::find(places_, key, &Place::key);
    if (found == places_.end())
      places_.push_front({key, nullptr, 0});
    else
      places_.splice(places_.begin(), places_, found);
    places_.front().asked = now_seconds();
    if (places_.size() > k_shelf) places_.pop_back();
  }
  std::shared_ptr<const Value> find(const Key& key) const {
    const auto found = std::ranges::find(places_, key, &Place::key);
    return found == places_.end() ? nullptr : found->value;
  }
  /// Whether what is known has been looked at so lately that nobody waits for another look.
  bool is_fresh(const Key& key) const {
    const auto found = std::ranges::find(places_, key, &Place::key);
    return found != places_.end() && found->value != nullptr &&
           now_seconds() - found->looked_at < k_fresh_s;
  }
  void put(const Key& key, std::shared_ptr<const Value> value) {
    const auto found = std::ranges::find(places_, key, &Place::key);
    if (found == places_.end()) return;
    found->value = std::move(value);
    found->looked_at = now_seconds();
  }
  /// Returns what has been asked for since it was last looked at, and what somebody looks at and is
  /// not all there; with what is known of it.
  template <class IsWhole>
  std::vector<std::pair<Key, std::shared_ptr<const Value>>> wanted(const IsWhole& is_whole) const {
    std::vector<std::pair<Key, std::shared_ptr<const Value>>> out;
    for (const Place& place : places_)
      if (place.asked > place.looked_at ||
          (now_seconds() - place.asked < k_asked_s && !is_whole(place.value)))
        out.emplace_back(place.key, place.value);
    return out;
  }

 private:
  struct Place {
    Key key;
    std::shared_ptr<const Value> value;
    double asked = 0, looked_at = 0;
  };
  std::list<Place> places_;
};

std::optional<TrajectoryKey> key_of(const BrowseAddress& at) {
  for (int i = 0; i < 4; ++i)
    if (const auto kind = static_cast<TrajectoryKind>(i); to_string(kind) == at.kind)
      return TrajectoryKey{kind, at.step, at.group, at.index};
  return std::nullopt;
}

std::shared_ptr<const TrajectoryPage> without(std::string error) {
  auto page = std::make_shared<TrajectoryPage>();
  page->error = std::move(error);
  return page;
}

}  // namespace

struct RunBrowser::Shelves {
  std::shared_ptr<const StepList> steps;
  double steps_looked_at = 0;
  Shelf<StepKey, StepView> views;
  Shelf<PageKey, TrajectoryPage> pages;
  Shelf<TrajectoryKey, TokenPage> coloured;
  Shelf<std::string, ComparedRun> runs;
  Shelf<std::string, LogView> logs;
  std::vector<std::string> choices;  // of runs
  bool wants_choices = false;
  std::shared_ptr<const FlowView> flow;
  double flow_looked_at = 0;
  bool wants_flow = false;
};

/// What one pass is to do, with what is known already, and does.
struct RunBrowser::Work {
  uint64_t questions = 0;
  std::shared_ptr<const StepList> steps;
  std::vector<std::pair<StepKey, std::shared_ptr<const StepView>>> views;
  std::vector<std::pair<PageKey, std::shared_ptr<const TrajectoryPage>>> pages;
  std::vector<std::pair<TrajectoryKey, std::shared_ptr<const TokenPage>>> coloured;
  std::vector<std::pair<std::string, std::shared_ptr<const ComparedRun>>> runs;
  std::vector<std::pair<std::string, std::shared_ptr<const LogView>>> logs;
  bool wants_choices = false;
  std::vector<std::string> choices;
  bool wants_flow = false;
  std::shared_ptr<const FlowView> flow;
};

/// What the thread holds. A pass takes a few milliseconds.
class RunBrowser::Reading {
 public:
  explicit Reading(RunBrowserOptions options) : options_(std::move(options)) {}

  /// Opens the stream if it is there now; takes in what has been appended.
  void follow() {
    error_.clear();
    if (auto followed = try_follow(); !followed) {
      is_at_end_ = true;
      error_ = followed.error().detail;
    }
  }
  std::shared_ptr<const StepList> list() {
    auto list = std::make_shared<StepList>();
    list->error = error_;
    list->is_whole = is_at_end_;
    if (!index_) return list;
    const double until = now_seconds() + k_slice_s;
    list->steps.reserve(index_->steps().size());
    for (const auto& [number, step] : index_->steps())
      list->steps.push_back(line_of_step(number, step, until, list->is_whole));
    return list;
  }

  /// Returns `known` if that is what the stream still has.
  std::shared_ptr<const TrajectoryPage> page(const PageKey& wanted,
                                             const std::shared_ptr<const TrajectoryPage>& known) {
    if (!index_) return error_.empty() ? nullptr : without(error_);
    const auto places = index_->places(wanted.key.step);
    if (!places) return without(places.error().detail);
    const auto& newest = (*places)->newest;
    const auto found = newest.find(wanted.key);
    if (found == newest.end())
      return is_at_end_ ? without("The stream has no such trajectory.") : nullptr;
    auto in_group = [&](const TrajectoryKey& other) -> std::optional<uint32_t> {
      if (other.kind != wanted.key.kind || other.group != wanted.key.group) return std::nullopt;
      return other.index;
    };
    std::optional<uint32_t> previous, next;
    if (found != newest.begin()) previous = in_group(std::prev(found)->first);
    if (std::next(found) != newest.end()) next = in_group(std::next(found)->first);
    if (known != nullptr && known->record == found->second.number && known->previous == previous &&
        known->next == next)
      return known;
    auto record = reader_->read(found->second);
    auto x = record ? record->trajectory() : Expected<proto::Trajectory>(record.error());
    if (!x) return without(x.error().detail);
    auto page = std::make_shared<TrajectoryPage>(
        traj::page_of(found->second, *x, options_.tokenizer.get(), wanted.page));
    page->previous = previous;
    page->next = next;
    return page;
  }

  /// Null if there is none.
  std::shared_ptr<const TokenPage> coloured(const TrajectoryKey& key) {
    if (!index_) return nullptr;
    const auto places = index_->places(key.step);
    if (!places || !(*places)->newest.contains(key)) return nullptr;
    const stream::RecordInfo& info = (*places)->newest.at(key);
    const auto record = reader_->read(info);
    const auto x = record ? record->trajectory() : Expected<proto::Trajectory>(record.error());
    if (!x) return nullptr;
    return std::make_shared<TokenPage>(
        traj::coloured_of(info, *x, options_.tokenizer.get(), k_coloured_max));
  }

  /// Returns a new picture of the step, or `known` if another has to wait. Reads until `until`, at
  /// least one record.
  std::shared_ptr<const StepView> view(const StepKey& wanted,
                                       const std::shared_ptr<const StepView>& known, double until) {
    Kept& kept = keep(wanted);
    bool is_new = known == nullptr;
    if (index_) {
      if (auto places = index_->places(wanted.step)) kept.step.follow(**places);
      kept.has_changed |= kept.step.read(*reader_, until);
      is_new |=
          kept.has_changed && (kept.step.is_whole() || now_seconds() - kept.shown > k_partly_s);
    }
    if (!is_new) return known;
    kept.has_changed = false;
    kept.shown = now_seconds();
    auto view = kept.step.view();
    if (is_at_end_ && error_.empty()) return view;
    auto partly = std::make_shared<StepView>(*view);
    partly->is_whole = false;
    if (partly->error.empty()) partly->error = error_;
    return partly;
  }
  /// Returns whether all that there is of the step has been read.
  bool is_whole(const StepKey& wanted) { return keep(wanted).step.is_whole(); }

  std::vector<std::string> choices() {
    runs_ = comparable_runs(options_.run, options_.others);
    std::vector<std::string> names;
    for (const NamedRun& run : runs_) names.push_back(run.name);
    return names;
  }
  std::shared_ptr<const ComparedRun> compared(const std::string& name,
                                              const std::shared_ptr<const ComparedRun>& known) {
    const auto run = std::ranges::find(runs_, name, &NamedRun::name);
    auto read = std::make_shared<ComparedRun>();
    read->name = name;
    read->error = "there is no such run beside this one";
    if (run == runs_.end()) return read;
    std::error_code failed;
    const uintmax_t bytes = std::filesystem::file_size(run->folder / "metrics.jsonl", failed);
    auto [size, is_new] = compared_bytes_.try_emplace(name, bytes);
    if (known != nullptr && !is_new && size->second == bytes) return known;
    size->second = bytes;
    *read = read_compared(*run);
    return read;
  }
  /// Looked at once a second at most: it takes k_flow_window.
  std::shared_ptr<const FlowView> flow() {
    if (flow_ != nullptr && now_seconds() - flow_at_ < k_flow_every_s) return flow_;
    flow_ = std::make_shared<const FlowView>(read_flow(options_.run, links_));
    flow_at_ = now_seconds();
    return flow_;
  }
  LogView log(const std::string& file) const { return read_log(options_.run, file); }

 private:
  struct Kept {
    StepKey key;
    StepReading step;
    bool has_changed = false;
    double shown = 0;
  };

  Expected<void> try_follow() {
    if (!index_) {
      COHORT_ASSIGN(const std::filesystem::path folder, stream::folder_of(options_.run));
      COHORT_ASSIGN(StepIndex index, StepIndex::open(folder));
      COHORT_ASSIGN(stream::Reader reader, stream::Reader::open(folder));
      index_ = std::move(index);
      reader_ = std::move(reader);
    }
    const double until = now_seconds() + k_slice_s;
    do {
      COHORT_ASSIGN(is_at_end_, index_->follow(k_follow_batch));
    } while (!is_at_end_ && now_seconds() < until);
    return {};
  }

  /// The results of many steps are read in several passes: `is_whole` becomes false until then.
  observe::StepLine line_of_step(uint64_t number, const StepIndex::Step& step, double until,
                                 bool& is_whole) {
    observe::StepLine line;
    line.step = number;
    line.trajectories = step.trajectories;
    if (!step.result) return line;
    auto known = results_.find(number);
    if (known == results_.end() || known->second.record != step.result->number) {
      if (now_seconds() > until) {
        is_whole = false;
        return line;
      }
      known = results_.insert_or_assign(number, read_result(*step.result)).first;
    }
    line.numbers = known->second.numbers;
    return line;
  }

  struct Result {
    uint64_t record = 0;
    decltype(observe::StepLine::numbers) numbers = observe::StepLine().numbers;
  };
  Result read_result(const stream::RecordInfo& info) {
    Result result;
    result.record = info.number;
    const auto record = reader_->read(info);
    if (!record) return result;
    const auto row = observe::MetricRow::from_json(record->text());
    for (size_t i = 0; row && i < result.numbers.size(); ++i)
      result.numbers[i] =
          row->number(observe::k_step_columns[i].first).value_or(observe::k_not_measured);
    return result;
  }

  Kept& keep(const StepKey& wanted) {
    const auto found = std::ranges::find(kept_, wanted, &Kept::key);
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
    } else {
      kept_.push_front({wanted, StepReading(wanted.step, wanted.where), false, 0});
      if (kept_.size() > k_shelf) kept_.pop_back();
    }
    return kept_.front();
  }

  const RunBrowserOptions options_;
  std::optional<StepIndex> index_;
  std::optional<stream::Reader> reader_;
  bool is_at_end_ = false;
  std::string error_;
  std::map<uint64_t, Result> results_;
  std::list<Kept> kept_;  // the last asked for first
  std::vector<NamedRun> runs_;
  std::shared_ptr<const FlowView> flow_;
  double flow_at_ = 0;
  LinkSample links_;
  std::map<std::string, uintmax_t> compared_bytes_;  // of metrics.jsonl, when it was read
};

RunBrowser::RunBrowser(RunBrowserOptions options)
    : shelves_(std::make_unique<Shelves>()),
      reading_(std::make_unique<Reading>(std::move(options))),
      thread_([this](const std::stop_token& stop) { read(stop); }) {}

RunBrowser::~RunBrowser() = default;

RunBrowser::Work RunBrowser::work_now() const {
  Work work;
  work.questions = questions_;
  const auto is_there = [](const auto& value) { return value != nullptr; };
  work.views =
      shelves_->views.wanted([](const auto& view) { return view != nullptr && view->is_whole; });
  work.pages = shelves_->pages.wanted(is_there);
  work.coloured = shelves_->coloured.wanted(is_there);
  work.runs = shelves_->runs.wanted(is_there);
  work.logs = shelves_->logs.wanted(is_there);
  work.wants_choices = shelves_->wants_choices;
  work.wants_flow = shelves_->wants_flow;
  return work;
}

/// Returns whether nothing is left to be read.
bool RunBrowser::carry_out(Work& work) {
  reading_->follow();
  work.steps = reading_->list();
  bool is_whole = work.steps->is_whole;
  for (auto& [key, page] : work.pages) page = reading_->page(key, page);
  for (auto& [key, page] : work.coloured)
    if (page == nullptr) page = reading_->coloured(key);
  const double until = now_seconds() + k_slice_s;
  for (auto& [key, view] : work.views) {
    view = reading_->view(key, view, until);
    is_whole &= reading_->is_whole(key);
  }
  if (work.wants_choices) work.choices = reading_->choices();
  if (work.wants_flow) work.flow = reading_->flow();
  for (auto& [name, run] : work.runs) run = reading_->compared(name, run);
  for (auto& [file, log] : work.logs) log = std::make_shared<const LogView>(reading_->log(file));
  return is_whole;
}

void RunBrowser::take(Work& work) {
  shelves_->steps = std::move(work.steps);
  shelves_->steps_looked_at = now_seconds();
  for (auto& [key, page] : work.pages) shelves_->pages.put(key, std::move(page));
  for (auto& [key, view] : work.views) shelves_->views.put(key, std::move(view));
  for (auto& [key, page] : work.coloured) shelves_->coloured.put(key, std::move(page));
  for (auto& [name, run] : work.runs) shelves_->runs.put(name, std::move(run));
  for (auto& [file, log] : work.logs) shelves_->logs.put(file, std::move(log));
  if (work.wants_choices) {
    shelves_->choices = std::move(work.choices);
    shelves_->wants_choices = false;
  }
  if (work.wants_flow) {
    shelves_->flow = std::move(work.flow);
    shelves_->flow_looked_at = now_seconds();
    shelves_->wants_flow = false;
  }
  answered_ = work.questions;
}

void RunBrowser::read(const std::stop_token& stop) {
  ::setpriority(PRIO_PROCESS, 0, k_nice);  // of this thread; a hint
  std::unique_lock lock(mutex_);
  bool is_whole = true;
  while (!stop.stop_requested()) {
    // Half-read pages are read on without being asked again, for as long as somebody looks.
    if (is_whole && !asked_.wait(lock, stop, [this] { return questions_ > answered_; })) return;
    Work work = work_now();
    lock.unlock();
    is_whole = carry_out(work);
    lock.lock();
    take(work);
    passed_.notify_all();
  }
}

void RunBrowser::wait_for_a_pass(std::unique_lock<std::mutex>& lock, bool is_fresh) {
  const uint64_t question = ++questions_;
  asked_.notify_one();
  if (is_fresh) return;
  passed_.wait_for(lock, std::chrono::milliseconds(k_browse_answer_ms),
                   [&] { return answered_ >= question; });
}

std::shared_ptr<const StepList> RunBrowser::steps() {
  std::unique_lock lock(mutex_);
  wait_for_a_pass(lock, now_seconds() - shelves_->steps_looked_at < k_fresh_s);
  return shelves_->steps;
}

std::shared_ptr<const StepView> RunBrowser::step(uint64_t step, const std::string& where) {
  std::unique_lock lock(mutex_);
  shelves_->views.ask({step, where});
  wait_for_a_pass(lock, shelves_->views.is_fresh({step, where}));
  return shelves_->views.find({step, where});
}

std::shared_ptr<const TrajectoryPage> RunBrowser::trajectory(const BrowseAddress& at) {
  const auto key = key_of(at);
  if (!key) return without(fmt::format("'{}' is no kind of trajectory.", at.kind));
  std::unique_lock lock(mutex_);
  shelves_->pages.ask({*key, at.page});
  wait_for_a_pass(lock, shelves_->pages.is_fresh({*key, at.page}));
  return shelves_->pages.find({*key, at.page});
}

std::shared_ptr<const TokenPage> RunBrowser::coloured(const BrowseAddress& at) {
  const auto key = key_of(at);
  if (!key) return nullptr;
  std::unique_lock lock(mutex_);
  shelves_->coloured.ask(*key);
  shelves_->coloured.put(*key, nullptr);  // a later record may have replaced the one that it shows
  wait_for_a_pass(lock);
  return shelves_->coloured.find(*key);
}

observe::Comparison RunBrowser::compare(const std::vector<std::string>& names) {
  std::unique_lock lock(mutex_);
  shelves_->wants_choices = true;
  if (shelves_->choices.empty()) wait_for_a_pass(lock);
  observe::Comparison compared;
  compared.choices = shelves_->choices;
  std::vector<std::string> wanted = names;
  if (wanted.empty() && !compared.choices.empty()) wanted.push_back(compared.choices.front());
  if (wanted.size() > observe::k_compared_runs) wanted.resize(observe::k_compared_runs);
  for (const std::string& name : wanted) shelves_->runs.ask(name);
  wait_for_a_pass(lock);
  for (const std::string& name : wanted) compared.runs.push_back(shelves_->runs.find(name));
  return compared;
}

std::shared_ptr<const FlowView> RunBrowser::flow() {
  std::unique_lock lock(mutex_);
  shelves_->wants_flow = true;
  wait_for_a_pass(lock, now_seconds() - shelves_->flow_looked_at < k_flow_fresh_s);
  const bool is_old = now_seconds() - shelves_->flow_looked_at > k_flow_old_s;
  return is_old ? nullptr : shelves_->flow;
}

std::shared_ptr<const LogView> RunBrowser::log(const std::string& file) {
  std::unique_lock lock(mutex_);
  shelves_->logs.ask(file);
  wait_for_a_pass(lock);
  return shelves_->logs.find(file);
}

}  // namespace cohort
