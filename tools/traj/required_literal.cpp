#include "tools/traj/required_literal.hpp"

#include <cctype>
#include <optional>

namespace cohort::traj {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Walks the expression once. Each step returns false where it does not understand what it sees.
class Walk {
 public:
  explicit Walk(std::string_view expression) : rest_(expression) {}

  std::optional<std::string> longest() {
    while (!rest_.empty())
      if (!step()) return std::nullopt;
    end_run();
    return longest_;
  }

 private:
  bool step() {
    const char c = rest_.front();
    if (c == '|') return false;  // either side may match
    if (c == '(') return end_run() && skip_group();
    if (c == '[') return end_run() && skip_class();
    if (c == '\\') return escape();
    if (c == '{') return end_run() && skip_count();
    rest_.remove_prefix(1);
    constexpr std::string_view k_special = ".^$)*+?}]";
    if (k_special.find(c) != k_special.npos) return end_run();
    return plain(c);
  }

  /// A plain character is in the run, unless what follows lets it be absent.
  bool plain(char c) {
    const char next = rest_.empty() ? '\0' : rest_.front();
    if (next == '*' || next == '?' || next == '{') return end_run();
    run_ += c;
    return true;
  }

  bool escape() {
    if (rest_.size() < 2) return false;
    const char c = rest_[1];
    // Classes, borders and single characters; all other letters and digits may take what follows.
    constexpr std::string_view k_alone = "dDwWsSbBAzZnrtfhHvVRNX";
    if (is_word(c) && k_alone.find(c) == k_alone.npos) return false;
    rest_.remove_prefix(2);
    return is_word(c) ? end_run() && !(c == 'N' && rest_.starts_with('{')) : plain(c);
  }

  /// Groups with "?" may set options for what follows, those with "*" are commands.
  bool skip_group() {
    size_t depth = 0;
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '[') {
        if (!skip_class()) return false;
        continue;
      }
      if (c == '\\' && (rest_.size() < 2 || rest_[1] == 'Q')) return false;
      if (c == '(' &&
          (rest_.starts_with("(*") || (rest_.starts_with("(?") && !rest_.starts_with("(?:"))))
        return false;
      rest_.remove_prefix(c == '\\' ? 2 : 1);
      if (c == '(') ++depth;
      if (c == ')' && --depth == 0) return true;
    }
    return false;
  }

  bool skip_class() {
    rest_.remove_prefix(1);
    if (rest_.starts_with('^')) rest_.remove_prefix(1);
    if (rest_.starts_with(']')) rest_.remove_prefix(1);  // the first one is a member
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\\' && (rest_.size() < 2 || rest_[1] == 'Q')) return false;
      if (rest_.starts_with("[:") || rest_.starts_with("[.") || rest_.starts_with("[="))
        return false;
      rest_.remove_prefix(c == '\\' ? 2 : 1);
      if (c == ']') return true;
    }
    return false;
  }

  /// "{2,5}" counts what is before it; any other brace is itself.
  bool skip_count() {
    const size_t end = rest_.find('}');
    const std::string_view inside = rest_.substr(0, end == rest_.npos ? 1 : end + 1);
    const bool is_count = inside.find_first_not_of("{}0123456789,") == rest_.npos;
    rest_.remove_prefix(is_count ? inside.size() : 1);
    return true;
  }

  bool end_run() {
    if (run_.size() > longest_.size()) longest_ = run_;
    run_.clear();
    return true;
  }

  std::string_view rest_;
  std::string run_, longest_;
};

}  // namespace

std::string required_literal(std::string_view expression) {
  return Walk(expression).longest().value_or("");
}

}  // namespace cohort::traj
