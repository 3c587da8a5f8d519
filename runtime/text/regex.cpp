#include "runtime/text/regex.hpp"

#include <algorithm>

namespace cohort::text {
namespace {

/// \w of Oniguruma in a class: as in Rust but without the joiners.
bool is_regex_word(char32_t c) { return c != 0x200C && c != 0x200D && is_word_character(c); }

}  // namespace

bool CharacterSet::add_other_case() {
  bool is_all = categories_ == 0 && (kinds_ & ~3U) == 0 && others_.empty();
  const std::vector<Range> listed = ranges_;
  for (const Range& range : listed) {
    if (range.last >= 128) is_all = false;
    for (char32_t c = range.first; c <= std::min<char32_t>(range.last, 127); ++c) {
      const bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';
      if (!is_upper && !is_lower) continue;
      const char32_t lower = is_upper ? c + 32 : c;
      add_range(lower, lower);
      add_range(lower - 32, lower - 32);
      if (lower == 'k') add_range(0x212A, 0x212A);
      if (lower == 's') add_range(0x17F, 0x17F);
    }
  }
  return is_all;
}

void CharacterSet::finish() {
  std::ranges::sort(ranges_, {}, [](const Range& x) { return x.first; });
  std::vector<Range> merged;
  for (const Range& x : ranges_) {
    if (!merged.empty() && x.first <= merged.back().last)
      merged.back().last = std::max(merged.back().last, x.last);
    else
      merged.push_back(x);
  }
  ranges_ = std::move(merged);
  for (CharacterSet& other : others_) other.finish();
  for (char32_t c = 0; c < 128; ++c)
    if (find(c)) ascii_[c >> 6] |= uint64_t{1} << (c & 63);
}

bool CharacterSet::find(char32_t c) const {
  const UnicodeTable& table = UnicodeTable::get();
  const auto has = [&](Kind kind) { return (kinds_ >> static_cast<unsigned>(kind) & 1) != 0; };
  bool is_in = table.is_in(c, categories_);
  if (!is_in && kinds_ != 0)
    is_in = (has(Kind::space) && table.is_space(c)) ||
            (has(Kind::not_space) && !table.is_space(c)) || (has(Kind::word) && is_regex_word(c)) ||
            (has(Kind::not_word) && !is_regex_word(c));
  if (!is_in) {
    const auto after =
        std::ranges::upper_bound(ranges_, c, {}, [](const Range& x) { return x.first; });
    is_in = after != ranges_.begin() && (after - 1)->last >= c;
  }
  for (const CharacterSet& other : others_) is_in = is_in && other.contains(c);
  return is_in != is_negated_;
}

namespace {

/// A place to go back to.
struct Frame {
  enum class Kind : uint8_t { retry, back_off, extend, group };
  Kind kind;
  uint32_t pc;  // retry, back_off, extend: of the instruction to go on with; group: of its begin
  size_t at;
  size_t limit;  // back_off: the least place; extend: characters left
};

/// One attempt to match at one place.
class RegexRun {
 public:
  using Instruction = Regex::Instruction;
  using Op = Instruction::Op;
  RegexRun(const std::vector<Instruction>& program, const std::vector<CharacterSet>& sets,
           std::string_view text, StepBudget& budget)
      : program_(program), sets_(sets), text_(text), budget_(budget) {}

  Regex::Result run(size_t from, size_t& end) {
    at_ = from;
    while (true) {
      if (budget_.steps == 0 || frames_.size() > Regex::k_frames_max)
        return Regex::Result::out_of_steps;
      --budget_.steps;
      if (program_[pc_].op == Op::match) return end = at_, Regex::Result::found;
      if (!step(program_[pc_]) && !go_back()) return Regex::Result::none;
    }
  }

