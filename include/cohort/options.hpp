/// The options of a plugin: the flat JSON object that it is created with (`args` in the YAML).
///
///   cohort::sdk::Options options(config_json);
///   marker_ = options.text("marker", "####");
///   weight_ = options.number("weight", 1.0);
///   options.finish();   // whatever was not asked for is an error
///
/// Throws std::invalid_argument with a sentence; from a constructor that refuses the plugin. A
/// value that is a list or an object comes back as its JSON text from json(), for a library of
/// one's own.
#ifndef COHORT_OPTIONS_HPP
#define COHORT_OPTIONS_HPP

#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cohort::sdk {

class Options {
 public:
  explicit Options(std::string_view json) : in_(json) {
    expect('{');
    if (peek() == '}') return;
    for (;;) {
      std::string key = string();
      expect(':');
      peek();
      const size_t begin = at_;
      skip_value(0);
      values_[std::move(key)] = std::string(in_.substr(begin, at_ - begin));
      if (peek() == '}') return;
      expect(',');
    }
  }

  std::string text(const std::string& key, std::string otherwise) {
    const std::string value = take(key);
    if (value.empty()) return otherwise;
    if (value.front() != '"') wrong(key, "a text", value);
    return Options(value, Scalar{}).string();
  }
  double number(const std::string& key, double otherwise) {
    const std::string value = take(key);
    if (value.empty()) return otherwise;
    char* end = nullptr;
    const double found = std::strtod(value.c_str(), &end);
    if (*end != '\0') wrong(key, "a number", value);
    return found;
  }
  bool flag(const std::string& key, bool otherwise) {
    const std::string value = take(key);
    if (value.empty()) return otherwise;
    if (value != "true" && value != "false") wrong(key, "true or false", value);
    return value == "true";
  }
  /// Returns the JSON text of a value; empty if it is not there.
  std::string json(const std::string& key) { return take(key); }

  void finish() const {
    if (!values_.empty())
      throw std::invalid_argument("there is no option '" + values_.begin()->first + "'");
  }

 private:
  struct Scalar {};
  Options(std::string_view json, Scalar) : in_(json) {}

  std::string take(const std::string& key) {
    auto found = values_.find(key);
    if (found == values_.end()) return "";
    std::string value = std::move(found->second);
    values_.erase(found);
    return value;
  }
  [[noreturn]] static void wrong(const std::string& key, const char* wanted,
                                 const std::string& value) {
    throw std::invalid_argument("option '" + key + "' is " + wanted + ", not " + value);
  }
  [[noreturn]] void broken() const {
    throw std::invalid_argument("the options are no JSON object: position " + std::to_string(at_));
  }

  char peek() {
    while (at_ < in_.size() &&
           (in_[at_] == ' ' || in_[at_] == '\n' || in_[at_] == '\t' || in_[at_] == '\r'))
      ++at_;
    return at_ < in_.size() ? in_[at_] : '\0';
  }
  void expect(char wanted) {
    if (peek() != wanted) broken();
    ++at_;
  }

  std::string string() {
    expect('"');
    std::string found;
    for (;;) {
      if (at_ >= in_.size()) broken();
      const char c = in_[at_++];
      if (c == '"') return found;
      if (c == '\\')
        escape(found);
      else
        found += c;
    }
  }
  void escape(std::string& found) {
    static const std::map<char, char> k_plain = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},
                                                 {'b', '\b'}, {'f', '\f'},  {'n', '\n'},
                                                 {'r', '\r'}, {'t', '\t'}};
    if (at_ >= in_.size()) broken();
    const char c = in_[at_++];
    if (c != 'u') {
      auto plain = k_plain.find(c);
      if (plain == k_plain.end()) broken();
      found += plain->second;
      return;
    }
    uint32_t code = hex();
    if (code >= 0xD800 && code < 0xDC00 && in_.substr(at_, 2) == "\\u") {  // one of two halves
      at_ += 2;
      code = 0x10000 + ((code - 0xD800) << 10) + (hex() - 0xDC00);
    }
    append_utf8(found, code);
  }
  uint32_t hex() {
    if (in_.size() - at_ < 4) broken();
    const std::string digits(in_.substr(at_, 4));
    char* end = nullptr;
    const unsigned long code = std::strtoul(digits.c_str(), &end, 16);
    if (end != digits.c_str() + 4) broken();
    at_ += 4;
    return static_cast<uint32_t>(code);
  }
  static void append_utf8(std::string& text, uint32_t code) {
    auto put = [&text](uint32_t byte) { text += static_cast<char>(byte); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xC0 | (code >> 6));
    } else if (code < 0x10000) {
      put(0xE0 | (code >> 12));
      put(0x80 | ((code >> 6) & 0x3F));
    } else {
      put(0xF0 | ((code >> 18) & 0x07));
      put(0x80 | ((code >> 12) & 0x3F));
      put(0x80 | ((code >> 6) & 0x3F));
    }
    put(0x80 | (code & 0x3F));
  }

  void skip_value(int depth) {
    const char c = peek();
    if (depth > 32) broken();
    if (c == '"') {
      string();
    } else if (c == '{' || c == '[') {
      skip_list(c == '{', depth);
    } else {
      const size_t begin = at_;
      while (at_ < in_.size() &&
             std::string_view(",]} \n\t\r").find(in_[at_]) == std::string_view::npos)
        ++at_;
      if (at_ == begin) broken();
    }
  }
  void skip_list(bool is_object, int depth) {
    const char end = is_object ? '}' : ']';
    ++at_;
    if (peek() == end) {
      ++at_;
      return;
    }
    for (;;) {
      if (is_object) {
        string();
        expect(':');
      }
      skip_value(depth + 1);
      if (peek() == end) {
        ++at_;
        return;
      }
      expect(',');
    }
  }

  std::string_view in_;
  size_t at_ = 0;
  std::map<std::string, std::string> values_;  // JSON texts of what was not asked for yet
};

}  // namespace cohort::sdk
#endif
