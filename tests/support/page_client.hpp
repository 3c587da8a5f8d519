#pragma once
/// A client of the dashboard's pages: fetches what is being read until it is there, and follows
/// links by their words.
#include <gtest/gtest.h>
#include <httplib.h>

#include <string>

#include "tests/support/child_process.hpp"
#include "tests/support/html_check.hpp"

namespace cohort::test {

class PageClient {
 public:
  explicit PageClient(uint16_t port) : client_("127.0.0.1", port) {}

  /// Returns the page once it is whole; "" if it does not become so. Its tags are in order.
  std::string page(const std::string& address) {
    std::string body;
    wait_until(
        [&] {
          auto reply = client_.Get(address);
          if (!reply || reply->status != 200) return true;
          body = reply->body;
          return body.find("data-waiting=") == std::string::npos &&
                 body.find("records have been read") == std::string::npos &&
                 body.find("being read") == std::string::npos;
        },
        20000);
    EXPECT_EQ(observe::sample::tag_fault(body), "") << address;
    return body;
  }
  /// Returns the page once it has `words`.
  std::string page_with(const std::string& address, const std::string& words) {
    std::string body;
    EXPECT_TRUE(wait_until(
        [&] {
          body = page(address);
          return body.find(words) != std::string::npos;
        },
        20000))
        << address << " never says " << words << "\n"
        << body;
    return body;
  }
  int status(const std::string& address) {
    auto reply = client_.Get(address);
    return reply ? reply->status : 0;
  }
  httplib::Client& http() { return client_; }

 private:
  httplib::Client client_;
};

/// Returns the address of the first link whose words are `text`; "" if there is none.
inline std::string link_to(const std::string& page, const std::string& text) {
  const size_t end = page.find(">" + text + "</a>");
  if (end == std::string::npos) return "";
  constexpr std::string_view k_mark = "href=\"";
  const size_t begin = page.rfind(k_mark, end) + k_mark.size();
  std::string address = page.substr(begin, page.find('"', begin) - begin);
  for (size_t at = address.find("&amp;"); at != std::string::npos; at = address.find("&amp;"))
    address.replace(at, 5, "&");
  return "/" + address.substr(0, address.find('#'));
}

}  // namespace cohort::test
