#pragma once
/// What passes through the links of a run's processes: each writes a file of its ends into the
/// run's folder while somebody looks, so that pages and terminals on any host that has the folder
/// show the links of all. Bound: a file of some 200 bytes an end, twice a second.
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/observe/browse_data.hpp"

namespace cohort {

/// Writes links_here() of this process to `folder`, from its own thread, as long as read_links()
/// is called on the folder every few seconds.
class LinkTeller {
 public:
  /// `process`: as in publish_waits().
  LinkTeller(std::filesystem::path folder, std::string process);
  /// Removes the file.
  ~LinkTeller();
  LinkTeller(const LinkTeller&) = delete;

 private:
  void tell();

  std::filesystem::path folder_;
  std::string process_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  std::thread thread_;
};

/// Writes FOLDER/links_HOST_PID in the place of an older one. Errc::io.
Expected<void> write_links(const std::filesystem::path& folder, const std::string& process,
                           const std::vector<observe::LinkLine>& links);

struct RunLinks {
  std::vector<observe::LinkLine> links;  // by process, then in the order of opening
  std::string note;                      // which processes have not told, empty: none
};

/// Reads the files of all processes; asks them to go on. The first call after a while waits until
/// each process that has written waits_* has told, a second at most.
RunLinks read_links(const std::filesystem::path& folder);

}  // namespace cohort
