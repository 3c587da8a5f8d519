// On random Unicode text: each scanner finds what the matcher finds for its pattern; NFC is its own
// fixed point; a byte-level tokenizer gives its text back, whole and in a stream.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/text/hf_tokenizer.hpp"
#include "runtime/text/regex.hpp"
#include "runtime/text/scanners.hpp"
#include "tests/support/source_path.hpp"

namespace cohort::text {
namespace {

uint64_t text_seed() {
  const char* text = std::getenv("COHORT_SEED");
  const uint64_t seed = text == nullptr ? 20261122 : std::strtoull(text, nullptr, 10);
  std::printf("COHORT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

/// Characters that patterns tell apart, in runs, and any others.
std::string random_text(Rng& rng, size_t runs) {
  constexpr std::u32string_view k_kinds[] = {U"abcXYZ",
                                             U"stdmlrve'ſ",
                                             U"0123",
                                             U"  ",
                                             U"\t\n\r\u00a0\u2003\u0085",
                                             U".,-/\\_(){}$+^`|~=",
                                             U"\u0301\u0323\u093c\u20dd",
                                             U"ǅǈªʰº",
                                             U"你好一龥ぁゟァヿ々",
                                             U"½Ⅷ٣①",
                                             U"\u200b\ufeff\u00ad\0\x7f"};
  std::string text;
  for (size_t i = rng.below(runs + 1); i > 0; --i) {
    const std::u32string_view kind = k_kinds[rng.below(std::size(k_kinds))];
    const bool is_any = rng.below(8) == 0;
    for (uint64_t k = rng.below(4); k < 4; ++k) {
      char32_t c = kind[rng.below(kind.size())];
      if (is_any) c = static_cast<char32_t>(rng.below(rng.below(2) == 0 ? 0x3100 : 0x110000));
      if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
    }
  }
  return text;
}

TEST(TextProperty, EachScannerFindsWhatTheMatcherFinds) {
  Rng rng(text_seed());
  for (const KnownPattern& known : known_patterns()) {
    const auto regex = Regex::compile(known.regex);
    ASSERT_TRUE(regex) << known.name << ": " << regex.error().to_string();
    for (int i = 0; i < 3000; ++i) {
      const std::string text = random_text(rng, 12);
      for (size_t from = 0; from <= text.size();) {
        StepBudget budget{10'000'000};
        Span expected, match;
        const Regex::Result result = regex->find(text, from, expected, budget);
        ASSERT_NE(result, Regex::Result::out_of_steps) << known.name;
        const bool is_found = known.scanner(text, from, match);
        ASSERT_EQ(is_found, result == Regex::Result::found) << known.name << " \"" << text << "\"";
        if (!is_found) break;
        ASSERT_EQ(match, expected) << known.name << " from " << from << " of \"" << text << "\"";
        ASSERT_GT(match.end, from);
        from = match.end;
      }
    }
  }
}

TEST(TextProperty, NfcIsAFixedPointAndKnowsWhereItCameFrom) {
  Rng rng(text_seed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(rng, 8);
    std::vector<Span> origins;
    const std::string once = to_nfc(text, &origins);
    ASSERT_TRUE(is_valid_utf8(once));
    ASSERT_EQ(to_nfc(once, nullptr), once) << text;
    ASSERT_TRUE(!is_surely_nfc(text) || once == text) << text;
    ASSERT_EQ(origins.size(), once.size());
    size_t reached = 0;
    for (const Span& span : origins) {
      ASSERT_LT(span.begin, span.end);
      ASSERT_LE(span.begin, reached) << "nothing of the text is left out";
      reached = std::max(reached, span.end);
    }
    ASSERT_EQ(reached, text.size());
  }
}

TEST(TextProperty, AByteLevelTokenizerGivesItsTextBack) {
  Rng rng(text_seed());
  for (const char* name : {"deepseek", "smollm2", "tekken"}) {
    std::ifstream file(test::source_path("tests/data/tokenizers/") + name + ".json");
    const auto json = nlohmann::json::parse(file)["tokenizer"].dump();
    const Tokenizer tokenizer = Tokenizer::from_json(json, name).value();
    for (int i = 0; i < 3000; ++i) {
      const std::string text = random_text(rng, 20);
      const Encoding encoding = tokenizer.encode(text, {.wants_offsets = true}).value();
      ASSERT_EQ(encoding.ids, tokenizer.encode(text).value().ids);
      ASSERT_EQ(tokenizer.decode(encoding.ids), text);
      size_t reached = 0;
      for (const Span& span : encoding.offsets) {
        ASSERT_LE(span.begin, reached);
        reached = span.end;
      }
      ASSERT_EQ(reached, text.size());
    }
  }
}

TEST(TextProperty, AStreamGivesTheWholeTextWhateverTheIds) {
  Rng rng(text_seed());
  // Random ids are no characters often; a run of byte tokens that is none may differ at its end
  // (Decoder::next), so that the byte-fallback pipelines are not here.
  for (const char* name : {"qwen2", "gpt2", "metaspace_split", "unknown_fused"}) {
    std::ifstream file(test::source_path("tests/data/tokenizers/") + name + ".json");
    const auto json = nlohmann::json::parse(file)["tokenizer"].dump();
    const Tokenizer tokenizer = Tokenizer::from_json(json, name).value();
    for (int i = 0; i < 2000; ++i) {
      std::vector<TokenId> ids;
      for (uint64_t k = rng.below(30); k > 0; --k)
        ids.push_back(
            static_cast<TokenId>(rng.below(static_cast<uint64_t>(tokenizer.id_end()) + 5)));
      const DecodeOptions options{.skips_special_tokens = rng.below(2) == 0};
      StreamDecoder stream(tokenizer, options);
      std::string joined;
      for (const TokenId id : ids) {
        joined += stream.next(id);
        ASSERT_TRUE(is_valid_utf8(joined));
      }
      ASSERT_EQ(joined + stream.finish(), tokenizer.decode(ids, options)) << name;
    }
  }
}

}  // namespace
}  // namespace cohort::text
