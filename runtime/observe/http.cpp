#include "runtime/observe/http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/base/text.hpp"

namespace cohort::observe {
namespace {

constexpr size_t k_target_bytes_max = 1024;
constexpr size_t k_headers_max = 64;

std::string_view reason(int status) {
  constexpr std::pair<int, std::string_view> k_reasons[] = {
      {200, "OK"},
      {202, "Accepted"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {421, "Misdirected Request"},
      {431, "Request Header Fields Too Large"},
      {505, "HTTP Version Not Supported"}};
  for (const auto& [known, words] : k_reasons)
    if (known == status) return words;
  return "Error";
}

/// RFC 9110, 5.6.2.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_visible(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

/// Takes the line up to the next CR LF off `text`, which has one.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find("\r\n");
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 2);
  return line;
}

/// Returns the status of a request line; 200 fills `request`.
int read_request_line(std::string_view line, HttpRequest& request, bool& is_newest) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return 400;
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || !version.starts_with("HTTP/")) return 400;
  is_newest = version == "HTTP/1.1";
  if (!is_newest && version != "HTTP/1.0") return 505;
  if (target.size() > k_target_bytes_max) return 414;
  if (!target.starts_with('/') || !is_visible(target)) return 400;
  request.is_post = method == "POST" && target == k_action_path;
  if (method != "GET" && method != "HEAD" && !request.is_post) return 405;
  request.is_head = method == "HEAD";
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
  return 200;
}

/// "localhost:8265" → "localhost", "[::1]:8265" → "[::1]".
std::string_view without_port(std::string_view host) {
  const size_t bracket = host.find(']');
  return host.substr(0, host.find(':', bracket == std::string_view::npos ? 0 : bracket));
}

struct Seen {
  bool has_host = false, has_authorization = false, has_action = false;
};

int read_header(std::string_view line, HttpRequest& request, Seen& seen) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return 400;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trim(line.substr(colon + 1), " \t");
  const bool has_control = std::ranges::any_of(
      value, [](char c) { return (c >= '\0' && c < ' ' && c != '\t') || c == '\x7f'; });
  if (has_control) return 400;
  if (is_same_word(name, "host")) {
    if (std::exchange(seen.has_host, true) || !is_visible(value)) return 400;
    request.host = without_port(value);
  } else if (is_same_word(name, "authorization")) {
    if (std::exchange(seen.has_authorization, true)) return 400;
    request.authorization = value;
  } else if (is_same_word(name, "x-cohort-action")) {
    if (std::exchange(seen.has_action, true)) return 400;
    request.action = value;
  } else if (is_same_word(name, "transfer-encoding") ||
             (is_same_word(name, "content-length") && value != "0")) {
    return 413;
  }
  return 200;
}

/// Returns the decoded base64 `text`; nothing if it is none.
std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view k_digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const size_t digit = k_digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xffffffU;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xffU);
    }
  }
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// "x+y%21" → "x y!"; a "%" without two digits stands for itself.
std::string decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_coded = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
                          hex_digit(text[i + 2]) >= 0;
    if (is_coded) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

}  // namespace

bool is_same_secret(std::string_view shown, std::string_view token) {
  unsigned difference = shown.size() == token.size() && !token.empty() ? 0 : 1;
  for (size_t i = 0; i < shown.size() && !token.empty(); ++i) {
    const auto other = static_cast<unsigned char>(token[i % token.size()]);
    difference |= static_cast<unsigned char>(shown[i]) ^ static_cast<unsigned>(other);
  }
  return difference == 0;
}

std::vector<std::string> query_values(std::string_view query, std::string_view name) {
  std::vector<std::string> values;
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    const size_t mark = item.find('=');
    if (mark != std::string_view::npos && item.substr(0, mark) == name)
      values.push_back(decoded(item.substr(mark + 1)));
  }
  return values;
}

std::string query_value(std::string_view query, std::string_view name) {
  auto values = query_values(query, name);
  return values.empty() ? "" : std::move(values.front());
}

std::string query_encoded(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || std::string_view("-._~").find(c) < 4;
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

HttpParse parse_http(std::string_view bytes) {
  HttpParse parse;
  const size_t end = bytes.substr(0, k_http_head_bytes_max).find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() >= k_http_head_bytes_max) parse.status = 431;
    return parse;
  }
  std::string_view head = bytes.substr(0, end + 2);
  bool is_newest = false;
  parse.status = read_request_line(take_line(head), parse.request, is_newest);
  Seen seen;
  for (size_t count = 0; parse.status == 200 && !head.empty(); ++count)
    parse.status = count >= k_headers_max ? 431 : read_header(take_line(head), parse.request, seen);
  if (parse.status == 200 && is_newest && !seen.has_host) parse.status = 400;
  return parse;
}

HttpReply refusal(int status, std::string_view why) {
  HttpReply reply;
  reply.status = status;
  reply.body = fmt::format("{} {}{}{}\n", status, reason(status), why.empty() ? "" : ": ", why);
  if (status == 405) reply.headers.emplace_back("Allow", "GET, HEAD");
  if (status == 401)
    reply.headers.emplace_back("WWW-Authenticate", "Basic realm=\"cohort\", charset=\"UTF-8\"");
  return reply;
}

std::string to_bytes(const HttpReply& reply, bool is_head) {
  std::string out = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n",
      reply.status, reason(reply.status), reply.type, reply.body.size());
  for (const auto& [name, value] : reply.headers) out += fmt::format("{}: {}\r\n", name, value);
  out += "\r\n";
  if (!is_head) out += reply.body;
  return out;
}

bool shows_token(std::string_view authorization, std::string_view token) {
  const size_t space = authorization.find(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view scheme = authorization.substr(0, space);
  const std::string_view shown = trim(authorization.substr(space), " \t");
  if (is_same_word(scheme, "bearer")) return is_same_secret(shown, token);
  if (!is_same_word(scheme, "basic")) return false;
  const auto text = from_base64(shown);
  if (!text) return false;
  const size_t colon = text->find(':');
  return colon != std::string::npos &&
         is_same_secret(std::string_view(*text).substr(colon + 1), token);
}

}  // namespace cohort::observe
