#include "runtime/observe/dashboard.hpp"

#include <charconv>

#include "runtime/base/listen.hpp"
#include "runtime/observe/browse_answer.hpp"
#include "runtime/observe/dashboard_page.hpp"
#include "runtime/observe/flow_page.hpp"
#include "runtime/observe/page_shell.hpp"
#include "runtime/observe/prometheus.hpp"

namespace cohort::observe {
namespace {

/// "rows=12" → 12.
uint64_t known_rows(std::string_view query) {
  constexpr std::string_view k_key = "rows=";
  uint64_t rows = PageOptions::k_no_rows;
  if (!query.starts_with(k_key)) return rows;
  query.remove_prefix(k_key.size());
  auto [end, error] = std::from_chars(query.data(), query.data() + query.size(), rows);
  return error == std::errc{} && end == query.data() + query.size() ? rows : PageOptions::k_no_rows;
}

}  // namespace

std::optional<HttpReply> refuse(const HttpRequest& request, const DashboardAccess& access) {
  if (access.is_loopback && !request.host.empty() && !is_loopback(request.host))
    return refusal(421, "this dashboard listens on loopback: come by localhost or 127.0.0.1");
  if (!access.token.empty() && !shows_token(request.authorization, access.token))
    return refusal(401,
                   "the token is in dashboard.token of the cluster's keys: as password of any "
                   "user, or as Bearer");
  return std::nullopt;
}

HttpReply answer(const HttpRequest& request, const DashboardData& data,
                 const DashboardAccess& access, double now, std::string_view nonce,
                 RunSource* source) {
  if (request.path == "/healthz") return {200, "text/plain; charset=utf-8", "ok\n"};
  if (auto refused = refuse(request, access)) return *refused;
  if (request.is_post) return refusal(405);
  if (request.path == "/metrics")
    return {200, std::string(k_prometheus_type), prometheus_text(data, now)};
  if (request.path == "/status.json") return {200, "application/json", status_json(data, now)};
  if (request.path == "/live")
    return {200, "text/html; charset=utf-8",
            dashboard_parts(data, {now, known_rows(request.query)})};
  if (request.path == "/timeline" && data.run)
    return page_reply(timeline_page(*data.run, nonce), nonce);
  if (request.path == "/flow" && data.run) {
    const auto flow = source == nullptr ? nullptr : source->flow();
    return page_reply(flow_page(data, flow.get(), now, nonce), nonce);
  }
  if (request.path == "/flow.json" && data.run) {
    const auto flow = source == nullptr ? nullptr : source->flow();
    return {200, "application/json", flow == nullptr ? "null\n" : flow_json(*flow)};
  }
  if (data.run)
    if (auto page = browse_answer(request, source, !is_over(*data.run), nonce)) return *page;
  if (request.path != "/") return refusal(404, "/, /metrics, /status.json and /healthz are here");
  return page_reply(
      dashboard_page(data, {.now = now, .can_stop = !access.stop_token.empty()}, nonce), nonce);
}

HttpReply stop_answer(const HttpRequest& request, const DashboardData& data,
                      const DashboardAccess& access) {
  if (auto refused = refuse(request, access)) return *refused;
  if (!request.is_post) return refusal(405);
  if (access.stop_token.empty())
    return refusal(403, "this dashboard only shows: start the run with --allow-stop");
  if (!is_same_secret(request.action, access.stop_token))
    return refusal(403, "this is not the stop token that the run's console shows");
  if (!data.run || is_over(*data.run)) return refusal(409, "no run goes on here");
  HttpReply reply;
  reply.status = 202;
  reply.body = "The run stops after this step and writes a checkpoint.\n";
  return reply;
}

}  // namespace cohort::observe
