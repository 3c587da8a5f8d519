#include "runtime/observe/token_page.hpp"

#include <gtest/gtest.h>

#include "tests/support/html_check.hpp"

namespace cohort::observe {
namespace {

using sample::count_of;

TokenLine sampled(std::string text, double logp, uint64_t version = 3) {
  TokenLine token{7, std::move(text), true};
  token.logp = logp;
  token.version = version;
  return token;
}

/// "say 7\n" shown, then an answer of three tokens.
TokenPage page() {
  TokenPage x;
  x.title = "train 1/0/2";
  x.facts = {{"stopped by", "goal"}};
  x.scores = {{"reward answer", "1.0000 × 1"}};
  x.tokens = {{1, "say 7\n"}, sampled("<a>", -0.01), sampled("7", -4.0), sampled("</a>", -1.0, 4)};
  x.parts = {{"turn 0, prompt", false, 0, 1}, {"turn 0, answer", true, 1, 4, "reward 1"}};
  x.advantages = {k_not_measured, 0.5, -1.5, 0.0};
  return x;
}

TEST(TokenPage, IsOneWholeDocumentWithoutScriptOrNetwork) {
  const std::string html = token_page(page());
  EXPECT_EQ(sample::tag_fault(html), "");
  EXPECT_EQ(count_of(html, "<script"), 0U);
  EXPECT_EQ(count_of(html, "http:"), 0U);
  EXPECT_EQ(count_of(html, "https:"), 0U);
  EXPECT_EQ(count_of(html, "prefers-color-scheme:dark"), 1U);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(TokenPage, ColoursATokenByEachColumn) {
  const std::string html = token_page(page());
  // p .99 is the surest class, the smaller advantage one third of the largest, version 3 the first.
  EXPECT_NE(html.find("<span class=\"l0 a4 m1 v0\" title="), std::string::npos) << html;
  // p .02 is below .05, the largest advantage is a negative one.
  EXPECT_NE(html.find("<span class=\"l4 a0 m1 v0\""), std::string::npos);
  EXPECT_NE(html.find("<span class=\"l2 a3 m1 v1\""), std::string::npos);
  EXPECT_NE(html.find("<span class=\"m0\""), std::string::npos);
  EXPECT_NE(html.find("log p -4.0000 (p 0.018)\nadvantage -1.5000\nweights 3\""),
            std::string::npos);
}

TEST(TokenPage, OffersOnlyColumnsThatAreThere) {
  TokenPage x = page();
  EXPECT_EQ(count_of(token_page(x), "<input type=\"radio\""), 4U);
  x.advantages.clear();
  EXPECT_EQ(count_of(token_page(x), "id=\"by-a\""), 0U);
  x.tokens[1].ref_logp = -0.5;
  x.tokens[1].value = 0.25;
  const std::string html = token_page(x);
  EXPECT_EQ(count_of(html, "id=\"by-r\""), 1U);
  EXPECT_EQ(count_of(html, "id=\"by-u\""), 1U);
  EXPECT_EQ(count_of(html, "id=\"by-w\""), 0U);
}

TEST(TokenPage, EscapesWhatAPolicySampled) {
  TokenPage x = page();
  const std::string hostile = "<script>alert('\"')</script>&\xff";
  x.title = x.tokens[1].text = x.parts[1].note = x.facts[0].value = x.scores[0].name = hostile;
  x.notes = {hostile};
  x.parts[0].text = hostile;
  const std::string html = token_page(x);
  EXPECT_EQ(sample::tag_fault(html), "");
  EXPECT_EQ(count_of(html, "<script"), 0U);
  EXPECT_EQ(count_of(html, "&lt;script&gt;alert(&#39;&quot;&#39;)&lt;/script&gt;&amp;\xEF\xBF\xBD"),
            9U);  // title and heading, fact, score, note, text, its token twice, the answer's note
}

TEST(TokenPage, ShowsIdsWhereATokenHasNoText) {
  TokenPage x = page();
  for (TokenLine& token : x.tokens) token.text.clear();
  EXPECT_NE(token_page(x).find("<span class=\"id l0 a4 m1 v0\""), std::string::npos);
  EXPECT_NE(token_page(x).find(">7</span>"), std::string::npos);
}

}  // namespace
}  // namespace cohort::observe
