#include "runtime/tasks/scorers/ifeval_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "runtime/base/suggest.hpp"
#include "runtime/tasks/json_options.hpp"
#include "runtime/tasks/scorers/answer_text.hpp"

namespace cohort::tasks {
namespace {

using Json = nlohmann::json;

/// The arguments of one constraint; the first that is missing is noted.
class Arguments {
 public:
  explicit Arguments(const Json& json) : json_(json) {}

  std::string text(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    return note(key, "a text"), std::string();
  }
  int64_t count(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && value->is_number() && std::abs(value->get<double>()) < 1e9)
      return static_cast<int64_t>(value->get<double>());
    return note(key, "a number"), 0;
  }
  std::vector<std::string> texts(const char* key) {
    const Json* value = find(key);
    std::vector<std::string> list;
    if (value == nullptr || !value->is_array()) return note(key, "a list of texts"), list;
    for (const Json& item : *value)
      if (item.is_string()) list.push_back(item.get<std::string>());
    return list;
  }
  /// "at least" (also where the row has none) or "less than".
  bool holds(const char* key, int64_t found, int64_t wanted) {
    const Json* value = find(key);
    if (value == nullptr || *value == "at least") return found >= wanted;
    if (*value == "less than") return found < wanted;
    return note(key, "'at least' or 'less than'"), false;
  }
  const std::string& complaint() const { return complaint_; }

 private:
  const Json* find(const char* key) const {
    auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  void note(const char* key, std::string_view wanted) {
    if (complaint_.empty()) complaint_ = fmt::format("its kwargs need '{}', {}", key, wanted);
  }

  const Json& json_;
  std::string complaint_;
};

bool is_word_byte(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || (static_cast<unsigned char>(c) & 0x80) != 0;
}

std::vector<std::string_view> word_runs(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size(); ++at) {
    size_t begin = at;
    while (at < text.size() && is_word_byte(text[at])) ++at;
    if (at > begin) words.push_back(text.substr(begin, at - begin));
  }
  return words;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    size_t at = separator.empty() ? std::string_view::npos : text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

int64_t occurrences(std::string_view text, std::string_view what, bool is_whole_word = false) {
  int64_t count = 0;
  if (what.empty()) return 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at)) {
    size_t end = at + what.size();
    bool is_alone = (at == 0 || !is_word_byte(text[at - 1])) &&
                    (end == text.size() || !is_word_byte(text[end]));
    if (!is_whole_word || is_alone) ++count;
    at = end;
  }
  return count;
}

/// Sentences end in . ! ? before a space or the end; not after a title, an initial or "e.g.".
int64_t sentences(std::string_view text) {
  constexpr std::array<std::string_view, 12> k_short = {"mr", "mrs", "ms",  "dr", "st", "prof",
                                                        "jr", "e.g", "i.e", "vs", "no", "fig"};
  int64_t count = 0;
  bool has_words = false;
  size_t word = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (is_space(text[at])) word = at + 1;
    if (is_word_byte(text[at])) has_words = true;
    if (text[at] != '.' && text[at] != '!' && text[at] != '?') continue;
    size_t next = at + 1;
    while (next < text.size() &&
           std::string_view(".!?\"')*”").find(text[next]) != std::string_view::npos)
      ++next;
    if (next < text.size() && !is_space(text[next])) continue;
    std::string last = to_lower(text.substr(word, at - word));
    bool is_initial = last.size() == 1 && is_letter(text[word]) && last != "i";
    bool is_short = std::find(k_short.begin(), k_short.end(), last) != k_short.end();
    if (text[at] == '.' && next < text.size() && (is_initial || is_short)) continue;
    if (has_words) ++count;
    has_words = false;
    at = next - 1;
  }
  return count + (has_words ? 1 : 0);
}

/// Parts between `separator`: an empty one at an end does not count, one inside breaks the rule
/// (-1).
int64_t filled_parts(const std::vector<std::string_view>& parts) {
  auto count = static_cast<int64_t>(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!trim(parts[i]).empty()) continue;
    if (i != 0 && i + 1 != parts.size()) return -1;
    --count;
  }
  return count;
}

