#include "runtime/tasks/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace cohort::tasks {
namespace {

using ByteSet = Pattern::ByteSet;
using Instruction = Pattern::Instruction;
using Op = Pattern::Op;

constexpr uint32_t k_unbounded = UINT32_MAX;
constexpr uint32_t k_repeat_max = 1000;   // {n,m} is unrolled
constexpr size_t k_program_max = 20'000;  // [instructions]: bounds nested {n,m}
constexpr int k_depth_max = 100;          // nested groups

struct Node {
  enum class Kind : uint8_t { empty, set, concat, alternate, repeat, group, begin, end };
  Kind kind = Kind::empty;
  ByteSet set;
  std::vector<std::unique_ptr<Node>> children;
  uint32_t low = 0;  // repeat: least count; group: its number, 0 = not captured
  uint32_t high = 0;
  bool is_lazy = false;
};
using NodePtr = std::unique_ptr<Node>;

NodePtr make_node(Node::Kind kind) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  return node;
}

ByteSet range_set(unsigned first, unsigned last) {
  ByteSet set;
  for (unsigned c = first; c <= last; ++c) set.set(c);
  return set;
}

ByteSet single_set(char c) {
  ByteSet set;
  set.set(static_cast<unsigned char>(c));
  return set;
}

/// Recursive descent over the expression; throws nothing, keeps the first error.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Expected<NodePtr> parse() {
    NodePtr root = parse_alternation(0);
    if (error_.empty() && at_ < text_.size()) fail("unmatched ')'");
    if (!error_.empty()) return Error{Errc::invalid_argument, error_};
    return root;
  }
  uint32_t group_count() const { return group_count_; }

 private:
  bool done() const { return at_ >= text_.size() || !error_.empty(); }
  char peek() const { return text_[at_]; }
  bool take(char c) {
    if (done() || peek() != c) return false;
    ++at_;
    return true;
  }
  void fail(std::string_view what) {
    if (error_.empty()) error_ = fmt::format("pattern '{}' at offset {}: {}", text_, at_, what);
  }

  NodePtr parse_alternation(int depth) {
    if (depth > k_depth_max) fail("groups are nested too deeply");
    NodePtr first = parse_concat(depth);
    if (done() || peek() != '|') return first;
    NodePtr node = make_node(Node::Kind::alternate);
    node->children.push_back(std::move(first));
    while (take('|')) node->children.push_back(parse_concat(depth));
    return node;
  }

  NodePtr parse_concat(int depth) {
    NodePtr node = make_node(Node::Kind::concat);
    while (!done() && peek() != '|' && peek() != ')') node->children.push_back(parse_repeat(depth));
    return node;
  }

  NodePtr parse_repeat(int depth) {
    NodePtr atom = parse_atom(depth);
    if (done()) return atom;
    uint32_t low = 0;
    uint32_t high = k_unbounded;
    if (take('+'))
      low = 1;
    else if (take('?'))
      high = 1;
    else if (peek() == '{')
      parse_counts(low, high);
    else if (!take('*'))
      return atom;
    NodePtr node = make_node(Node::Kind::repeat);
    node->low = low;
    node->high = high;
    node->is_lazy = take('?');
    node->children.push_back(std::move(atom));
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{'))
      fail("a repeat cannot be repeated");
    return node;
  }

  void parse_counts(uint32_t& low, uint32_t& high) {
    take('{');
    low = parse_number();
    high = low;
    if (take(',')) high = !done() && peek() == '}' ? k_unbounded : parse_number();
    if (!take('}')) fail("expected {n}, {n,} or {n,m}");
    if (high < low) fail("counts are the wrong way round");
  }

  uint32_t parse_number() {
    uint32_t number = 0;
    size_t begin = at_;
    while (!done() && peek() >= '0' && peek() <= '9' && number <= k_repeat_max)
      number = number * 10 + static_cast<uint32_t>(text_[at_++] - '0');
    if (begin == at_ || number > k_repeat_max)
      fail(fmt::format("expected a number up to {}", k_repeat_max));
    return number;
  }

  NodePtr parse_atom(int depth) {
    char c = text_[at_++];
    if (c == '(') return parse_group(depth);
    if (c == '^') return make_node(Node::Kind::begin);
    if (c == '$') return make_node(Node::Kind::end);
    NodePtr node = make_node(Node::Kind::set);
    if (c == '.')
      node->set.set();
    else if (c == '[')
      node->set = parse_class();
    else if (c == '\\')
      node->set = parse_escape();
    else if (c == '*' || c == '+' || c == '?')
      fail("nothing to repeat");
    else
      node->set = single_set(c);
    return node;
  }

  NodePtr parse_group(int depth) {
    NodePtr node = make_node(Node::Kind::group);
    if (take('?')) {
      if (!take(':')) fail("only (?:...) is understood after '(?'");
    } else {
      node->low = ++group_count_;
    }
    node->children.push_back(parse_alternation(depth + 1));
    if (!take(')')) fail("missing ')'");
    return node;
  }

  ByteSet parse_escape() {
    if (done()) {
      fail("a backslash ends the pattern");
      return {};
    }
    char c = text_[at_++];
    ByteSet word =
        range_set('a', 'z') | range_set('A', 'Z') | range_set('0', '9') | single_set('_');
    ByteSet space = range_set('\t', '\r') | single_set(' ');
    switch (c) {
      case 'd':
        return range_set('0', '9');
      case 'D':
        return ~range_set('0', '9');
      case 'w':
        return word;
      case 'W':
        return ~word;
      case 's':
        return space;
      case 'S':
        return ~space;
      case 'n':
        return single_set('\n');
      case 't':
        return single_set('\t');
      case 'r':
        return single_set('\r');
      default:
        break;
    }
    if (word.test(static_cast<unsigned char>(c))) fail("an escape we do not understand");
    return single_set(c);
  }

  ByteSet parse_class() {
    ByteSet set;
    bool is_negated = take('^');
    for (bool is_first = true; !done() && (is_first || peek() != ']'); is_first = false) {
      char first = text_[at_++];
      if (first == '\\') {
        set |= parse_escape();
        continue;
      }
      bool is_range = at_ + 1 < text_.size() && peek() == '-' && text_[at_ + 1] != ']';
      if (!is_range) {
        set |= single_set(first);
        continue;
      }
      char last = text_[at_ + 1];
      at_ += 2;
      if (last == '\\' || static_cast<unsigned char>(last) < static_cast<unsigned char>(first))
        fail("a range that is empty or ends in an escape");
      else
        set |= range_set(static_cast<unsigned char>(first), static_cast<unsigned char>(last));
    }
    if (!take(']')) fail("missing ']'");
    return is_negated ? ~set : set;
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t group_count_ = 0;
  std::string error_;
};

/// Turns the tree into instructions.
class Emitter {
 public:
  std::vector<Instruction> program;
  std::vector<ByteSet> sets;
  bool is_too_long = false;

  void emit(const Node& node) {
    switch (node.kind) {
      case Node::Kind::empty:
        return;
      case Node::Kind::set:
        sets.push_back(node.set);
        push(Op::set, static_cast<uint32_t>(sets.size() - 1));
        return;
      case Node::Kind::concat:
        for (const NodePtr& child : node.children) emit(*child);
        return;
      case Node::Kind::alternate:
        emit_alternate(node);
        return;
      case Node::Kind::repeat:
        emit_repeat(node);
        return;
      case Node::Kind::group:
        if (node.low > 0) push(Op::save, 2 * node.low);
        emit(*node.children[0]);
        if (node.low > 0) push(Op::save, 2 * node.low + 1);
        return;
      case Node::Kind::begin:
        push(Op::begin);
        return;
      case Node::Kind::end:
        push(Op::end);
        return;
    }
  }
  uint32_t push(Op op, uint32_t x = 0, uint32_t y = 0) {
    if (program.size() >= k_program_max) {
      is_too_long = true;
      return 0;
    }
    program.push_back({op, x, y});
    return static_cast<uint32_t>(program.size() - 1);
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(program.size()); }
  void aim(uint32_t split, bool is_lazy, uint32_t body, uint32_t after) {
    program[split].x = is_lazy ? after : body;
    program[split].y = is_lazy ? body : after;
  }

  void emit_alternate(const Node& node) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i + 1 < node.children.size(); ++i) {
      uint32_t split = push(Op::split);
      emit(*node.children[i]);
      jumps.push_back(push(Op::jump));
      aim(split, false, split + 1, here());
    }
    emit(*node.children.back());
    for (uint32_t jump : jumps) program[jump].x = here();
  }

  void emit_repeat(const Node& node) {
    const Node& body = *node.children[0];
    for (uint32_t i = 0; i < node.low && !is_too_long; ++i) emit(body);
    if (node.high == k_unbounded) {
      uint32_t split = push(Op::split);
      emit(body);
      push(Op::jump, split);
      aim(split, node.is_lazy, split + 1, here());
      return;
    }
    std::vector<uint32_t> splits;
    for (uint32_t i = node.low; i < node.high && !is_too_long; ++i) {
      splits.push_back(push(Op::split));
      emit(body);
    }
    for (uint32_t split : splits) aim(split, node.is_lazy, split + 1, here());
  }
};

