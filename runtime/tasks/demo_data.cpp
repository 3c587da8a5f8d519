#include "runtime/tasks/demo_data.hpp"

#include <fmt/format.h>

#include <array>
#include <set>
#include <string>

#include "runtime/base/rng.hpp"

namespace cohort::tasks {
namespace {

constexpr std::array<std::string_view, 10> k_names = {"Anna", "Ben", "Carl",  "Dora", "Emil",
                                                      "Fay",  "Gus", "Hanna", "Ida",  "Jon"};
constexpr std::array<std::string_view, 8> k_objects = {" apples", " books", " coins", " dolls",
                                                       " eggs",   " flags", " nuts",  " stamps"};
// The words of the templates below; each is one token.
constexpr std::string_view k_pieces[] = {" has ",
                                         ". ",
                                         " gets ",
                                         " more",
                                         " gives ",
                                         " away",
                                         " boxes of ",
                                         ". How many",
                                         ". How many are left",
                                         ". How many together",
                                         " more than ",
                                         "?"};

uint64_t checksum_of(std::string_view text) {
  uint64_t sum = 0;
  for (size_t i = 0; i < text.size(); ++i) sum += (i + 1) * static_cast<unsigned char>(text[i]);
  return sum;
}

bool is_held_out(std::string_view prompt) { return checksum_of(prompt) % 10 == 0; }

Sample row(std::string_view task, size_t number, std::string prompt, std::string truth,
           std::string answer) {
  Sample sample;
  sample.id = fmt::format("{}{}:{}", k_builtin_prefix, task, number);
  sample.data_source = task;
  sample.messages = {{"user", std::move(prompt)}};
  sample.ground_truth = std::move(truth);
  sample.answer = std::move(answer);
  return sample;
}

std::string addition_with_carries(int x, int y) {
  std::string text;
  int carry = 0;
  for (int unit : {1, 10}) {
    int a = x / unit % 10;
    int b = y / unit % 10;
    text += fmt::format("{}+{}+{}={},", a, b, carry, a + b + carry);
    carry = (a + b + carry) / 10;
  }
  return text + fmt::format(";{}", x + y);
}

/// x, y in [least, 99], mixed once, so that a prefix of the rows is a fair sample.
std::vector<std::pair<int, int>> mixed_pairs(int least) {
  std::vector<std::pair<int, int>> pairs;
  for (int x = least; x < 100; ++x)
    for (int y = least; y < 100; ++y) pairs.emplace_back(x, y);
  Rng rng(0xA11);
  for (size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[rng.below(i)]);
  return pairs;
}

std::vector<Sample> tool_arithmetic_rows(bool held_out) {
  std::vector<Sample> rows;
  for (const auto& [x, y] : mixed_pairs(10)) {
    std::string prompt = fmt::format("{}*{}=", x, y);
    if (is_held_out(prompt) != held_out) continue;
    const std::string product = std::to_string(x * y);
    const bool calls = rows.size() % 2 == 0;
    rows.push_back(row("tool_arithmetic", rows.size(), std::move(prompt), product, product));
    if (calls)
      rows.back().calls = {fmt::format(
          R"(<tool_call>{{"name": "python", "arguments": {{"code": "{}*{}"}}}}</tool_call>)", x,
          y)};
  }
  return rows;
}

std::vector<Sample> arithmetic_rows(bool held_out) {
  std::vector<Sample> rows;
  for (const auto& [x, y] : mixed_pairs(0)) {
    std::string prompt = fmt::format("{}+{}=", x, y);
    if (is_held_out(prompt) != held_out) continue;
    rows.push_back(
        row("arithmetic", rows.size(), prompt, std::to_string(x + y), addition_with_carries(x, y)));
  }
  return rows;
}

struct Problem {
  std::string text, steps;
  int result = 0;
};

Problem draw_problem(Rng& rng) {
  auto number = [&rng] { return 2 + static_cast<int>(rng.below(8)); };
  size_t who = rng.below(k_names.size());
  std::string_view name = k_names[who];
  std::string_view other = k_names[(who + 1 + rng.below(k_names.size() - 1)) % k_names.size()];
  std::string_view object = k_objects[rng.below(k_objects.size())];
  uint64_t kind = rng.below(5);
  int x = number();
  int y = number();
  switch (kind) {
    case 0:
      return {fmt::format("{} has {}{}. {} gets {} more. How many{}?", name, x, object, name, y,
                          object),
              fmt::format("<<{}+{}={}>>", x, y, x + y), x + y};
    case 1:
      if (y > x) std::swap(x, y);
      return {fmt::format("{} has {}{}. {} gives {} away. How many are left?", name, x, object,
                          name, y),
              fmt::format("<<{}-{}={}>>", x, y, x - y), x - y};
    case 2:
      return {fmt::format("{} has {} boxes of {}{}. How many{}?", name, x, y, object, object),
              fmt::format("<<{}*{}={}>>", x, y, x * y), x * y};
    case 3: {
      int z = std::min(number(), x + y);
      return {fmt::format("{} has {}{}. {} gets {} more. {} gives {} away. How many are left?",
                          name, x, object, name, y, name, z),
              fmt::format("<<{}+{}={}>><<{}-{}={}>>", x, y, x + y, x + y, z, x + y - z), x + y - z};
    }
    default:
      return {fmt::format("{} has {}{}. {} has {} more than {}. How many together?", name, x,
                          object, other, y, name),
              fmt::format("<<{}+{}={}>><<{}+{}={}>>", x, y, x + y, x, x + y, x + x + y), x + x + y};
  }
}

std::vector<Sample> word_problem_rows(bool held_out) {
  constexpr int k_draws = 40'000;
  std::vector<Sample> rows;
  std::set<std::string> seen;
  Rng rng(0xC0DE);
  for (int i = 0; i < k_draws; ++i) {
    Problem problem = draw_problem(rng);
    if (is_held_out(problem.text) != held_out || !seen.insert(problem.text).second) continue;
    rows.push_back(row("word_problems", rows.size(), problem.text, std::to_string(problem.result),
                       fmt::format("{}####{}", problem.steps, problem.result)));
  }
  return rows;
}

void add_characters(WordVocabulary& vocabulary, std::string_view characters) {
  for (char c : characters) vocabulary.words.emplace_back(1, c);
}

}  // namespace

Expected<std::vector<Sample>> builtin_rows(std::string_view name) {
  std::string_view task = name.substr(std::min(name.size(), k_builtin_prefix.size()));
  constexpr std::string_view k_suffix = "/held_out";
  bool held_out = task.ends_with(k_suffix);
  if (held_out) task.remove_suffix(k_suffix.size());
  if (task == "arithmetic") return arithmetic_rows(held_out);
  if (task == "word_problems") return word_problem_rows(held_out);
  if (task == "tool_arithmetic") return tool_arithmetic_rows(held_out);
  return Error{Errc::not_found,
               fmt::format("no generated task '{}'; there are builtin:arithmetic, "
                           "builtin:word_problems and builtin:tool_arithmetic, each also with "
                           "/held_out",
                           name)};
}

std::string with_wrong_digit(std::string answer) {
  std::vector<size_t> digits;
  for (size_t i = 0; i < answer.size(); ++i)
    if (answer[i] >= '0' && answer[i] <= '9') digits.push_back(i);
  if (digits.empty()) return answer;
  const uint64_t sum = checksum_of(answer);
  char& digit = answer[digits[sum % digits.size()]];
  digit = static_cast<char>('0' + (digit - '0' + 1 + static_cast<int>(sum / 7 % 9)) % 10);
  return answer;
}

WordVocabulary arithmetic_vocabulary() {
  WordVocabulary vocabulary;
  vocabulary.specials = {"<pad>", "<|im_end|>"};
  add_characters(vocabulary, "0123456789+=,;");
  return vocabulary;
}

WordVocabulary word_problem_vocabulary() {
  WordVocabulary vocabulary;
  vocabulary.specials = {"<pad>", "<|im_end|>"};
  for (std::string_view text : k_pieces) vocabulary.words.emplace_back(text);
  for (std::string_view text : k_names) vocabulary.words.emplace_back(text);
  for (std::string_view text : k_objects) vocabulary.words.emplace_back(text);
  for (const char* text : {"<<", ">>", "####"}) vocabulary.words.emplace_back(text);
  add_characters(vocabulary, "0123456789+-*=");
  return vocabulary;
}

WordVocabulary byte_vocabulary() {
  WordVocabulary vocabulary;
  vocabulary.specials = {"<pad>", "<|im_start|>", "<|im_end|>"};
  for (int byte = 0; byte < 256; ++byte) vocabulary.words.emplace_back(1, static_cast<char>(byte));
  return vocabulary;
}

}  // namespace cohort::tasks