std::string first_word(std::string_view paragraph) {
  std::vector<std::string_view> words = words_of(paragraph);
  if (words.empty()) return {};
  std::string_view word = words[0];
  while (!word.empty() && (word[0] == '\'' || word[0] == '"')) word.remove_prefix(1);
  return to_lower(word.substr(0, word.find_first_of(".,?!'\"")));
}

bool nth_paragraph(Arguments& arguments, std::string_view response) {
  std::vector<std::string_view> paragraphs = split(response, "\n\n");
  int64_t nth = arguments.count("nth_paragraph");
  std::string wanted = to_lower(arguments.text("first_word"));
  auto filled = std::count_if(paragraphs.begin(), paragraphs.end(),
                              [](std::string_view x) { return !trim(x).empty(); });
  if (filled != arguments.count("num_paragraphs") || nth < 1 || nth > filled) return false;
  return first_word(paragraphs[static_cast<size_t>(nth - 1)]) == wanted;
}

/// Counts `open`…`close` on one line with something inside.
int64_t marked(std::string_view text, std::string_view open, std::string_view close) {
  int64_t count = 0;
  for (std::string_view line : split(text, "\n")) {
    for (size_t at = line.find(open); at != std::string_view::npos;) {
      size_t begin = at + open.size();
      size_t end = line.find(close, begin);
      if (end == std::string_view::npos) break;
      if (!trim(line.substr(begin, end - begin)).empty()) ++count;
      at = line.find(open, end + close.size());
    }
  }
  return count;
}

/// `*text*` and `**text**`.
int64_t highlights(std::string_view text) {
  int64_t count = 0;
  for (std::string_view line : split(text, "\n")) {
    for (size_t at = line.find('*'); at != std::string_view::npos;) {
      size_t begin = std::min(line.find_first_not_of('*', at), line.size());
      size_t end = line.find('*', begin);
      if (end == std::string_view::npos) break;
      if (!trim(line.substr(begin, end - begin)).empty()) ++count;
      at = line.find('*', std::min(line.find_first_not_of('*', end), line.size()));
    }
  }
  return count;
}

int64_t bullets(std::string_view text) {
  int64_t count = 0;
  for (std::string_view line : split(text, "\n")) {
    line = trim(line);
    bool is_star = line.size() > 1 && line[0] == '*' && line[1] != '*';
    if (is_star || line.starts_with('-')) ++count;
  }
  return count;
}

/// "Section 1", "SECTION 2": the splitter before a number.
int64_t sections(std::string_view text, std::string_view splitter) {
  int64_t count = 0;
  if (splitter.empty()) return 0;
  for (size_t at = text.find(splitter); at != std::string_view::npos;
       at = text.find(splitter, at)) {
    at += splitter.size();
    size_t digit = at + (at < text.size() && is_space(text[at]) ? 1 : 0);
    if (digit < text.size() && is_digit(text[digit])) ++count;
  }
  return count;
}

bool is_json(std::string_view text) {
  text = trim(text);
  for (std::string_view fence : {"```json", "```Json", "```JSON", "```"}) {
    if (!text.starts_with(fence)) continue;
    text.remove_prefix(fence.size());
    break;
  }
  if (text.ends_with("```")) text.remove_suffix(3);
  return Json::accept(trim(text));
}

bool has_postscript(std::string_view text, std::string_view marker) {
  // "P.P.S" may be written "p. p.s": spaces behind dots do not count.
  auto packed = [](std::string_view x) { return replace_all(to_lower(trim(x)), ". ", "."); };
  std::string wanted = packed(marker);
  return !wanted.empty() && packed(text).find(wanted) != std::string::npos;
}

bool two_responses(std::string_view text) {
  std::vector<std::string_view> parts = split(text, "******"), filled;
  if (filled_parts(parts) != 2) return false;
  for (std::string_view part : parts)
    if (!trim(part).empty()) filled.push_back(trim(part));
  return filled[0] != filled[1];
}

