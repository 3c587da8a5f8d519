// Any bytes as a tokenizer.json. One that is taken encodes a few texts and gets its ids back.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/text/hf_tokenizer.hpp"
#include "runtime/text/unicode.hpp"

namespace {

using namespace cohort;
using namespace cohort::text;

constexpr std::string_view k_texts[] = {"", "a", "Hello  world's 12345\r\n <s>x</s>",
                                        "e\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

void run_text(const Tokenizer& tokenizer, std::string_view text) {
  const auto encoding = tokenizer.encode(text, {.wants_offsets = true});
  if (!encoding) {
    COHORT_CHECK(!encoding.error().detail.empty(), "an error says something");
    return;
  }
  COHORT_CHECK(encoding->ids.size() == encoding->offsets.size(), "an offset for each id");
  for (const Span& span : encoding->offsets)
    COHORT_CHECK(span.begin <= span.end && span.end <= text.size(), "offsets lie in the text");
  const auto again = tokenizer.encode(text);
  COHORT_CHECK(again && again->ids == encoding->ids, "the cache changes nothing");
  const std::string decoded = tokenizer.decode(encoding->ids);
  COHORT_CHECK(is_valid_utf8(decoded), "decoded text is UTF-8");
  StreamDecoder stream(tokenizer);
  for (const TokenId id : encoding->ids) (void)stream.next(id);
  (void)stream.finish();
  const auto plain = tokenizer.encode(text, k_plain_text);
  for (const TokenId id : plain ? plain->ids : std::vector<TokenId>())
    COHORT_CHECK(id >= 0 && id < Vocabulary::k_id_end, "ids are in range");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::from_json(json, "fuzz");
  if (!tokenizer) {
    COHORT_CHECK(tokenizer.error().detail.starts_with("fuzz: "), "an error names the file");
    COHORT_CHECK(tokenizer.error().detail.size() < 2000, "errors are short");
    return 0;
  }
  for (const std::string_view text : k_texts) run_text(*tokenizer, text);
  return 0;
}
