/// Python's two kinds of format strings, and strftime.
#include <fmt/format.h>

#include <array>
#include <ctime>

#include "runtime/text/template/format_spec.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/runtime.hpp"

namespace cohort::text::jinja {
namespace {

std::string to_ascii_repr(Runtime& run, const Value& x) {
  const std::string repr = to_repr(run.budget, x);
  std::string out;
  for (const char c : repr)
    if (static_cast<unsigned char>(c) >= 0x80)
      fail("ValueError", "!a and %a of text beyond ASCII are not supported");
    else
      out += c;
  return out;
}

std::string cut(std::string text, const FormatSpec& spec, Runtime& run) {
  if (!spec.precision) return text;
  const Value all = make_text(run.budget, std::move(text));
  return slice_of(run, all, Value::none(), Value::integer(static_cast<Integer>(*spec.precision)),
                  Value::none())
      .text();
}

/// "…%(name)-5.2f…" % arguments.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& run, std::string_view format, const Value& arguments)
      : run_(run), format_(format), arguments_(arguments) {}

  std::string write() {
    while (at_ < format_.size()) {
      if (format_[at_] != '%') {
        out_ += format_[at_++];
        continue;
      }
      ++at_;
      write_field();
      run_.budget.step(1 + out_.size() / 1024);
      run_.budget.check_text(out_.size());
    }
    // Python lets arguments that have items go unused.
    const bool takes_all = arguments_.is(Kind::dict) || arguments_.is(Kind::list) ||
                           arguments_.is(Kind::range) || arguments_.is(Kind::undefined);
    const size_t given = arguments_.is(Kind::tuple) ? arguments_.items().size() : 1;
    if (!takes_all && used_ < given)
      fail("TypeError", "not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) fail("ValueError", "incomplete format");
    return format_[at_];
  }
  Value next_argument() {
    if (arguments_.is(Kind::tuple)) {
      if (used_ < arguments_.items().size()) return arguments_.items()[used_++];
    } else if (used_ == 0) {
      ++used_;
      return arguments_;
    }
    fail("TypeError", "not enough arguments for format string");
  }
  size_t read_count() {
    if (peek() == '*') {
      ++at_;
      const Integer count = index_value(next_argument());
      if (count < 0 || count > static_cast<Integer>(k_max_format_width))
        fail("ValueError", "a width that is too large");
      return static_cast<size_t>(count);
    }
    size_t count = 0;
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9') {
      count = count * 10 + static_cast<size_t>(format_[at_++] - '0');
      if (count > k_max_format_width) fail("ValueError", "a width that is too large");
    }
    return count;
  }
  void write_field() {
    FormatSpec spec;
    Value named;
    if (peek() == '(') named = read_name();
    bool is_left = false, has_zeros = false;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      const char flag = format_[at_];
      if (flag == '-') is_left = true;
      if (flag == '+') spec.sign = '+';
      if (flag == ' ' && spec.sign != '+') spec.sign = ' ';
      if (flag == '#') spec.is_alternate = true;
      if (flag == '0') has_zeros = true;
    }
    spec.width = read_count();
    if (peek() == '.') {
      ++at_;
      spec.precision = read_count();
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    const char type = peek();
    ++at_;
    if (type == '%') {
      out_ += '%';
      return;
    }
    const Value x = named.is(Kind::missing) ? next_argument() : named;
    run_.budget.scan(spec.width + spec.precision.value_or(0));
    spec.align = is_left ? '<' : '>';
    if (has_zeros && !is_left && std::string_view("srac").find(type) == std::string_view::npos) {
      spec.align = '=';
      spec.fill = "0";
    }
    write_value(x, type, spec);
  }
  Value read_name() {
    const size_t begin = ++at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (peek() == '(') ++depth;
      if (peek() == ')') --depth;
    }
    if (!arguments_.is(Kind::dict)) fail("TypeError", "format requires a mapping");
    const auto name = format_.substr(begin, at_ - begin - 1);
    const Value* found = arguments_.dict().find(name);
    if (found == nullptr) fail("KeyError", text_repr(name));
    return *found;
  }
  void write_value(const Value& x, char type, FormatSpec spec) {
    switch (type) {
      case 's':
        out_ += padded(cut(to_text(run_.budget, x), spec, run_), spec, '>');
        return;
      case 'r':
        out_ += padded(cut(to_repr(run_.budget, x), spec, run_), spec, '>');
        return;
      case 'a':
        out_ += padded(cut(to_ascii_repr(run_, x), spec, run_), spec, '>');
        return;
      case 'c':
        if (x.is(Kind::text)) {
          if (x.text_object().length != 1) fail("TypeError", "%c requires int or char");
          out_ += padded(x.text(), spec, '>');
          return;
        }
        spec.type = 'c';
        out_ += format_number(Value::integer(index_value(x)), spec);
        return;
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return write_whole(x, type, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        check_defined(x);
        if (!x.is_number())
          fail("TypeError", fmt::format("must be real number, not {}", type_name(x)));
        spec.type = type;
        out_ += format_number(x, spec);
        return;
      default:
        fail("ValueError", fmt::format("unsupported format character '{}'", type));
    }
  }
  void write_whole(const Value& x, char type, FormatSpec spec) {
    check_defined(x);
    const bool is_decimal = type == 'd' || type == 'i' || type == 'u';
    if (!x.is_number() || (!is_decimal && !x.is_whole()))
      fail("TypeError",
           fmt::format("%{} format: a number is required, not {}", type, type_name(x)));
    const Integer whole = x.is(Kind::real) ? to_integer(x.real_value()) : x.whole();
    spec.type = is_decimal ? 'd' : type;
    if (spec.precision) {  // the least number of digits
      FormatSpec digits;
      digits.type = spec.type;
      digits.sign = spec.sign;
      digits.fill = "0";
      digits.align = '=';
      digits.width = *spec.precision + (whole < 0 || spec.sign != '-' ? 1 : 0);
      out_ += padded(format_number(Value::integer(whole), digits), spec, '>');
      return;
    }
    out_ += format_number(Value::integer(whole), spec);
  }

  Runtime& run_;
  std::string_view format_;
  const Value& arguments_;
  size_t at_ = 0, used_ = 0;
  std::string out_;
};

/// "…{0.name[key]!r:>5}…".format(…).
class BraceFormatter {
 public:
  BraceFormatter(Runtime& run, const Arguments& arguments, bool is_markup)
      : run_(run), arguments_(arguments), is_markup_(is_markup) {}

