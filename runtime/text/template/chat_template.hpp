#pragma once
/// Chat templates of Hugging Face models: Jinja, as transformers sets it up
/// (docs/chat_templates.md). A template is untrusted: it sees its variables and nothing else, and
/// one that is endless or huge ends with an error. Pure: time is an argument. Thread-safe: a
/// compiled template is immutable.
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::text {

/// What one rendering may cost.
struct TemplateLimits {
  int64_t steps = 10'000'000;              // of evaluation; copies count by their size
  size_t live_bytes = size_t{256} << 20;   // of all values at a time
  size_t output_bytes = size_t{64} << 20;  // of a text
};

/// The variables of one dialogue.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;      // null: none
  nlohmann::ordered_json documents;  // null: none
  /// More variables, e.g. enable_thinking, date_string. An object, or null.
  nlohmann::ordered_json kwargs;
  std::map<std::string, std::string> special_tokens;  // bos_token, eos_token, …
  bool adds_generation_prompt = false;
  /// The last message is open: the text ends with its content. Not with adds_generation_prompt.
  bool continues_final_message = false;
  /// What strftime_now tells; without it, a template that asks for the time fails.
  std::optional<std::tm> local_time;
};

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct RenderedChat {
  std::string text;
  std::vector<ByteRange> generated;  // what {% generation %} blocks printed, in order
};

class ChatTemplate {
 public:
  /// Reads a template. Returns Errc::invalid_argument with the line and what is wrong.
  static Expected<ChatTemplate> compile(std::string_view source);

  /// Returns the text of a dialogue. Errc::invalid_argument: the template raised or a value does
  /// not fit, with its line; Errc::capacity: it takes more than the limits.
  Expected<RenderedChat> render(const ChatInput& input, const TemplateLimits& limits = {}) const;
  /// Returns the text of a template with these variables only (an object).
  Expected<RenderedChat> render(const nlohmann::ordered_json& variables,
                                const TemplateLimits& limits = {}) const;

  struct Compiled;

 private:
  explicit ChatTemplate(std::shared_ptr<const Compiled> compiled);
  std::shared_ptr<const Compiled> compiled_;
};

/// Returns the messages with each tool call's arguments that are a text of JSON read into an
/// object: clients of the OpenAI interface send text, and a template would quote it again.
/// Errc::invalid_argument: arguments that are text but no JSON, with the message's number.
Expected<nlohmann::ordered_json> with_parsed_arguments(nlohmann::ordered_json messages);

/// Returns for each token whether the assistant said it: for each range, all tokens from the one
/// that holds its first byte to the one that holds its last. offsets: the bytes of each token,
/// ascending; an empty one belongs to no byte.
std::vector<bool> token_mask(std::span<const ByteRange> offsets, std::span<const ByteRange> ranges);

/// Byte ranges as ranges of characters.
std::vector<ByteRange> character_ranges(std::string_view text, std::span<const ByteRange> ranges);

}  // namespace cohort::text
