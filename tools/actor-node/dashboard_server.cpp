#include "tools/actor-node/dashboard_server.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <random>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/observe/dashboard.hpp"

namespace cohort {
namespace {

constexpr double k_watched_s = 4;  // a page that has not asked for so long is not watched
constexpr double k_linger_s = 2;
constexpr std::chrono::seconds k_status_every{1}, k_status_limit{2};

}  // namespace

std::string new_secret() {
  std::random_device random;
  std::string secret;
  for (int i = 0; i < 4; ++i) secret += fmt::format("{:08x}", random());
  return secret;
}

void add_dashboard_option(CLI::App& app, std::string& where) {
  app.add_option("--dashboard", where,
                 "[HOST:]PORT of a live page and of /metrics for Prometheus (0: any free port; "
                 "beyond loopback with the token and over the TLS of --keys)");
}

void add_stop_option(CLI::App& app, bool& allows_stop) {
  app.add_flag("--allow-stop", allows_stop,
               "the dashboard can stop the run after a step: for those who have the token that is "
               "printed beside its address");
}

Expected<std::optional<control::Address>> dashboard_address(const std::string& where,
                                                            bool reads_variable) {
  const char* variable = reads_variable ? std::getenv("DASHBOARD_PORT") : nullptr;
  const std::string text = !where.empty() || variable == nullptr ? where : variable;
  if (text.empty()) return std::optional<control::Address>();
  auto address = control::parse_address(
      text.find(':') == std::string::npos ? "127.0.0.1:" + text : text, true);
  if (!address)
    return Error{
        Errc::invalid_argument,
        fmt::format("{} is to be [HOST:]PORT, a port of 0 to 65535: {}",
                    where.empty() ? "DASHBOARD_PORT" : "--dashboard", address.error().detail)};
  return std::optional(*address);
}

observe::ClusterView view_of(const control::ClusterStatus& status, double now) {
  observe::ClusterView view;
  view.version = status.version;
  view.up_s = status.up_s;
  view.runs = status.runs;
  view.at = now;
  for (const control::NodeInfo& node : status.nodes)
    view.nodes.push_back({node.node, node.name, node.address, node.version, node.pid, node.cards,
                          node.heard_s, node.is_lost, node.processes, std::nullopt, node.is_leaving,
                          node.is_away});
  return view;
}

Expected<std::unique_ptr<DashboardServer>> DashboardServer::open(const control::Address& address,
                                                                 const ClusterAccess& access) {
  std::unique_ptr<DashboardServer> dashboard(new DashboardServer);
  dashboard->is_loopback_ = is_loopback(address.host);
  control::HttpServerOptions options;
  options.host = address.host;
  options.port = address.port;
  if (!dashboard->is_loopback_) {
    COHORT_ASSIGN(control::SystemOptions system, system_options(access));
    options.credentials = std::move(system.credentials);
    options.is_insecure = system.is_insecure;
    if (options.credentials) {
      COHORT_ASSIGN(dashboard->token_, control::load_dashboard_token(*options.credentials));
    }
  }
  const bool has_tls = options.credentials.has_value();
  options.handler = [raw = dashboard.get()](const observe::HttpRequest& request) {
    return raw->answer(request);
  };
  auto server = control::HttpServer::open(std::move(options));
  if (!server) {
    Error error = server.error().with_context("dashboard on " + control::to_text(address));
    if (error.code == Errc::io)
      error.detail += " (choose another port with --dashboard or DASHBOARD_PORT; 0 is any)";
    return error;
  }
  dashboard->server_ = std::move(*server);
  const bool is_everywhere = address.host == "0.0.0.0" || address.host == "::";
  const std::string host = !is_everywhere        ? address.host
                           : access.host.empty() ? host_name()
                                                 : access.host;
  dashboard->url_ = fmt::format("{}://{}/", has_tls ? "https" : "http",
                                control::to_text({host, dashboard->server_->port()}));
  return dashboard;
}

DashboardServer::~DashboardServer() { unfollow(); }

observe::HttpReply DashboardServer::answer(const observe::HttpRequest& request) {
  const observe::DashboardData data = board_.data();
  observe::DashboardAccess access{token_, is_loopback_, ""};
  std::shared_ptr<RunBrowser> browser;
  {
    std::lock_guard lock(mutex_);
    browser = browser_;
    access.stop_token = stop_token_;
  }
  if (request.is_post) return answer_stop(request, access);
  observe::HttpReply reply =
      observe::answer(request, data, access, now_seconds(), new_secret(), browser.get());
  if (request.path == "/live" && reply.status == 200) {
    std::lock_guard lock(mutex_);
    last_live_ = now_seconds();
    has_told_end_ = data.run && observe::is_over(*data.run);
    served_.notify_all();
  }
  return reply;
}

observe::HttpReply DashboardServer::answer_stop(const observe::HttpRequest& request,
                                                const observe::DashboardAccess& access) {
  observe::HttpReply reply = observe::stop_answer(request, board_.data(), access);
  if (reply.status != 202) return reply;
  std::function<void()> stop;
  {
    std::lock_guard lock(mutex_);
    stop = std::exchange(stop_, nullptr);
  }
  if (!stop) return observe::refusal(409, "the run does not begin its steps yet, or stops already");
  stop();
  return reply;
}

void DashboardServer::allow_stop(std::string token) {
  std::lock_guard lock(mutex_);
  stop_token_ = std::move(token);
}

void DashboardServer::on_stop(std::function<void()> stop) {
  std::lock_guard lock(mutex_);
  stop_ = std::move(stop);
}

void DashboardServer::open_run(RunBrowserOptions options) {
  auto browser = std::make_shared<RunBrowser>(std::move(options));
  std::lock_guard lock(mutex_);
  browser_ = std::move(browser);
}

void DashboardServer::follow(caf::actor_system& system, const actors::ClusterHeadActor& head) {
  watcher_ = std::jthread(
      [this, &system, head](const std::stop_token& stop) { watch(stop, system, head); });
}

void DashboardServer::watch(const std::stop_token& stop, caf::actor_system& system,
                            const actors::ClusterHeadActor& head) {
  caf::scoped_actor self{system};
  observe::ClusterView view;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    lock.unlock();
    self->request(head, k_status_limit, control::status_atom_v)
        .receive(
            [&](const control::ClusterStatus& status) {
              view = observe::follow(view, view_of(status, now_seconds()));
              board_.set_cluster(view);
            },
            [](const caf::error&) {});  // the page says how old its picture is
    lock.lock();
    served_.wait_for(lock, stop, k_status_every, [] { return false; });
  }
}

void DashboardServer::unfollow() {
  watcher_.request_stop();
  if (watcher_.joinable()) watcher_.join();
}

void DashboardServer::linger() {
  std::unique_lock lock(mutex_);
  if (now_seconds() - last_live_ > k_watched_s) return;
  served_.wait_for(lock, std::chrono::duration<double>(k_linger_s),
                   [this] { return has_told_end_; });
}

}  // namespace cohort