/// `upper`: no small letter and at least one capital; else the other way round.
bool is_all(std::string_view text, bool upper) {
  bool has_any = false;
  for (char c : text) {
    if (!is_letter(c)) continue;
    if ((c >= 'a') == upper) return false;
    has_any = true;
  }
  return has_any;
}

struct Script {
  std::string_view languages;
  uint32_t first, last;  // code points
};

/// Languages that their letters tell. The rest would need a language model.
constexpr Script k_scripts[] = {
    {" ru bg mk uk ", 0x0400, 0x04FF}, {" ar fa ur ", 0x0600, 0x06FF},
    {" he ", 0x0590, 0x05FF},          {" hi mr ne ", 0x0900, 0x097F},
    {" bn ", 0x0980, 0x09FF},          {" pa ", 0x0A00, 0x0A7F},
    {" gu ", 0x0A80, 0x0AFF},          {" ta ", 0x0B80, 0x0BFF},
    {" te ", 0x0C00, 0x0C7F},          {" kn ", 0x0C80, 0x0CFF},
    {" ml ", 0x0D00, 0x0D7F},          {" th ", 0x0E00, 0x0E7F},
    {" ko ", 0xAC00, 0xD7AF},          {" zh zh-cn zh-tw ", 0x4E00, 0x9FFF},
    {" ja ", 0x3040, 0x30FF},          {" el ", 0x0370, 0x03FF},
};

Expected<bool> is_language(std::string_view text, const std::string& language) {
  std::string wanted = " " + language + " ";
  const Script* script = std::find_if(
      std::begin(k_scripts), std::end(k_scripts),
      [&](const Script& x) { return x.languages.find(wanted) != std::string_view::npos; });
  if (script == std::end(k_scripts))
    return Error{Errc::unsupported,
                 fmt::format("language '{}' cannot be told by its letters; leave the row out, or "
                             "judge it by a plugin",
                             language)};
  size_t inside = 0, letters = 0;
  for (size_t at = 0; at < text.size();) {
    auto lead = static_cast<unsigned char>(text[at]);
    size_t length = character_size(text, at);
    uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; ++i)
      code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
    if (code >= 0x80 || is_letter(text[at])) ++letters;
    if (code >= script->first && code <= script->last) ++inside;
    at += length;
  }
  // Japanese mixes its own letters with Chinese ones.
  return letters > 0 && inside * 2 > (language == "ja" ? letters / 2 : letters);
}

constexpr std::string_view k_language = "language:response_language";
constexpr std::string_view k_ids[] = {k_language,
                                      "keywords:existence",
                                      "keywords:frequency",
                                      "keywords:forbidden_words",
                                      "keywords:letter_frequency",
                                      "length_constraints:number_sentences",
                                      "length_constraints:number_words",
                                      "length_constraints:number_paragraphs",
                                      "length_constraints:nth_paragraph_first_word",
                                      "detectable_format:number_bullet_lists",
                                      "detectable_format:constrained_response",
                                      "detectable_format:number_highlighted_sections",
                                      "detectable_format:multiple_sections",
                                      "detectable_format:json_format",
                                      "detectable_format:title",
                                      "change_case:capital_word_frequency",
                                      "change_case:english_capital",
                                      "change_case:english_lowercase",
                                      "detectable_content:number_placeholders",
                                      "detectable_content:postscript",
                                      "combination:two_responses",
                                      "combination:repeat_prompt",
                                      "startend:end_checker",
                                      "startend:quotation",
                                      "punctuation:no_comma"};

