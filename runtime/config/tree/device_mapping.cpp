#include "runtime/config/tree/device_mapping.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>
#include <string>
#include <system_error>

#include "runtime/config/tree/utf8_text.hpp"

namespace cohort::config {
namespace {

/// An id and the character where it, or its range, begins.
struct Card {
  int64_t id = 0;
  size_t at = 0;
};
using Cards = std::vector<Card>;

/// Grammar: sum = term {"+" term}; term = "list" "(" sum ")" | "range" "(" int {"," int} ")" | list
/// | "(" sum ")"; list = "[" [int {"," int} [","]] "]".
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Expected<Cards> run() {
    COHORT_ASSIGN(Cards cards, sum(0));
    skip_space();
    if (at_ < text_.size()) return fault("'+' or the end");
    return cards;
  }

  /// `at`: the character that is not what was expected.
  Error fault_at(size_t at, std::string_view expected) const {
    std::string found =
        at < text_.size() ? fmt::format("'{}'", shown_text(text_.substr(at), 12)) : "the end";
    return {Errc::config, fmt::format("'{}': expected {} at character {}, found {} (forms: [0, 1], "
                                      "list(range(0,4)) + list(range(8,12)))",
                                      shown_text(text_, 100), expected, at + 1, found)};
  }

 private:
  Error fault(std::string_view expected) const { return fault_at(at_, expected); }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Expected<void> need(std::string_view token) {
    if (!take(token)) return fault(fmt::format("'{}'", token));
    return {};
  }

  Expected<Card> integer() {
    skip_space();
    Card card{0, at_};
    auto [end, failure] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), card.id);
    if (failure != std::errc{} || card.id > k_max_card_id + 1 || card.id < -k_max_card_id - 1)
      return fault(fmt::format("a number in 0..{}", k_max_card_id));
    at_ = static_cast<size_t>(end - text_.data());
    return card;
  }

  Expected<Cards> integers(std::string_view close) {
    Cards values;
    while (!take(close)) {
      if (!values.empty()) {
        if (!take(",")) return fault(fmt::format("',' or '{}'", close));
        if (take(close)) break;
      }
      COHORT_ASSIGN(Card value, integer());
      values.push_back(value);
      if (values.size() > k_max_mapped_cards) return fault_at(value.at, too_many());
    }
    return values;
  }

  static std::string too_many() { return fmt::format("at most {} cards", k_max_mapped_cards); }

  /// Stands behind "range(", which began at `start`.
  Expected<Cards> range(size_t start) {
    COHORT_ASSIGN(Cards arguments, integers(")"));
    if (arguments.empty() || arguments.size() > 3)
      return fault_at(start, "1 to 3 numbers in range(...)");
    int64_t begin = arguments.size() > 1 ? arguments[0].id : 0;
    int64_t end = arguments[arguments.size() > 1 ? 1 : 0].id;
    int64_t step = arguments.size() > 2 ? arguments[2].id : 1;
    if (step == 0) return fault_at(arguments[2].at, "a step other than 0");
    Cards cards;
    for (int64_t id = begin; step > 0 ? id < end : id > end; id += step) {
      cards.push_back({id, start});
      if (cards.size() > k_max_mapped_cards) return fault_at(start, too_many());
    }
    return cards;
  }

  Expected<Cards> term(int depth) {
    static constexpr int k_max_parentheses = 16;
    if (depth > k_max_parentheses) return fault("fewer parentheses");
    skip_space();
    size_t start = at_;
    if (take("range")) {
      COHORT_TRY(need("("));
      return range(start);
    }
    if (take("[")) return integers("]");
    bool is_list = take("list");
    if (!take("(")) return fault(is_list ? "'('" : "list(...), range(...) or [...]");
    COHORT_ASSIGN(Cards cards, sum(depth + 1));
    if (!take(")")) return fault("'+' or ')'");
    return cards;
  }

  Expected<Cards> sum(int depth) {
    COHORT_ASSIGN(Cards cards, term(depth));
    while (take("+")) {
      skip_space();
      size_t start = at_;
      COHORT_ASSIGN(Cards more, term(depth));
      cards.insert(cards.end(), more.begin(), more.end());
      if (cards.size() > k_max_mapped_cards) return fault_at(start, too_many());
    }
    return cards;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Expected<std::vector<uint32_t>> check_device_ids(const std::vector<int64_t>& ids) {
  if (ids.size() > k_max_mapped_cards)
    return Error{Errc::config, fmt::format("{} cards, at most {}", ids.size(), k_max_mapped_cards)};
  std::set<int64_t> seen;
  std::vector<uint32_t> cards;
  for (int64_t id : ids) {
    if (id < 0 || id > k_max_card_id)
      return Error{Errc::config, fmt::format("card id {} is not in 0..{}", id, k_max_card_id)};
    if (!seen.insert(id).second)
      return Error{Errc::config, fmt::format("card id {} is listed twice", id)};
    cards.push_back(static_cast<uint32_t>(id));
  }
  return cards;
}

Expected<std::vector<uint32_t>> parse_device_mapping(std::string_view expression) {
  Parser parser(expression);
  COHORT_ASSIGN(Cards cards, parser.run());
  std::map<int64_t, size_t> places;
  std::vector<uint32_t> ids;
  for (const Card& card : cards) {
    if (card.id < 0 || card.id > k_max_card_id)
      return parser.fault_at(
          card.at, fmt::format("card ids in 0..{} (this gives {})", k_max_card_id, card.id));
    auto [first, is_new] = places.emplace(card.id, card.at);
    if (!is_new)
      return parser.fault_at(
          card.at, fmt::format("each card once (card id {} is listed twice, first at character {})",
                               card.id, first->second + 1));
    ids.push_back(static_cast<uint32_t>(card.id));
  }
  return ids;
}

}  // namespace cohort::config
