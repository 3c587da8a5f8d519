#pragma once
/// Plain text for a terminal: headings, wrapped paragraphs, tables whose last column wraps. Written
/// in UTF-8 and turned into ASCII at the end where the terminal needs it. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

struct PageStyle {
  size_t width = 100;  // columns, 60 … 200
  bool is_utf8 = true;
  bool has_colour = false;
};

/// Returns the style of the standard output: a terminal's own width and colours, else
/// $COLUMNS or 100 and none; UTF-8 as the locale's variables say.
PageStyle terminal_style();

enum class Tone : uint8_t { plain, heading, good, bad, careful, faint };

/// Columns that the text takes on a terminal, UTF-8 counted as characters.
size_t text_width(std::string_view text);

/// The text with spaces at which no line is broken.
std::string tied(std::string_view text);

struct Column {
  bool is_right = false;
  size_t width_max = 0;  // 0: as wide as the widest cell
};

struct Row {
  std::vector<std::string> cells;
  Tone tone = Tone::plain;
};

class Page {
 public:
  explicit Page(PageStyle style) : style_(style) {}
  size_t width() const { return style_.width; }

  void heading(std::string_view title, std::string_view aside = "");
  void line(std::string_view text, Tone tone = Tone::plain);
  void blank();
  /// Words of `text` behind `first`, wrapped; following lines are indented as wide as `first`.
  void wrapped(std::string_view first, std::string_view text, Tone tone = Tone::plain);
  /// Rows under each other, `indent` columns from the left; the last column wraps.
  void table(size_t indent, const std::vector<Column>& columns, const std::vector<Row>& rows);

  /// The whole page, in the style's character set.
  std::string text() const;

 private:
  void put(std::string_view text, Tone tone);
  PageStyle style_;
  std::string out_;
};

}  // namespace cohort