 private:
  /// Executes one instruction; returns false if it does not match.
  bool step(const Instruction& x) {
    const uint32_t pc = pc_++;
    switch (x.op) {
      case Op::set:
        if (at_ >= text_.size()) return false;
        return sets_[x.a].contains(next_character(text_, at_));
      case Op::loop:
        return loop(x);
      case Op::lazy_loop:
        return lazy_loop(x, pc);
      case Op::split:
        frames_.push_back({Frame::Kind::retry, x.b, at_, 0});
        pc_ = x.a;
        return true;
      case Op::jump:
        pc_ = x.a;
        return true;
      case Op::line_begin:
        return at_ == 0 || text_[at_ - 1] == '\n';
      case Op::line_end:
        return at_ == text_.size() || text_[at_] == '\n';
      case Op::text_begin:
        return at_ == 0;
      case Op::text_end:
        return at_ == text_.size();
      case Op::border:
      case Op::not_border:
        return is_border(sets_[x.a]) == (x.op == Op::border);
      case Op::look:
      case Op::not_look:
      case Op::atomic:
        frames_.push_back({Frame::Kind::group, pc, at_, 0});
        return true;
      case Op::look_end:
        at_ = leave_group().at;
        return true;
      case Op::atomic_end:
        leave_group();
        return true;
      case Op::not_look_end:
        leave_group();
        return false;
      default:
        return false;
    }
  }

  bool is_border(const CharacterSet& word) const {
    size_t before = at_ == 0 ? 0 : previous_begin(text_, at_), behind = at_;
    const bool is_behind = behind < text_.size() && word.contains(next_character(text_, behind));
    return is_behind != (at_ > 0 && word.contains(next_character(text_, before)));
  }

  bool loop(const Instruction& x) {
    const CharacterSet& set = sets_[x.a];
    size_t least = at_;
    uint32_t count = 0;
    for (size_t next = at_; count < x.max && next < text_.size(); ++count) {
      if (!set.contains(next_character(text_, next))) break;
      at_ = next;
      if (count < x.min) least = next;
      spend();
    }
    if (count < x.min) return false;
    if (at_ > least) frames_.push_back({Frame::Kind::back_off, pc_, at_, least});
    return true;
  }

  bool lazy_loop(const Instruction& x, uint32_t pc) {
    for (uint32_t i = 0; i < x.min; ++i) {
      if (at_ >= text_.size() || !sets_[x.a].contains(next_character(text_, at_))) return false;
      spend();
    }
    if (x.max > x.min) frames_.push_back({Frame::Kind::extend, pc, at_, x.max - x.min});
    return true;
  }

  /// Closes the innermost open group: what it could still try is forgotten.
  Frame leave_group() {
    while (frames_.back().kind != Frame::Kind::group) frames_.pop_back();
    const Frame frame = frames_.back();
    frames_.pop_back();
    return frame;
  }

  /// Goes to the last place that has another way; returns false if none is left.
  bool go_back() {
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      spend();
      if (frame.kind == Frame::Kind::back_off) {
        frame.at = at_ = previous_begin(text_, frame.at);
        pc_ = frame.pc;
        if (frame.at == frame.limit) frames_.pop_back();
        return true;
      }
      if (frame.kind == Frame::Kind::extend) {
        if (extend(frame)) return true;
        continue;
      }
      const Frame top = frame;
      frames_.pop_back();
      at_ = top.at;
      if (top.kind == Frame::Kind::retry) return pc_ = top.pc, true;
      // A group in which nothing matched: good for (?!..) alone.
      if (program_[top.pc].op == Op::not_look) return pc_ = program_[top.pc].a, true;
    }
    return false;
  }

  bool extend(Frame& frame) {
    const Instruction& x = program_[frame.pc];
    if (frame.limit == 0 || frame.at >= text_.size() ||
        !sets_[x.a].contains(next_character(text_, frame.at))) {
      frames_.pop_back();
      return false;
    }
    if (x.max != UINT32_MAX) --frame.limit;
    at_ = frame.at;
    pc_ = frame.pc + 1;
    return true;
  }

  void spend() {
    if (budget_.steps > 0) --budget_.steps;
  }

  const std::vector<Instruction>& program_;
  const std::vector<CharacterSet>& sets_;
  std::string_view text_;
  StepBudget& budget_;
  std::vector<Frame> frames_;
  uint32_t pc_ = 0;
  size_t at_ = 0;
};

}  // namespace

Regex::Result Regex::find(std::string_view text, size_t from, Span& match,
                          StepBudget& budget) const {
  for (size_t at = from; at <= text.size();) {
    const Result result = match_at(text, at, match.end, budget);
    if (result != Result::none) return match.begin = at, result;
    at += at < text.size() ? utf8_size(text[at]) : 1;
  }
  return Result::none;
}

Regex::Result Regex::match_at(std::string_view text, size_t from, size_t& end,
                              StepBudget& budget) const {
  return RegexRun(program_, sets_, text, budget).run(from, end);
}

}  // namespace cohort::text
