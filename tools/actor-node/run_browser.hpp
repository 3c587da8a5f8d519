#pragma once
/// Reads a run's stream, and the files beside it, for the pages of the dashboard, while the run
/// writes it or when it is over. A thread of its own reads, behind the threads of the run (nice),
/// and only while somebody looks. Thread-safe. Bound: k_shelf of each kind of page;
/// k_view_trajectories lines a step; 200 bytes a step of the run (StepIndex).
///   BROWSE-1 an answer takes at most k_browse_answer_ms, whatever is being read: it is null, or
///            says that it is not whole.
///   BROWSE-2 nothing is written: the stream's files are opened for reading.
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/observe/browse_data.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort {

inline constexpr int k_browse_answer_ms = 10;
inline constexpr size_t k_view_trajectories = 50000;

struct RunBrowserOptions {
  std::filesystem::path run;  // its folder, or a stream folder; the stream may come later
  std::shared_ptr<const tasks::Tokenizer> tokenizer = nullptr;  // null: not known
  std::vector<std::filesystem::path> others = {};               // further runs to compare with
};

class RunBrowser : public observe::RunSource {
 public:
  explicit RunBrowser(RunBrowserOptions options);
  ~RunBrowser() override;

  std::shared_ptr<const observe::StepList> steps() override;
  std::shared_ptr<const observe::StepView> step(uint64_t step, const std::string& where) override;
  std::shared_ptr<const observe::TrajectoryPage> trajectory(
      const observe::BrowseAddress& at) override;
  std::shared_ptr<const observe::TokenPage> coloured(const observe::BrowseAddress& at) override;
  observe::Comparison compare(const std::vector<std::string>& names) override;
  std::shared_ptr<const observe::FlowView> flow() override;
  std::shared_ptr<const observe::LogView> log(const std::string& file) override;

 private:
  class Reading;
  struct Shelves;
  struct Work;
  Work work_now() const;
  bool carry_out(Work& work);
  void take(Work& work);
  void read(const std::stop_token& stop);
  /// Not if what is known is fresh: then the look that is asked for is for the next one.
  void wait_for_a_pass(std::unique_lock<std::mutex>& lock, bool is_fresh = false);

  std::mutex mutex_;  // of what is below
  std::condition_variable_any asked_, passed_;
  uint64_t questions_ = 0, answered_ = 0;
  std::unique_ptr<Shelves> shelves_;
  std::unique_ptr<Reading> reading_;  // the thread's
  std::jthread thread_;
};

}  // namespace cohort
