#include "runtime/config/device_mapping.hpp"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <string>
#include <system_error>

namespace cohort::config {
namespace {

/// Grammar: sum = term {"+" term}; term = "list" "(" sum ")" | "range" "(" int {"," int} ")" | list
/// | "(" sum ")"; list = "[" [int {"," int} [","]] "]".
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Expected<std::vector<int64_t>> run() {
    COHORT_ASSIGN(std::vector<int64_t> ids, sum(0));
    skip_space();
    if (at_ < text_.size()) return fault("the end");
    return ids;
  }

 private:
  Error fault(std::string_view expected) const {
    std::string found = at_ < text_.size() ? fmt::format("'{}'", text_.substr(at_, 12)) : "the end";
    return {Errc::config, fmt::format("'{}': expected {} at character {}, found {} (forms: [0, 1], "
                                      "list(range(0,4)) + list(range(8,12)))",
                                      text_.substr(0, 100), expected, at_ + 1, found)};
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
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

  Expected<int64_t> integer() {
    skip_space();
    int64_t value = 0;
    auto [end, failure] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failure != std::errc{} || value > k_max_card_id + 1 || value < -k_max_card_id - 1)
      return fault("a card id");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  Expected<std::vector<int64_t>> integers(std::string_view close) {
    std::vector<int64_t> values;
    while (!take(close)) {
      if (!values.empty()) {
        COHORT_TRY(need(","));
        if (take(close)) break;
      }
      COHORT_ASSIGN(int64_t value, integer());
      values.push_back(value);
      if (values.size() > k_max_mapped_cards)
        return fault(fmt::format("at most {} cards", k_max_mapped_cards));
    }
    return values;
  }

  Expected<std::vector<int64_t>> range() {
    COHORT_ASSIGN(std::vector<int64_t> arguments, integers(")"));
    if (arguments.empty() || arguments.size() > 3) return fault("range with 1 to 3 numbers before");
    int64_t begin = arguments.size() > 1 ? arguments[0] : 0;
    int64_t end = arguments.size() > 1 ? arguments[1] : arguments[0];
    int64_t step = arguments.size() > 2 ? arguments[2] : 1;
    if (step == 0) return fault("a step other than 0 before");
    std::vector<int64_t> ids;
    for (int64_t id = begin; step > 0 ? id < end : id > end; id += step) {
      ids.push_back(id);
      if (ids.size() > k_max_mapped_cards)
        return fault(fmt::format("at most {} cards", k_max_mapped_cards));
    }
    return ids;
  }

  Expected<std::vector<int64_t>> term(int depth) {
    static constexpr int k_max_depth = 16;  // parentheses
    if (depth > k_max_depth) return fault("fewer parentheses");
    if (take("range")) {
      COHORT_TRY(need("("));
      return range();
    }
    if (take("[")) return integers("]");
    bool is_list = take("list");
    if (!take("(")) return fault(is_list ? "'('" : "list(...), range(...) or [...]");
    COHORT_ASSIGN(std::vector<int64_t> ids, sum(depth + 1));
    COHORT_TRY(need(")"));
    return ids;
  }

  Expected<std::vector<int64_t>> sum(int depth) {
    COHORT_ASSIGN(std::vector<int64_t> ids, term(depth));
    while (take("+")) {
      COHORT_ASSIGN(std::vector<int64_t> more, term(depth));
      ids.insert(ids.end(), more.begin(), more.end());
      if (ids.size() > k_max_mapped_cards)
        return fault(fmt::format("at most {} cards", k_max_mapped_cards));
    }
    return ids;
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
  COHORT_ASSIGN(std::vector<int64_t> ids, Parser(expression).run());
  return check_device_ids(ids);
}

}  // namespace cohort::config
