#include "runtime/observe/browse_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/observe/browse_page.hpp"
#include "runtime/observe/compare_page.hpp"
#include "runtime/observe/page_shell.hpp"
#include "runtime/observe/token_page.hpp"

namespace cohort::observe {
namespace {

constexpr std::string_view k_active = "steps";

/// Reads `name` of the query as a number; returns whether it is there and is one.
template <class T>
bool take_number(std::string_view query, std::string_view name, T& value) {
  const std::string text = query_value(query, name);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

struct Wanted {
  BrowseAddress at;
  std::string missing;  // which part of the address; empty: none
};

Wanted read_address(const HttpRequest& request) {
  Wanted wanted;
  BrowseAddress& at = wanted.at;
  take_number(request.query, "page", at.page);
  if (request.path == "/steps" || request.path == "/compare" || request.path == "/logs")
    return wanted;
  at.where = query_value(request.query, "where");
  if (!take_number(request.query, "step", at.step)) wanted.missing = "step=NUMBER";
  if (request.path == "/step") return wanted;
  at.kind = query_value(request.query, "kind");
  if (at.kind.empty()) at.kind = "train";
  if (!take_number(request.query, "group", at.group)) wanted.missing = "group=NUMBER";
  if (request.path == "/group") return wanted;
  if (!take_number(request.query, "index", at.index)) wanted.missing = "index=NUMBER";
  if (request.path == "/trajectory" || request.path == "/coloured") return wanted;
  if (!take_number(request.query, "at", at.token)) wanted.missing = "at=NUMBER";
  at.page = static_cast<size_t>(at.token / k_page_tokens);
  return wanted;
}

std::string trajectory_body(RunSource& source, const BrowseAddress& at, bool is_token,
                            std::string_view nonce) {
  const auto shown = source.trajectory(at);
  const std::string title =
      fmt::format("Step {}, {} group {}, trajectory {}", at.step, at.kind, at.group, at.index);
  if (shown == nullptr || !shown->error.empty())
    return waiting_page(title, shown == nullptr ? "" : shown->error, k_active, nonce);
  return is_token ? one_token_page(*shown, at, nonce) : trajectory_page(*shown, at, nonce);
}

/// A page of its own: it runs no script, and its styles are its own.
std::optional<HttpReply> coloured_reply(RunSource& source, const BrowseAddress& at) {
  const auto shown = source.coloured(at);
  if (shown == nullptr) return std::nullopt;
  TokenPage page = *shown;
  page.up = browse_link("trajectory", at);
  HttpReply reply{200, "text/html; charset=utf-8", token_page(page)};
  reply.headers.emplace_back("Content-Security-Policy",
                             "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
                             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  return reply;
}

std::string body_of(const HttpRequest& request, RunSource& source, const BrowseAddress& at,
                    bool is_live, std::string_view nonce) {
  if (request.path == "/steps") {
    const auto list = source.steps();
    return list == nullptr ? waiting_page("The stream", "", k_active, nonce)
                           : steps_page(*list, at.page, is_live, nonce);
  }
  if (request.path == "/trajectory" || request.path == "/token" || request.path == "/coloured")
    return trajectory_body(source, at, request.path == "/token", nonce);
  if (request.path == "/compare")
    return compare_page(source.compare(query_values(request.query, "run")), is_live, nonce);
  if (request.path == "/logs") {
    const auto log = source.log(query_value(request.query, "file"));
    return log == nullptr ? waiting_page("Logs", "", "logs", nonce)
                          : logs_page(*log, is_live, nonce);
  }
  const auto view = source.step(at.step, at.where);
  if (view == nullptr) return waiting_page(fmt::format("Step {}", at.step), "", k_active, nonce);
  return request.path == "/step" ? step_page(*view, at, is_live, nonce)
                                 : group_page(*view, at, nonce);
}

}  // namespace

std::optional<HttpReply> browse_answer(const HttpRequest& request, RunSource* source, bool is_live,
                                       std::string_view nonce) {
  constexpr std::string_view k_paths[] = {"/steps", "/step",     "/group",   "/trajectory",
                                          "/token", "/coloured", "/compare", "/logs"};
  if (std::ranges::find(k_paths, request.path) == std::end(k_paths)) return std::nullopt;
  const Wanted wanted = read_address(request);
  if (!wanted.missing.empty())
    return refusal(404, fmt::format("the address lacks {}; begin at /steps", wanted.missing));
  if (source == nullptr)
    return page_reply(waiting_page("Trajectories", "The run has no folder yet.", k_active, nonce),
                      nonce);
  if (request.path == "/coloured")
    if (auto reply = coloured_reply(*source, wanted.at)) return *reply;
  return page_reply(body_of(request, *source, wanted.at, is_live, nonce), nonce);
}

}  // namespace cohort::observe
