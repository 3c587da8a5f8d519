#include "tools/actor-node/plan_page.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace cohort {
namespace {

constexpr size_t k_width_min = 60, k_width_max = 200;
constexpr size_t k_room_min = 12;  // of a last column; a page too narrow for it overflows
constexpr std::string_view k_tie = "\u00A0";

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// The first of the locale's variables that is set decides, as POSIX orders them.
bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string_view value = environment(name);
    if (value.empty()) continue;
    std::string upper;
    for (char c : value) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return upper.find("UTF-8") != std::string::npos || upper.find("UTF8") != std::string::npos;
  }
  return false;
}

size_t number_of(std::string_view text) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string_view escape_of(Tone tone) {
  switch (tone) {
    case Tone::heading:
      return "\x1b[1m";
    case Tone::good:
      return "\x1b[32m";
    case Tone::bad:
      return "\x1b[31m";
    case Tone::careful:
      return "\x1b[33m";
    case Tone::faint:
      return "\x1b[2m";
    case Tone::plain:
      break;
  }
  return "";
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Bytes of the first `columns` characters.
size_t bytes_of(std::string_view text, size_t columns) {
  size_t at = 0;
  for (; at < text.size() && columns > 0; --columns) do
      ++at;
    while (at < text.size() && is_continuation(text[at]));
  return at;
}

/// Lines of at most `width` columns, broken at spaces; a longer word is cut.
std::vector<std::string> wrap(std::string_view text, size_t width) {
  width = std::max<size_t>(width, 8);
  std::vector<std::string> lines(1);
  auto fits = [&](std::string_view word) {
    size_t used = text_width(lines.back());
    return used + (used > 0 ? 1 : 0) + text_width(word) <= width;
  };
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!fits(word) && !lines.back().empty()) lines.emplace_back();
    for (; text_width(word) > width; word.remove_prefix(bytes_of(word, width))) {
      lines.back() = word.substr(0, bytes_of(word, width));
      lines.emplace_back();
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

void trim_end(std::string& text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
}

void pad(std::string& text, size_t columns, bool is_right) {
  size_t width = text_width(text);
  if (width >= columns) return;
  text.insert(is_right ? 0 : text.size(), columns - width, ' ');
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 22> k_ascii = {
    {{"█", "#"},  {"▒", "+"},  {"░", "."},  {"»", ">"}, {"─", "-"}, {"│", "|"},
     {"┌", "+"},  {"┐", "+"},  {"└", "+"},  {"┘", "+"}, {"┬", "+"}, {"┴", "+"},
     {"├", "+"},  {"┤", "+"},  {"┼", "+"},  {"·", "-"}, {"×", "x"}, {"…", "..."},
     {"→", "->"}, {"≤", "<="}, {"≥", ">="}, {"–", "-"}}};

std::string to_ascii(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      out += text[at++];
      continue;
    }
    size_t size = bytes_of(text.substr(at), 1);
    auto known = std::ranges::find(k_ascii, text.substr(at, size),
                                   &std::pair<std::string_view, std::string_view>::first);
    out += known == k_ascii.end() ? "?" : known->second;
    at += size;
  }
  return out;
}

}  // namespace

PageStyle terminal_style() {
  PageStyle style;
  bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  winsize size{};
  size_t columns = number_of(environment("COLUMNS"));
  if (is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    columns = size.ws_col;
  if (columns > 0) style.width = std::clamp(columns, k_width_min, k_width_max);
  style.is_utf8 = is_utf8_locale();
  style.has_colour =
      is_terminal && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  return style;
}

size_t text_width(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

void Page::put(std::string_view text, Tone tone) {
  std::string whole(text);
  for (size_t at = 0; (at = whole.find(k_tie, at)) != std::string::npos;)
    whole.replace(at, k_tie.size(), " ");
  trim_end(whole);
  if (!style_.is_utf8) whole = to_ascii(whole);
  std::string_view escape = style_.has_colour && !whole.empty() ? escape_of(tone) : "";
  out_ += escape;
  out_ += whole;
  if (!escape.empty()) out_ += "\x1b[0m";
  out_ += '\n';
}

void Page::heading(std::string_view title, std::string_view aside) {
  if (!out_.empty()) blank();
  bool fits = text_width(title) + 2 + text_width(aside) <= style_.width;
  std::string text(title);
  if (!aside.empty() && fits) text += "  " + std::string(aside);
  put(text, Tone::heading);
  if (!fits) wrapped("  ", aside, Tone::faint);
}

void Page::line(std::string_view text, Tone tone) { put(text, tone); }

void Page::blank() { out_ += '\n'; }

void Page::wrapped(std::string_view first, std::string_view text, Tone tone) {
  size_t indent = text_width(first);
  std::string lead(first);
  for (const std::string& piece : wrap(text, style_.width - std::min(indent, style_.width - 8))) {
    put(lead + piece, tone);
    lead.assign(indent, ' ');
  }
}

void Page::table(size_t indent, const std::vector<Column>& columns, const std::vector<Row>& rows) {
  std::vector<size_t> widths(columns.size());
  for (const Row& row : rows)
    for (size_t i = 0; i < row.cells.size(); ++i)
      widths[i] = std::max(widths[i], text_width(row.cells[i]));
  size_t last = columns.size() - 1, used = indent;
  for (size_t i = 0; i < last; ++i) {
    if (columns[i].width_max > 0) widths[i] = std::min(widths[i], columns[i].width_max);
    used += widths[i] + 2;
  }
  size_t room = style_.width > used + k_room_min ? style_.width - used : k_room_min;
  for (const Row& row : rows) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (size_t i = 0; i < columns.size(); ++i) {
      std::string cell = i < row.cells.size() ? row.cells[i] : std::string();
      bool fits = text_width(cell) <= (i == last ? room : widths[i]);
      cells.push_back(fits ? std::vector{cell} : wrap(cell, i == last ? room : widths[i]));
      height = std::max(height, cells.back().size());
    }
    for (size_t k = 0; k < height; ++k) {
      std::string text(indent, ' ');
      for (size_t i = 0; i < columns.size(); ++i) {
        std::string cell = k < cells[i].size() ? cells[i][k] : std::string();
        pad(cell, i == last && !columns[i].is_right ? 0 : widths[i], columns[i].is_right);
        text += cell + (i == last ? "" : "  ");
      }
      put(text, row.tone);
    }
  }
}

std::string tied(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c == ' ')
      out += k_tie;
    else
      out += c;
  return out;
}

std::string Page::text() const { return out_; }

}  // namespace cohort