/// One run of the machine over one text. Threads are kept in priority order.
class Machine {
 public:
  Machine(const std::vector<Instruction>& program, const std::vector<ByteSet>& sets, size_t slots,
          std::string_view text)
      : program_(program), sets_(sets), slots_(slots), text_(text), seen_(program.size(), 0) {}

  std::vector<size_t> run() {
    std::vector<size_t> best;
    for (size_t at = 0; at <= text_.size(); ++at) {
      if (best.empty()) start_thread(at);
      if (current_.empty() && !best.empty()) break;
      advance(at, best);
      std::swap(current_, next_);
      next_.clear();
    }
    return best;
  }

 private:
  struct Thread {
    uint32_t counter;
    std::vector<size_t> saved;
  };

  // Thread lists hold only `set` and `match`: the rest is followed when a thread is added.
  void add(std::vector<Thread>& list, uint32_t first, std::vector<size_t> saved, size_t at) {
    std::vector<Thread> stack;
    stack.push_back({first, std::move(saved)});
    while (!stack.empty()) {
      Thread thread = std::move(stack.back());
      stack.pop_back();
      if (seen_[thread.counter] == stamp_) continue;
      seen_[thread.counter] = stamp_;
      const Instruction& instruction = program_[thread.counter];
      switch (instruction.op) {
        case Op::jump:
          stack.push_back({instruction.x, std::move(thread.saved)});
          break;
        case Op::split:
          stack.push_back({instruction.y, thread.saved});
          stack.push_back({instruction.x, std::move(thread.saved)});
          break;
        case Op::save:
          thread.saved[instruction.x] = at;
          stack.push_back({thread.counter + 1, std::move(thread.saved)});
          break;
        case Op::begin:
          if (at == 0) stack.push_back({thread.counter + 1, std::move(thread.saved)});
          break;
        case Op::end:
          if (at == text_.size() || (at + 1 == text_.size() && text_[at] == '\n'))
            stack.push_back({thread.counter + 1, std::move(thread.saved)});
          break;
        case Op::set:
        case Op::match:
          list.push_back(std::move(thread));
          break;
      }
    }
  }

