#pragma once
/// Prometheus' text format 0.0.4, read strictly: what is not of the grammar is named with its line.
/// Written from the format's description, apart from the code that writes it.
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace cohort::test {

struct PrometheusText {
  std::string fault;                         // empty: the text is of the format
  std::map<std::string, double> samples;     // "name{label=\"value\"}" as it stands
  std::map<std::string, std::string> types;  // by family
};

namespace prometheus_detail {

inline bool is_name(std::string_view text, bool may_have_colon) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (char c : text)
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_' &&
        !(may_have_colon && c == ':'))
      return false;
  return true;
}

inline std::optional<double> value_of(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Takes {a="b",c="d"} off the front of `text`; returns what is wrong with it.
inline std::string take_labels(std::string_view& text) {
  if (!text.starts_with('{')) return "";
  text.remove_prefix(1);
  std::set<std::string> seen;
  for (;;) {
    const size_t equal = text.find('=');
    if (equal == std::string_view::npos || !is_name(text.substr(0, equal), false))
      return "a label without a name";
    if (!seen.insert(std::string(text.substr(0, equal))).second) return "a label twice";
    text.remove_prefix(equal + 1);
    if (!text.starts_with('"')) return "a label without a quote";
    text.remove_prefix(1);
    for (;; text.remove_prefix(1)) {
      if (text.empty()) return "a label value without an end";
      if (text[0] == '"') break;
      if (text[0] != '\\') continue;
      text.remove_prefix(1);
      if (text.empty() || (text[0] != '\\' && text[0] != '"' && text[0] != 'n'))
        return "an escape that is none";
    }
    text.remove_prefix(1);
    if (text.starts_with('}')) break;
    if (!text.starts_with(',')) return "labels without a comma between";
    text.remove_prefix(1);
  }
  text.remove_prefix(1);
  return "";
}

}  // namespace prometheus_detail

class PrometheusReader {
 public:
  PrometheusText read(std::string_view text) {
    if (!text.empty() && !text.ends_with('\n')) out_.fault = "the last line has no end";
    for (size_t number = 1; !text.empty() && out_.fault.empty(); ++number) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      if (std::string fault = line.starts_with('#') ? comment(line) : sample(line); !fault.empty())
        out_.fault = "line " + std::to_string(number) + ": " + fault + ": " + std::string(line);
      text.remove_prefix(end + 1);
    }
    return std::move(out_);
  }

 private:
  std::string comment(std::string_view line) {
    const bool is_help = line.starts_with("# HELP "), is_type = line.starts_with("# TYPE ");
    if (!is_help && !is_type) return "a comment of another kind";
    line.remove_prefix(7);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return "no word behind the name";
    const std::string name(line.substr(0, space)), rest(line.substr(space + 1));
    if (!prometheus_detail::is_name(name, true)) return "no name";
    if (is_help) {
      if (!helped_.insert(name).second) return "a second HELP";
      for (size_t i = rest.find('\\'); i != std::string::npos; i = rest.find('\\', i + 2))
        if (i + 1 == rest.size() || (rest[i + 1] != '\\' && rest[i + 1] != 'n'))
          return "an escape that is none";
      return "";
    }
    if (rest != "gauge" && rest != "counter") return "a type that we do not use";
    if (rest == "counter" && !name.ends_with("_total")) return "a counter that is no _total";
    if (!out_.types.emplace(name, rest).second) return "a second TYPE";
    family_ = name;
    return "";
  }
  std::string sample(std::string_view line) {
    const std::string_view whole = line;
    const std::string name(line.substr(0, line.find_first_of("{ ")));
    if (!prometheus_detail::is_name(name, true)) return "no name";
    if (name != family_) return "a sample apart from its family";
    line.remove_prefix(name.size());
    if (std::string fault = prometheus_detail::take_labels(line); !fault.empty()) return fault;
    const std::string key(whole.substr(0, whole.size() - line.size()));
    if (!line.starts_with(' ')) return "no blank before the value";
    const auto value = prometheus_detail::value_of(line.substr(1));
    if (!value) return "no number";
    if (!out_.samples.emplace(key, *value).second) return "a sample twice";
    if (out_.types[name] == "counter" && !(*value >= 0)) return "a counter below 0";
    return "";
  }

  PrometheusText out_;
  std::set<std::string> helped_;
  std::string family_;
};

inline PrometheusText read_prometheus(std::string_view text) {
  return PrometheusReader().read(text);
}

}  // namespace cohort::test
