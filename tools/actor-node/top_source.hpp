#pragma once
/// Where `actor-node top` looks: at the pages of a dashboard, or at a run's folder. Owner: one
/// thread. TOP-2: a look takes at most some seconds, whatever the run does: a folder is read, pages
/// that do not answer are left alone for a while.
#include <memory>
#include <optional>
#include <string>

#include "runtime/observe/board.hpp"
#include "runtime/observe/top_picture.hpp"
#include "tools/actor-node/pages_client.hpp"
#include "tools/actor-node/run_flow.hpp"
#include "tools/actor-node/saved_run.hpp"

namespace cohort {

class TopSource {
 public:
  /// `where`: a run's folder, or the address of a dashboard. Errc::not_found if it is neither, and
  /// what PagesClient and SavedRun say.
  static Expected<std::unique_ptr<TopSource>> open(const std::string& where,
                                                   const ClusterAccess& access);

  /// Looks. An error only if nothing has ever been seen; later the data say in `trouble` why they
  /// are old.
  Expected<observe::TopData> look();

 private:
  TopSource() = default;
  Expected<observe::TopData> read_pages(PagesClient& pages);
  /// The run's own pages know what its cards do now.
  std::optional<observe::TopData> own_pages();
  observe::TopData read_folder();

  ClusterAccess access_;
  std::optional<PagesClient> pages_;  // that were named
  std::optional<SavedRun> run_;       // else: its folder
  observe::Board board_;              // of the folder
  LinkSample links_;
  double quiet_until_ = 0;  // the run's own pages have not answered
  observe::TopData last_;   // of named pages
  double seen_at_ = 0;      // 0: never
};

}  // namespace cohort
