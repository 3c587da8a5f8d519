// Any bytes as a text, through a byte-level and a byte-fallback tokenizer and through the scanners.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/text/hf_tokenizer.hpp"
#include "runtime/text/regex.hpp"
#include "runtime/text/scanners.hpp"
#include "runtime/text/unicode.hpp"

namespace {

using namespace cohort;
using namespace cohort::text;
using FuzzJson = nlohmann::json;

FuzzJson added(int first_id) {
  return {
      {{"id", first_id}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}},
      {{"id", first_id + 1}, {"content", "<tool>"}, {"special", false}, {"normalized", true}},
      {{"id", first_id + 2}, {"content", "word"}, {"single_word", true}, {"normalized", false}}};
}

/// Qwen 2's pipeline over bytes alone, and a few merges.
Tokenizer byte_level() {
  FuzzJson vocab = FuzzJson::object();
  int next = 0;
  char32_t mapped = 0x100;
  for (char32_t c = 0; c < 256; ++c) {
    const bool is_itself = (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174;
    vocab[to_utf8(is_itself ? c : mapped++)] = next++;
  }
  for (const char* token : {"aa", "aaaa", "th", "the", "\xC4\xA0t"}) vocab[token] = next++;
  const std::string regex(known_patterns()[0].regex);
  const FuzzJson json = {
      {"added_tokens", added(next)},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", {"t h", "th e", "a a", "aa aa", "\xC4\xA0 t"}}}}};
  return Tokenizer::from_json(json.dump(), "byte level").value();
}

/// Llama 2's pipeline.
Tokenizer byte_fallback() {
  FuzzJson vocab = {{"<unk>", 0},
                    {"\xE2\x96\x81", 1},
                    {"a", 2},
                    {"aa", 3},
                    {"\xE2\x96\x81"
                     "a",
                     4}};
  constexpr std::string_view k_digits = "0123456789ABCDEF";
  for (int i = 0; i < 256; ++i)
    vocab[std::string("<0x") + k_digits[static_cast<size_t>(i / 16)] +
          k_digits[static_cast<size_t>(i % 16)] + ">"] = 5 + i;
  const FuzzJson space = {{"String", " "}}, mark = {{"String", "\xE2\x96\x81"}};
  const FuzzJson json = {
      {"added_tokens", added(300)},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "\xE2\x96\x81"}},
          {{"type", "Replace"}, {"pattern", space}, {"content", "\xE2\x96\x81"}}}}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", mark}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", {"a a", "\xE2\x96\x81 a"}},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true}}}};
  return Tokenizer::from_json(json.dump(), "byte fallback").value();
}

void run_tokenizer(const Tokenizer& tokenizer, std::string_view text, bool gives_text_back) {
  const std::string valid = to_valid_utf8(text);
  const Encoding encoding = tokenizer.encode(text, {.wants_offsets = true}).value();
  COHORT_CHECK(tokenizer.encode(text).value().ids == encoding.ids, "the cache changes nothing");
  COHORT_CHECK(encoding.ids.size() == encoding.offsets.size(), "an offset for each id");
  for (const Span& span : encoding.offsets)
    COHORT_CHECK(span.begin <= span.end && span.end <= valid.size(), "offsets lie in the text");
  const std::string decoded = tokenizer.decode(encoding.ids);
  if (gives_text_back)
    COHORT_CHECK(to_nfc(decoded, nullptr) == to_nfc(valid, nullptr), "the text comes back");
  StreamDecoder stream(tokenizer);
  std::string joined;
  for (const TokenId id : encoding.ids) joined += stream.next(id);
  COHORT_CHECK(joined + stream.finish() == decoded, "a stream gives the same text");
  const Encoding plain = tokenizer.encode(text, k_plain_text).value();
  for (const TokenId id : plain.ids)
    COHORT_CHECK(!tokenizer.is_special(id), "plain text makes no special id");
}

void run_scanners(const std::string& text) {
  static const std::vector<Regex> regexes = [] {
    std::vector<Regex> all;
    for (const KnownPattern& known : known_patterns())
      all.push_back(Regex::compile(known.regex).value());
    return all;
  }();
  for (size_t i = 0; i < regexes.size(); ++i) {
    StepBudget budget{1'000'000};
    Span match, expected;
    for (size_t from = 0; from <= text.size(); from = match.end) {
      const Regex::Result result = regexes[i].find(text, from, expected, budget);
      if (result == Regex::Result::out_of_steps) break;
      const bool is_found = known_patterns()[i].scanner(text, from, match);
      COHORT_CHECK(is_found == (result == Regex::Result::found), "scanner and matcher find alike");
      if (!is_found) break;
      COHORT_CHECK(match == expected, "scanner and matcher find the same");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer bytes = byte_level();
  static const Tokenizer fallback = byte_fallback();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  run_tokenizer(bytes, text, true);
  run_tokenizer(fallback, text, false);
  run_scanners(to_valid_utf8(text));
  return 0;
}