  void start_thread(size_t at) {
    // Lowest priority: matches that begin earlier win. `seen_` still marks this position's threads.
    if (at == 0) ++stamp_;
    add(current_, 0, std::vector<size_t>(slots_, std::string_view::npos), at);
  }

  void advance(size_t at, std::vector<size_t>& best) {
    ++stamp_;
    for (Thread& thread : current_) {
      const Instruction& instruction = program_[thread.counter];
      if (instruction.op == Op::match) {
        best = std::move(thread.saved);
        return;  // threads after this one have lower priority
      }
      if (at < text_.size() && sets_[instruction.x].test(static_cast<unsigned char>(text_[at])))
        add(next_, thread.counter + 1, std::move(thread.saved), at + 1);
    }
  }

  const std::vector<Instruction>& program_;
  const std::vector<ByteSet>& sets_;
  size_t slots_;
  std::string_view text_;
  std::vector<uint64_t> seen_;
  uint64_t stamp_ = 0;
  std::vector<Thread> current_;
  std::vector<Thread> next_;
};

}  // namespace

Expected<Pattern> Pattern::compile(std::string_view expression) {
  Parser parser(expression);
  COHORT_ASSIGN(NodePtr root, parser.parse());
  Emitter emitter;
  emitter.push(Op::save, 0);
  emitter.emit(*root);
  emitter.push(Op::save, 1);
  emitter.push(Op::match);
  if (emitter.is_too_long)
    return Error{Errc::invalid_argument,
                 fmt::format("pattern '{}': its counts unroll to more than {} instructions",
                             expression, k_program_max)};
  Pattern pattern;
  pattern.program_ = std::move(emitter.program);
  pattern.sets_ = std::move(emitter.sets);
  pattern.group_count_ = parser.group_count();
  return pattern;
}

std::optional<Pattern::Match> Pattern::search(std::string_view text) const {
  std::vector<size_t> saved = Machine(program_, sets_, 2 * (group_count_ + 1), text).run();
  if (saved.empty()) return std::nullopt;
  Match match(group_count_ + 1);
  for (size_t i = 0; i < match.size(); ++i) {
    if (saved[2 * i] != std::string_view::npos && saved[2 * i + 1] != std::string_view::npos)
      match[i] = text.substr(saved[2 * i], saved[2 * i + 1] - saved[2 * i]);
  }
  return match;
}

}  // namespace cohort::tasks
