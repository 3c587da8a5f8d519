#pragma once
/// The little of HTTP/1.1 that the dashboard speaks: a GET or HEAD without a body, a reply, and the
/// connection ends. One path takes a POST, which has no body either. Sockets are in
/// runtime/control/http_server.hpp. Pure, thread-safe.
///   HTTP-1 a request counts only when all of its head is there and of the grammar; any other gets
///          a status and no more.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::observe {

inline constexpr size_t k_http_head_bytes_max = 8 << 10;
inline constexpr std::string_view k_action_path = "/stop";

struct HttpRequest {
  bool is_head = false;  // HEAD, else GET or POST
  bool is_post = false;  // of k_action_path
  std::string path;      // "/metrics", as it was sent
  std::string query;     // behind the "?"
  std::string host;      // of the Host header, without the port; empty in HTTP/1.0
  std::string authorization;
  std::string action;  // X-Cohort-Action: a page of another origin cannot send it unasked
};

struct HttpParse {
  int status = 0;  // 0: more bytes are needed; 200: `request` is whole; else the reply's status
  HttpRequest request;
};

/// Reads a client's bytes so far.
HttpParse parse_http(std::string_view bytes);

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
};

/// A reply that says its status in words.
HttpReply refusal(int status, std::string_view why = {});

/// Returns the reply's bytes, without the body if it answers a HEAD.
std::string to_bytes(const HttpReply& reply, bool is_head);

/// Returns the values of `name` in a query, "a=1&b=x+y%21", decoded, in their order.
std::vector<std::string> query_values(std::string_view query, std::string_view name);
/// Returns the first of them, or "".
std::string query_value(std::string_view query, std::string_view name);
/// Returns `text` as a value of a query.
std::string query_encoded(std::string_view text);

/// Returns whether `shown` is `token`; the time it takes says nothing about the token.
bool is_same_secret(std::string_view shown, std::string_view token);

/// Returns whether an Authorization header shows `token`: "Bearer TOKEN", or "Basic" with the token
/// as password of any user. The time it takes says nothing about the token.
bool shows_token(std::string_view authorization, std::string_view token);

}  // namespace cohort::observe
