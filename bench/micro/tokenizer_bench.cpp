// Load, encode and decode of a tokenizer.json on one core; one JSON line.
//   tokenizer_bench [TOKENIZER.json [TEXT [REPEATS]]]
// Without a file: the byte-level tokenizer of tests/data/tokenizers, and this tree's documents and
// sources as text. Rates are medians over the repeats, in MB/s of UTF-8; `by_line` encodes each
// line alone. `copy_ratio` is encode's rate over that of one memcpy of the text. `unbroken_seconds`
// is for 1 MB of letters without a space.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/text/hf_tokenizer.hpp"

namespace {

using namespace cohort;
using text::Tokenizer;

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string default_text() {
  const std::filesystem::path root = COHORT_SOURCE_DIR;
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"docs", "runtime", "actors"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::string all;
  for (const auto& path : paths) all += read_file(path);
  return all;
}

/// Returns the median of the seconds that `body` takes.
template <class Body>
double median_seconds(int repeats, Body body) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const double begin = now_seconds();
    body();
    seconds.push_back(now_seconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

size_t encode_lines(const Tokenizer& tokenizer, std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    count += tokenizer.encode(text.substr(0, end)).value().ids.size();
    text.remove_prefix(end);
  }
  return count;
}

void run(const std::string& json, const std::string& text, int repeats) {
  const double load = median_seconds(3, [&] { (void)Tokenizer::from_json(json, "bench").value(); });
  const Tokenizer tokenizer = Tokenizer::from_json(json, "bench").value();
  text::Encoding encoding = tokenizer.encode(text).value();
  const auto rate = [&](double seconds) {
    return static_cast<double>(text.size()) / 1e6 / seconds;
  };
  const double encode =
      rate(median_seconds(repeats, [&] { encoding = tokenizer.encode(text).value(); }));
  const double lines = rate(median_seconds(repeats, [&] { (void)encode_lines(tokenizer, text); }));
  const double decode =
      rate(median_seconds(repeats, [&] { (void)tokenizer.decode(encoding.ids); }));
  std::string copy(text.size(), '\0');
  const double copied = rate(median_seconds(repeats, [&] {
    std::memcpy(copy.data(), text.data(), text.size());
    asm volatile("" : : "r"(copy.data()) : "memory");
  }));
  std::string unbroken(1'000'000, 'a');
  for (size_t i = 0; i < unbroken.size(); ++i)
    unbroken[i] = static_cast<char>('a' + (i * 2654435761U >> 11) % 26);
  const double alone = median_seconds(3, [&] { (void)tokenizer.encode(unbroken).value(); });
  fmt::print(
      "{{\"bench\": \"tokenizer\", \"json_bytes\": {}, \"text_bytes\": {}, \"ids\": {}, "
      "\"load_seconds\": {:.3f}, \"encode_mb_s\": {:.1f}, \"by_line_mb_s\": {:.1f}, "
      "\"decode_mb_s\": {:.1f}, \"copy_ratio\": {:.4f}, \"unbroken_seconds\": {:.3f}}}\n",
      json.size(), text.size(), encoding.ids.size(), load, encode, lines, decode, encode / copied,
      alone);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string json =
      argc > 1 ? read_file(argv[1])
               : nlohmann::json::parse(read_file(std::filesystem::path(COHORT_SOURCE_DIR) /
                                                 "tests/data/tokenizers/qwen2.json"))["tokenizer"]
                     .dump();
  const std::string text = argc > 2 ? read_file(argv[2]) : default_text();
  if (text.empty()) {
    fmt::print(stderr, "{}: no text\n", argc > 2 ? argv[2] : COHORT_SOURCE_DIR);
    return 1;
  }
  run(json, text, argc > 3 ? std::max(1, std::atoi(argv[3])) : 5);
  return 0;
}
