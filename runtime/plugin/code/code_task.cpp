#include "runtime/plugin/code/code_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/text.hpp"

namespace cohort::plugin {
namespace {

using Json = nlohmann::json;

// ---- code in an answer ----------------------------------------------------------------------

struct Block {
  CodeLanguage language = CodeLanguage::automatic;
  std::string_view code;
};

CodeLanguage language_of(std::string_view tag) {
  std::string name = to_lower(tag.substr(0, tag.find_first_of(" \t{")));
  for (const char* x : {"cpp", "c++", "cc", "cxx"})
    if (name == x) return CodeLanguage::cpp;
  for (const char* x : {"python", "python3", "py"})
    if (name == x) return CodeLanguage::python;
  return CodeLanguage::automatic;
}

/// A fence begins a line, white space before it or not.
std::vector<Block> fenced_blocks(std::string_view text) {
  std::vector<Block> blocks;
  constexpr size_t k_none = std::string_view::npos;
  size_t begin = k_none;  // of the block that is open
  CodeLanguage language = CodeLanguage::automatic;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = trim(text.substr(at, end - at));
    size_t next = std::min(end + 1, text.size());
    if (line.starts_with("```")) {
      if (begin != k_none) {
        blocks.push_back({language, text.substr(begin, at - begin)});
        begin = k_none;
      } else {
        language = language_of(trim(line.substr(3)));
        begin = next;
      }
    }
    at = end + 1;
  }
  if (begin != k_none) blocks.push_back({language, text.substr(begin)});
  return blocks;
}

// ---- columns --------------------------------------------------------------------------------

/// Returns the value, or what it holds if it is JSON in a string.
Json unwrapped(const Json& value) {
  if (!value.is_string()) return value;
  Json inner = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
  return inner.is_object() || inner.is_array() ? inner : value;
}

/// Returns the column of `columns` or of what its extra_info holds, null if neither has it.
Json column(const Json& columns, const char* name) {
  for (const char* outer : {"", "extra_info", "reward_model"}) {
    Json holder = *outer == '\0'            ? columns
                  : columns.contains(outer) ? unwrapped(columns[outer])
                                            : Json();
    if (holder.is_object() && holder.contains(name) && !holder[name].is_null()) return holder[name];
  }
  return nullptr;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

/// Returns the first of the members that is there.
const Json* member(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (object.is_object() && object.contains(name) && !object[name].is_null())
      return &object[name];
  return nullptr;
}

std::string lines_of(const Json& value) {
  if (!value.is_array()) return text_of(value);
  std::string text;
  for (const Json& line : value) text += text_of(line) + "\n";
  return text;
}

class TaskReader {
 public:
  TaskReader(const tasks::RewardRow& row, CodeTask& task)
      : row_(row), task_(task), columns_(Json::parse(row.columns, nullptr, false)) {}

  Expected<void> read() {
    if (!row_.columns.empty() && !columns_.is_object()) return bad("columns are not a JSON object");
    COHORT_TRY(read_kind());
    task_.entry = text_of(column(columns_, "entry_point"));
    if (task_.entry.empty()) task_.entry = text_of(column(columns_, "fn_name"));
    task_.prefix = text_of(column(columns_, "import_prefix"));
    COHORT_TRY(read_cases());
    if (task_.cases.empty())
      return bad("no test cases: expected test_cases, or inputs and outputs in ground_truth");
    bool has_function = !task_.entry.empty() && column(columns_, "entry_point").is_null();
    if (task_.kind == CaseKind::input && (has_function || is_call_)) {
      task_.kind = CaseKind::call;
      if (task_.entry.empty()) return bad("test_cases: no fn_name");
    }
    return {};
  }

 private:
  Error bad(const std::string& what) const {
    return {Errc::config, fmt::format("{}: code_sandbox: {}", row_.id, what)};
  }

  Expected<void> read_kind() {
    constexpr std::pair<std::string_view, CaseKind> k_kinds[] = {
        {"", CaseKind::input},      {"input", CaseKind::input},       {"pytest", CaseKind::test},
        {"assert", CaseKind::test}, {"check_based", CaseKind::check}, {"text", CaseKind::text}};
    std::string type = text_of(column(columns_, "case_type"));
    for (const auto& [name, kind] : k_kinds)
      if (name == type) return task_.kind = kind, Expected<void>();
    return bad(
        fmt::format("case_type '{}' is not one of input, pytest, assert, check_based, text", type));
  }

  Expected<void> read_cases() {
    Json cases = unwrapped(column(columns_, "test_cases"));
    if (is_empty(cases)) cases = unwrapped(column(columns_, "test_case_function"));
    if (is_empty(cases)) cases = unwrapped(column(columns_, "assert_code"));
    if (is_empty(cases)) cases = unwrapped(Json(row_.ground_truth));
    if (cases.is_object() && member(cases, {"inputs", "input_output"}) != nullptr)
      return read_columns_of_cases(cases.contains("inputs") ? cases
                                                            : unwrapped(cases["input_output"]));
    if (cases.is_array()) {
      for (const Json& item : cases) COHORT_TRY(read_case(item));
      return {};
    }
    return is_empty(cases) ? Expected<void>() : read_case(cases);
  }

  static bool is_empty(const Json& value) {
    return value.is_null() || value.empty() || value == "";
  }

  /// {"inputs": […], "outputs": […], "fn_name": …}.
  Expected<void> read_columns_of_cases(const Json& table) {
    Json inputs = unwrapped(table.value("inputs", Json())),
         outputs = unwrapped(table.value("outputs", Json()));
    if (!inputs.is_array() || !outputs.is_array() || inputs.size() != outputs.size())
      return bad(fmt::format("inputs and outputs are not lists of one length ({} and {})",
                             inputs.size(), outputs.size()));
    take_function(table);
    for (size_t i = 0; i < inputs.size(); ++i) add_values(inputs[i], outputs[i]);
    return {};
  }

  void take_function(const Json& object) {
    const Json* name = member(object, {"fn_name"});
    if (name == nullptr || text_of(*name).empty()) return;
    task_.entry = text_of(*name);
    is_call_ = true;
  }

  void add_values(const Json& input, const Json& expected) {
    if (is_call_ || !column(columns_, "fn_name").is_null())
      task_.cases.push_back({input.dump(), expected.dump()});
    else
      task_.cases.push_back({lines_of(input), lines_of(expected)});
  }

  Expected<void> read_case(const Json& given) {
    Json item = unwrapped(given);
    if (task_.kind == CaseKind::input) {
      if (item.is_object() && item.contains("inputs")) return read_columns_of_cases(item);
      const Json* input = member(item, {"stdin", "input"});
      const Json* expected =
          member(item, {"expected_stdout", "expected_output", "output", "stdout"});
      if (expected == nullptr)
        return bad(fmt::format("test_cases[{}] has no expected_stdout", task_.cases.size()));
      take_function(item);
      add_values(input == nullptr ? Json("") : *input, *expected);
      return {};
    }
    const Json* code = item.is_object() ? member(item, {"assert_code", "test", "code"}) : &item;
    if (code == nullptr || !code->is_string())
      return bad(fmt::format("test_cases[{}] has no assert_code", task_.cases.size()));
    if (const Json* name = member(item, {"entry_point"})) task_.entry = text_of(*name);
    if (const Json* prefix = member(item, {"import_prefix"})) task_.prefix = text_of(*prefix);
    task_.cases.push_back({"", code->get<std::string>()});
    return {};
  }

  const tasks::RewardRow& row_;
  CodeTask& task_;
  Json columns_;
  bool is_call_ = false;
};

// ---- outputs --------------------------------------------------------------------------------

/// Lines without white space at their ends; no empty lines at the end.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t last = text.find_last_not_of(k_spaces);
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  while (!text.empty()) {
    size_t end = text.find('\n');
    lines.push_back(trim(text.substr(0, end)));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

std::string_view next_word(std::string_view& text) {
  text = trim(text);
  size_t end = std::min(text.find_first_of(k_spaces), text.size());
  std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

std::optional<double> number_of(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool words_agree(std::string_view expected, std::string_view got) {
  if (expected == got) return true;
  constexpr std::string_view k_fraction = ".eE";
  if (expected.find_first_of(k_fraction) == std::string_view::npos &&
      got.find_first_of(k_fraction) == std::string_view::npos)
    return false;
  std::optional<double> a = number_of(expected), b = number_of(got);
  constexpr double k_tolerance = 1e-6;
  return a && b && std::abs(*a - *b) <= k_tolerance * std::max(1.0, std::abs(*a));
}

bool lines_agree(std::string_view expected, std::string_view got) {
  while (!trim(expected).empty() && !trim(got).empty())
    if (!words_agree(next_word(expected), next_word(got))) return false;
  return trim(expected).empty() && trim(got).empty();
}

std::string shown(std::string_view text) {
  constexpr size_t k_shown = 80;
  return fmt::format("'{}{}'", beginning_of(text, k_shown), text.size() > k_shown ? "…" : "");
}

}  // namespace

ExtractedCode extract_code(std::string_view response, CodeLanguage wanted) {
  constexpr std::string_view k_think = "</think>";
  if (size_t end = response.rfind(k_think); end != std::string_view::npos)
    response.remove_prefix(end + k_think.size());
  std::vector<Block> blocks = fenced_blocks(response);
  const Block* best = nullptr;
  for (const Block& block : blocks) {
    bool fits = wanted == CodeLanguage::cpp ? block.language == CodeLanguage::cpp
                                            : block.code.find("def ") != std::string_view::npos ||
                                                  (wanted == CodeLanguage::automatic &&
                                                   block.language == CodeLanguage::cpp);
    if (fits && best == nullptr) best = &block;
  }
  if (best == nullptr && !blocks.empty()) best = &blocks.front();
  if (best == nullptr) return {std::string(response), CodeLanguage::automatic};
  return {std::string(best->code), best->language};
}

Expected<CodeTask> code_task(const tasks::RewardRow& row, CodeLanguage language) {
  CodeTask task;
  COHORT_TRY(TaskReader(row, task).read());
  ExtractedCode found = extract_code(row.response, language);
  task.code = task.kind == CaseKind::text ? row.response : std::move(found.code);
  task.language = language != CodeLanguage::automatic ? language : found.language;
  if (task.language == CodeLanguage::automatic) task.language = CodeLanguage::python;
  return task;
}

bool outputs_agree(std::string_view expected, std::string_view got) {
  std::vector<std::string_view> a = lines_of(expected), b = lines_of(got);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), lines_agree);
}

std::string difference(std::string_view expected, std::string_view got) {
  std::vector<std::string_view> a = lines_of(expected), b = lines_of(got);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && lines_agree(a[i], b[i])) continue;
    return fmt::format("line {}: expected {}, got {}", i + 1,
                       i < a.size() ? shown(a[i]) : "the end of the output",
                       i < b.size() ? shown(b[i]) : "the end of the output");
  }
  return "";
}

}  // namespace cohort::plugin
