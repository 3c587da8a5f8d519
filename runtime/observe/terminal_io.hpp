#pragma once
/// What a program that draws asks of a terminal and tells it. Internal to runtime/observe and the
/// commands that draw.
#include <cstddef>
#include <string_view>

namespace cohort::observe {

struct TerminalSize {
  size_t columns = 80;
  size_t rows = 24;
  bool operator==(const TerminalSize&) const = default;
};

/// Returns the size of the terminal `fd`; 80 x 24 if it is none or does not say.
TerminalSize terminal_size(int fd);
/// Writes all of `text`; a terminal that is gone is nobody's error.
void write_text(int fd, std::string_view text);

}  // namespace cohort::observe
