#pragma once
/// The dashboard's answer to a request. Pure: sockets are runtime/control/http_server.hpp's, the
/// data a Board's.
///   DASH-1 where a token is asked for, a client without it gets /healthz and nothing else.
///   DASH-2 on loopback only a client that names loopback is answered: a foreign page, whose name
///          suddenly means 127.0.0.1, reads nothing (DNS rebinding).
///   DASH-3 nothing is changed but by a POST of /stop with the token that the run's console shows,
///          in a header that a page of another origin cannot send.
#include <optional>
#include <string>
#include <string_view>

#include "runtime/observe/browse_data.hpp"
#include "runtime/observe/dashboard_data.hpp"
#include "runtime/observe/http.hpp"

namespace cohort::observe {

struct DashboardAccess {
  std::string token;            // empty: none is asked for
  bool is_loopback = false;     // listens on loopback alone
  std::string stop_token = {};  // what a client must show to stop the run; empty: nobody can
};

/// Returns why the client is not answered; nothing if it is (DASH-1, DASH-2).
std::optional<HttpReply> refuse(const HttpRequest& request, const DashboardAccess& access);

/// Answers /, /live, /timeline, /flow, /metrics, the two .json and /healthz, and of a run what
/// `source` reads (browse_answer.hpp); null: it has no folder. `nonce` is new with each call.
HttpReply answer(const HttpRequest& request, const DashboardData& data,
                 const DashboardAccess& access, double now, std::string_view nonce,
                 RunSource* source = nullptr);

/// Answers a POST of /stop (DASH-3): 202 if the run is to be stopped.
HttpReply stop_answer(const HttpRequest& request, const DashboardData& data,
                      const DashboardAccess& access);

}  // namespace cohort::observe
