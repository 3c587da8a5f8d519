// What a client sends to the dashboard, whole and in two parts.
#include <cstdint>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/observe/dashboard.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort;
  using namespace cohort::observe;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const HttpParse whole = parse_http(bytes);
  // HTTP-1: more bytes never change a verdict.
  const HttpParse part = parse_http(bytes.substr(0, size / 2));
  COHORT_CHECK(part.status == 0 || part.status == whole.status, "a verdict that changes");
  COHORT_CHECK(whole.status != 0 || size < k_http_head_bytes_max, "a head without an end");
  if (whole.status != 200) return 0;
  COHORT_CHECK(whole.request.path.starts_with('/'), "a path");
  const DashboardAccess access{"0123456789abcdef0123456789abcdef", false};
  const HttpReply reply = answer(whole.request, {}, access, 1, "nonce");
  COHORT_CHECK(reply.status == 401 || whole.request.path == "/healthz" ||
                   bytes.find(access.token) != std::string_view::npos,
               "DASH-1: answered without the token");
  const std::string text = to_bytes(reply, whole.request.is_head);
  COHORT_CHECK(text.find("\r\n\r\n") != std::string::npos, "a reply has a head");
  return 0;
}
