// A tool in C++: writes a text in capital letters.
#include <cctype>
#include <cohort/options.hpp>
#include <cohort/tool.hpp>
#include <stdexcept>
#include <string>

struct Capitals {
  static constexpr const char* schema = R"({"type": "function", "function": {
      "name": "capitals", "description": "Writes a text in capital letters.",
      "parameters": {"type": "object", "properties": {"text": {"type": "string"}},
                     "required": ["text"]}}})";

  explicit Capitals(std::string_view config_json) {
    cohort::sdk::Options options(config_json);
    longest_ = options.number("longest", 1000);
    options.finish();
  }

  std::string call(std::string_view arguments_json) const {
    cohort::sdk::Options arguments(arguments_json);
    std::string text = arguments.text("text", "");
    arguments.finish();
    if (static_cast<double>(text.size()) > longest_) throw std::invalid_argument("a long text");
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
  }

  double longest_;
};
COHORT_TOOL(Capitals)
