#include "runtime/text/template/printing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/runtime.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

/// Writes repr() of values; each byte and each value is paid for.
class ReprWriter {
 public:
  explicit ReprWriter(Budget& budget) : budget_(budget) {}
  std::string take() { return std::move(out_); }

  void write(const Value& x) {
    const Budget::Level level(budget_);
    budget_.step();
    switch (x.kind()) {
      case Kind::missing:
      case Kind::undefined:
        return append("Undefined");
      case Kind::none:
        return append("None");
      case Kind::boolean:
        return append(x.boolean_value() ? "True" : "False");
      case Kind::integer:
        return append(integer_text(x.whole()));
      case Kind::real:
        return append(real_text(x.real_value()));
      case Kind::text:
        return write_text(x.text_object());
      case Kind::list:
        return write_items("[", x.items(), "]");
      case Kind::tuple:
        return write_items("(", x.items(), x.items().size() == 1 ? ",)" : ")");
      case Kind::dict:
        return write_entries(x.dict().entries);
      case Kind::dict_view:
        return write_view(x.as<DictView>());
      case Kind::range:
        return write_range(x.as<Range>());
      case Kind::name_space:
        append("<Namespace ");
        write_entries(x.as<Namespace>().entries);
        return append(">");
      default:
        return append(object_repr(x));
    }
  }

 private:
  void append(std::string_view text) {
    budget_.step(text.size() / 64);
    budget_.check_text(out_.size() + text.size());
    out_ += text;
  }
  void write_text(const Text& x) {
    if (x.is_markup) append("Markup(");
    budget_.scan(x.bytes.size());
    append(text_repr(x.bytes));
    if (x.is_markup) append(")");
  }
  void write_items(std::string_view open, const std::vector<Value>& items, std::string_view close) {
    append(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) append(", ");
      write(items[i]);
    }
    append(close);
  }
  void write_entries(const std::vector<std::pair<Value, Value>>& entries) {
    append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) append(", ");
      write(entries[i].first);
      append(": ");
      write(entries[i].second);
    }
    append("}");
  }
  void write_view(const DictView& view) {
    constexpr std::string_view names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    append(names[static_cast<size_t>(view.part)]);
    bool is_first = true;
    for (const auto& [key, value] : view.dict.dict().entries) {
      if (!is_first) append(", ");
      is_first = false;
      const bool is_pair = view.part == DictView::Part::items;
      if (is_pair) append("(");
      write(view.part == DictView::Part::values ? value : key);
      if (!is_pair) continue;
      append(", ");
      write(value);
      append(")");
    }
    append("])");
  }
  void write_range(const Range& x) {
    append(fmt::format("range({}, {}", integer_text(x.start), integer_text(x.stop)));
    append(x.step == 1 ? ")" : fmt::format(", {})", integer_text(x.step)));
  }

  Budget& budget_;
  std::string out_;
};

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonLayout& layout) : budget_(budget), layout_(layout) {}
  std::string take() { return std::move(out_); }

  void write(const Value& x) {
    const Budget::Level level(budget_);
    budget_.step();
    switch (x.kind()) {
      case Kind::none:
        return append("null");
      case Kind::boolean:
        return append(x.boolean_value() ? "true" : "false");
      case Kind::integer:
        return append(integer_text(x.whole()));
      case Kind::real:
        return append(json_real(x.real_value()));
      case Kind::text:
        return write_text(x.text());
      case Kind::list:
      case Kind::tuple:
        return write_items(x.items());
      case Kind::dict:
        return write_dict(x.dict());
      default:
        fail("TypeError", fmt::format("Object of type {} is not JSON serializable", type_name(x)));
    }
  }

 private:
  void append(std::string_view text) {
    budget_.step(text.size() / 64);
    budget_.check_text(out_.size() + text.size());
    out_ += text;
  }
  static std::string json_real(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x < 0 ? "-Infinity" : "Infinity";
    return real_text(x);
  }
  void write_text(std::string_view text) {
    budget_.scan(text.size());
    append("\"");
    size_t plain = 0;  // where the run of characters that stand for themselves begins
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text, at);
      const bool is_plain =
          c >= 0x20 && c != '"' && c != '\\' && (!layout_.ensures_ascii || c < 0x7F);
      if (is_plain) continue;
      append(text.substr(plain, begin - plain));
      write_character(c);
      plain = at;
    }
    append(text.substr(plain));
    append("\"");
  }
  void write_character(char32_t c) {
    switch (c) {
      case '"':
        return append("\\\"");
      case '\\':
        return append("\\\\");
      case '\n':
        return append("\\n");
      case '\r':
        return append("\\r");
      case '\t':
        return append("\\t");
      case '\f':
        return append("\\f");
      case '\b':
        return append("\\b");
      default:
        break;
    }
    if (c < 0x10000) return append(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)));
    const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
    append(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF)));
  }
  void new_line() {
    if (!layout_.indent) return;
    append("\n");
    for (int i = 0; i < depth_; ++i) append(*layout_.indent);
  }
  void write_items(const std::vector<Value>& items) {
    if (items.empty()) return append("[]");
    append("[");
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) append(layout_.item_separator);
      new_line();
      write(items[i]);
    }
    --depth_;
    new_line();
    append("]");
  }
  std::string key_text(const Value& key) const {
    switch (key.kind()) {
      case Kind::text:
        return key.text();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.boolean_value() ? "true" : "false";
      case Kind::integer:
        return integer_text(key.whole());
      case Kind::real:
        return json_real(key.real_value());
      default:
        fail("TypeError",
             fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
  }
  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) return append("{}");
    auto entries = dict.entries;
    if (layout_.sorts_keys) {
      budget_.step(entries.size());
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        return is_less(budget_, a.first, b.first);
      });
    }
    append("{");
    ++depth_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) append(layout_.item_separator);
      new_line();
      write_text(key_text(entries[i].first));
      append(layout_.key_separator);
      write(entries[i].second);
    }
    --depth_;
    new_line();
    append("}");
  }

  Budget& budget_;
  const JsonLayout& layout_;
  int depth_ = 0;
  std::string out_;
};

}  // namespace

std::string text_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_in(c, CharacterClass::printable)) {
      out += text.substr(begin, at - begin);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  return out += quote;
}

std::string to_repr(Budget& budget, const Value& x) {
  ReprWriter writer(budget);
  writer.write(x);
  return writer.take();
}

std::string to_text(Budget& budget, const Value& x) {
  if (x.is(Kind::text)) return x.text();
  if (x.is(Kind::undefined)) return "";
  return to_repr(budget, x);
}

std::string to_json(Budget& budget, const Value& x, const JsonLayout& layout) {
  JsonWriter writer(budget, layout);
  writer.write(x);
  return writer.take();
}

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace cohort::text::jinja