/// Keywords and lengths; `name` is without its family.
bool check_counts(std::string_view name, Arguments& arguments, std::string_view response) {
  std::string lowered = to_lower(response);
  auto all = [&](const char* key, bool wants, bool whole) {
    for (const std::string& word : arguments.texts(key))
      if ((occurrences(lowered, to_lower(word), whole) > 0) != wants) return false;
    return true;
  };
  if (name == "existence") return all("keywords", true, false);
  if (name == "forbidden_words") return all("forbidden_words", false, true);
  if (name == "frequency")
    return arguments.holds("relation", occurrences(lowered, to_lower(arguments.text("keyword"))),
                           arguments.count("frequency"));
  if (name == "letter_frequency")
    return arguments.holds("let_relation", occurrences(lowered, to_lower(arguments.text("letter"))),
                           arguments.count("let_frequency"));
  if (name == "number_sentences")
    return arguments.holds("relation", sentences(response), arguments.count("num_sentences"));
  if (name == "number_words")
    return arguments.holds("relation", static_cast<int64_t>(word_runs(response).size()),
                           arguments.count("num_words"));
  if (name == "number_paragraphs")
    return filled_parts(split(response, "***")) == arguments.count("num_paragraphs");
  return nth_paragraph(arguments, response);
}

/// The rest: form, case, content, begin and end.
bool check_form(std::string_view name, Arguments& arguments, std::string_view response) {
  std::string_view text = trim(response);
  if (name == "number_bullet_lists") return bullets(response) == arguments.count("num_bullets");
  if (name == "number_highlighted_sections")
    return highlights(response) >= arguments.count("num_highlights");
  if (name == "multiple_sections")
    return sections(response, arguments.text("section_spliter")) >= arguments.count("num_sections");
  if (name == "json_format") return is_json(response);
  if (name == "title") return marked(response, "<<", ">>") > 0;
  if (name == "constrained_response")
    for (std::string_view choice : {"My answer is yes.", "My answer is no.", "My answer is maybe."})
      if (response.find(choice) != std::string_view::npos) return true;
  if (name == "english_capital" || name == "english_lowercase")
    return is_all(response, name == "english_capital");
  if (name == "capital_word_frequency") {
    auto words = word_runs(response);
    auto capitals = [](std::string_view word) { return is_all(word, true); };
    return arguments.holds("capital_relation", std::count_if(words.begin(), words.end(), capitals),
                           arguments.count("capital_frequency"));
  }
  if (name == "number_placeholders")
    return marked(response, "[", "]") >= arguments.count("num_placeholders");
  if (name == "postscript") return has_postscript(response, arguments.text("postscript_marker"));
  if (name == "two_responses") return two_responses(response);
  if (name == "repeat_prompt")
    return to_lower(text).starts_with(to_lower(trim(arguments.text("prompt_to_repeat"))));
  if (name == "end_checker") {
    while (text.ends_with('"')) text.remove_suffix(1);
    return to_lower(text).ends_with(to_lower(trim(arguments.text("end_phrase"))));
  }
  if (name == "quotation") return text.size() > 1 && text.starts_with('"') && text.ends_with('"');
  return name == "no_comma" && response.find(',') == std::string_view::npos;
}

}  // namespace

Expected<bool> follows(std::string_view id, const Json& json, std::string_view response) {
  if (std::ranges::find(k_ids, id) == std::end(k_ids))
    return Error{Errc::unsupported,
                 fmt::format("unknown constraint '{}'{}", id,
                             did_you_mean(id, {std::begin(k_ids), std::end(k_ids)}))};
  Arguments arguments(json);
  std::string_view name = id.substr(id.find(':') + 1);
  bool verdict = false;
  if (id == k_language) {
    auto result = is_language(response, arguments.text("language"));
    if (!result && arguments.complaint().empty()) return result.error().with_context(id);
    verdict = result && *result;
  } else if (id.starts_with("keywords:") || id.starts_with("length_constraints:")) {
    verdict = check_counts(name, arguments, response);
  } else {
    verdict = check_form(name, arguments, response);
  }
  if (!arguments.complaint().empty())
    return Error{Errc::invalid_argument, fmt::format("{}: {}", id, arguments.complaint())};
  return verdict;
}

}  // namespace cohort::tasks
