#pragma once
/// The dashboard of this process: `--dashboard [HOST:]PORT` of `run` and `head`, DASHBOARD_PORT of
/// `run`. Loopback unless a HOST is named; beyond loopback over TLS and with the token of the keys,
/// or openly with --insecure. Owner: main's thread. Free of torch.
#include <CLI/CLI.hpp>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actors/cluster/cluster_roles.hpp"
#include "runtime/control/http_server.hpp"
#include "runtime/control/network.hpp"
#include "runtime/observe/board.hpp"
#include "runtime/observe/dashboard.hpp"
#include "tools/actor-node/cluster_options.hpp"
#include "tools/actor-node/run_browser.hpp"

namespace cohort {

void add_dashboard_option(CLI::App& app, std::string& where);

/// `--allow-stop`, of a run.
void add_stop_option(CLI::App& app, bool& allows_stop);

/// Returns where the dashboard is to listen: `where`, or for a run the variable DASHBOARD_PORT;
/// nothing if neither is said. Errc::invalid_argument.
Expected<std::optional<control::Address>> dashboard_address(const std::string& where,
                                                            bool reads_variable);

/// Returns a word that nobody can guess.
std::string new_secret();

/// What the board shows of a cluster's status, at `now`.
observe::ClusterView view_of(const control::ClusterStatus& status, double now);

class DashboardServer {
 public:
  /// Serves an empty board. Errc::denied, Errc::io, Errc::not_found: with address and remedy.
  static Expected<std::unique_ptr<DashboardServer>> open(const control::Address& address,
                                                         const ClusterAccess& access);
  ~DashboardServer();
  observe::Board& board() { return board_; }
  const std::string& url() const { return url_; }
  /// From now on the pages of the run read its folder.
  void open_run(RunBrowserOptions options);
  /// Lets those who show `token` stop the run: `stop` is called once, by the server's thread, while
  /// it is set (on_stop).
  void allow_stop(std::string token);
  void on_stop(std::function<void()> stop);
  /// Shows the cluster of `head`, asked once a second. Ends with unfollow(), which comes before the
  /// end of `system`.
  void follow(caf::actor_system& system, const actors::ClusterHeadActor& head);
  void unfollow();
  /// The board has got its last word: waits until a page that was being watched has fetched it, for
  /// at most k_linger_s.
  void linger();

 private:
  DashboardServer() = default;
  observe::HttpReply answer(const observe::HttpRequest& request);
  observe::HttpReply answer_stop(const observe::HttpRequest& request,
                                 const observe::DashboardAccess& access);
  void watch(const std::stop_token& stop, caf::actor_system& system,
             const actors::ClusterHeadActor& head);

  observe::Board board_;
  std::string url_;
  std::string token_;
  bool is_loopback_ = false;
  std::mutex mutex_;                     // of what is below
  std::string stop_token_;               // empty: nobody can stop the run
  std::function<void()> stop_;           // null: there is nothing to stop
  std::shared_ptr<RunBrowser> browser_;  // null: the run has no folder yet
  std::condition_variable_any served_;
  double last_live_ = -1e9;    // when a page has fetched its parts
  bool has_told_end_ = false;  // these were the last ones
  std::jthread watcher_;
  std::unique_ptr<control::HttpServer> server_;  // the first to end
};

}  // namespace cohort
