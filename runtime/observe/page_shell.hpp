#pragma once
/// What all pages of the dashboard share: head, styles, script, the links between them. Pure.
/// Internal to runtime/observe and to those who serve its pages.
#include <string>
#include <string_view>

#include "runtime/observe/http.hpp"

namespace cohort::observe {

struct ShellOptions {
  std::string title;
  std::string_view nonce;   // of script and style; the reply's policy names it
  std::string_view active;  // path of the page among the links; empty: none is marked
  bool has_run = true;      // a head has no pages of a run
};

/// Returns the page around `body`.
std::string page_shell(const ShellOptions& options, const std::string& body);

/// Returns the 200 of a page: its policy lets it run nothing and fetch nothing but its own.
HttpReply page_reply(std::string page, std::string_view nonce);

inline constexpr int k_soon_ms = 300, k_live_ms = 2000;

/// Returns the mark by which the script knows when to look again.
std::string refresh_mark(int ms);

/// Returns <section id=…> that stays empty and hidden while `body` is.
std::string part(std::string_view id, std::string_view title, const std::string& body);

}  // namespace cohort::observe