  std::string write(std::string_view format, int depth) {
    if (depth > 2) fail("ValueError", "Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        fail("ValueError", "Single '}' encountered in format string");
      } else if (c == '{') {
        const size_t end = field_end(format, at);
        out += field(format.substr(at + 1, end - at - 1), depth);
        at = end + 1;
      } else {
        out += c;
        ++at;
      }
      run_.budget.step();
      run_.budget.check_text(out.size());
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view format, size_t begin) {
    int depth = 0;
    for (size_t at = begin; at < format.size(); ++at) {
      if (format[at] == '{') ++depth;
      if (format[at] == '}' && --depth == 0) return at;
    }
    fail("ValueError", "expected '}' before end of string");
  }
  std::string field(std::string_view text, int depth) {
    const size_t name_end = std::min(text.find_first_of("!:"), text.size());
    std::string_view rest = text.substr(name_end);
    const Value x = lookup(text.substr(0, name_end));
    char conversion = '\0';
    if (rest.starts_with('!')) {
      if (rest.size() < 2)
        fail("ValueError", "end of string while looking for conversion specifier");
      conversion = rest[1];
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':')
        fail("ValueError", "expected ':' after conversion specifier");
    }
    const std::string spec = rest.empty() ? "" : write(rest.substr(1), depth + 1);
    std::string out = converted(x, conversion, spec);
    const bool is_escaped = x.is(Kind::text) && x.text_object().is_markup && conversion == '\0';
    return is_markup_ && !is_escaped ? escape_markup(out) : out;
  }
  std::string converted(const Value& x, char conversion, const std::string& spec_text) {
    const bool is_number = conversion == '\0' && x.is_number();
    const FormatSpec spec = parse_format_spec(spec_text, is_number);
    run_.budget.scan(spec.width + spec.precision.value_or(0));
    if (conversion == 'r') return formatted_text(to_repr(run_.budget, x), spec);
    if (conversion == 'a') return formatted_text(to_ascii_repr(run_, x), spec);
    if (conversion != 's' && conversion != '\0')
      fail("ValueError", fmt::format("Unknown conversion specifier '{}'", conversion));
    if (is_number && !(x.is(Kind::boolean) && spec_text.empty())) {
      if (x.is_whole() && !is_real_type(spec.type)) check_whole_spec(spec);
      return format_number(x, spec);
    }
    const bool is_plain = x.is(Kind::text) || conversion == 's' || spec_text.empty();
    if (!is_plain)
      fail("TypeError",
           fmt::format("unsupported format string passed to {}.__format__", type_name(x)));
    return formatted_text(to_text(run_.budget, x), spec);
  }
  std::string formatted_text(std::string text, const FormatSpec& spec) {
    check_text_spec(spec);
    return padded(cut(std::move(text), spec, run_), spec, '<');
  }
  Value lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value x = argument(name.substr(0, end));
    for (size_t at = end; at < name.size();) {
      if (name[at] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", at + 1), name.size());
        x = attribute_of(run_, x, name.substr(at + 1, stop - at - 1));
        at = stop;
      } else {
        const size_t stop = name.find(']', at);
        if (name[at] != '[' || stop == std::string_view::npos)
          fail("ValueError", "Missing ']' in format string");
        const auto key = name.substr(at + 1, stop - at - 1);
        const bool is_number = key.find_first_not_of("0123456789") == std::string_view::npos;
        x = item_of(run_, x,
                    is_number && !key.empty() ? Value::integer(parse_integer(key, 10).value_or(0))
                                              : make_text(run_.budget, std::string(key)));
        at = stop + 1;
      }
    }
    return x;
  }
  Value argument(std::string_view name) {
    const bool is_number = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) {
      const Fields fields = name.empty() ? Fields::counted : Fields::numbered;
      if (fields_ != Fields::unknown && fields_ != fields)
        fail("ValueError", "cannot switch between numbered fields and automatic numbering");
      fields_ = fields;
      const Integer index =
          name.empty() ? static_cast<Integer>(next_++) : parse_integer(name, 10).value_or(0);
      if (index >= static_cast<Integer>(arguments_.positional.size()))
        fail("IndexError",
             fmt::format("Replacement index {} out of range for positional args tuple",
                         integer_text(index)));
      return arguments_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : arguments_.named)
      if (key == name) return value;
    fail("KeyError", text_repr(name));
  }

  Runtime& run_;
  const Arguments& arguments_;
  bool is_markup_;  // what is put in is escaped
  enum class Fields : uint8_t { unknown, counted, numbered };
  Fields fields_ = Fields::unknown;
  size_t next_ = 0;
};

}  // namespace

std::string percent_format(Runtime& run, std::string_view format, const Value& arguments) {
  return PercentFormatter(run, format, arguments).write();
}
std::string brace_format(Runtime& run, const Value& format, const Arguments& arguments) {
  return BraceFormatter(run, arguments, format.text_object().is_markup).write(format.text(), 0);
}

std::string format_time(Runtime& run, const std::string& format) {
  if (!run.now) fail("TemplateError", "strftime_now: this rendering was given no time");
  if (format.size() > 4096) fail("ValueError", "strftime_now: a format of more than 4096 bytes");
  if (format.empty()) return {};
  std::string microseconds;  // Python's %f, which C does not have; the time has whole seconds
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      microseconds += format[i];
      continue;
    }
    const char c = format[++i];
    if (c == 'f')
      microseconds += "000000";
    else if (c != 'z' && c != 'Z')  // a time without a zone
      microseconds += {'%', c};
  }
  std::vector<char> buffer(microseconds.size() * 64 + 256);
  const size_t size = std::strftime(buffer.data(), buffer.size(), microseconds.c_str(), &*run.now);
  return std::string(buffer.data(), size);
}

}  // namespace cohort::text::jinja
