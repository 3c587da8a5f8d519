#pragma once
/// Numbers of a plan in words: bytes, seconds, shares, card ranges, bars. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/ids.hpp"

namespace cohort {

/// "1.38 GiB", "236 MiB", "0": three figures.
std::string bytes_text(uint64_t bytes);
/// "1.4 s", "35 ms", "2 min"; "" for 0.
std::string seconds_text(double seconds);
/// "0-3", "0-3, 8-11", "0, 2, 4"; long lists end in "… (64)".
std::string cards_text(const std::vector<CardId>& cards);
/// "card 3", "8 cards 0-7".
std::string counted_cards_text(const std::vector<CardId>& cards);
/// The text with its long lists of cards as runs: "[0, 1, 2, … 15]" becomes "[0-15]".
std::string with_short_lists(std::string_view text);
/// Whole percent of `part` in `whole`, "over" beyond 999; "-" without a whole.
std::string percent_text(uint64_t part, uint64_t whole);
/// A bar of `width` cells for `full` and behind it `light` in `whole`; what goes over is marked.
std::string bar_text(uint64_t full, uint64_t light, uint64_t whole, size_t width);

}  // namespace cohort
