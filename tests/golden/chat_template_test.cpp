// Templates with the features of the families, and one feature each, against what jinja2 made of
// them (tools/golden/make_template_vectors.py).
#include "runtime/text/template/chat_template.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/support/source_path.hpp"

namespace cohort::text {
namespace {

using VectorJson = nlohmann::ordered_json;

VectorJson template_vectors() {
  std::ifstream file(test::source_path("tests/data/chat/templates.json"));
  EXPECT_TRUE(file.good());
  return VectorJson::parse(file);
}

std::string family(const std::string& name) {
  std::ifstream file(test::source_path("tests/data/chat/families/" + name));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The time that the script tells: Saturday, 7 March 2026, 9:05:03.
std::tm vector_time() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mon = 2;
  time.tm_mday = 7;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 3;
  time.tm_wday = 6;
  time.tm_yday = 65;
  return time;
}

void expect_vector(const std::string& source, const VectorJson& context, const VectorJson& vector) {
  SCOPED_TRACE(source.substr(0, 200) + "\n" + context.dump().substr(0, 400));
  ChatInput input;
  input.kwargs = context;
  input.local_time = vector_time();
  const auto compiled = ChatTemplate::compile(source);
  const auto chat = compiled ? compiled->render(input) : Expected<RenderedChat>(compiled.error());
  if (vector.contains("error")) {
    EXPECT_FALSE(chat) << chat->text << "\nexpected " << vector["error"];
    return;
  }
  ASSERT_TRUE(chat) << chat.error().to_string();
  EXPECT_EQ(chat->text, vector["expected"].get<std::string>());
  std::vector<ByteRange> ranges;
  if (vector.contains("generation"))
    for (const auto& range : vector["generation"]) ranges.push_back({range[0], range[1]});
  EXPECT_EQ(character_ranges(chat->text, chat->generated), ranges);
}

TEST(ChatTemplateVectors, DialoguesInTheFamiliesWays) {
  const VectorJson vectors = template_vectors();
  ASSERT_GT(vectors["dialogues"].size(), 100U);
  for (const auto& vector : vectors["dialogues"])
    expect_vector(family(vector["template"]), vector["context"], vector);
}

TEST(ChatTemplateVectors, OneFeatureEach) {
  const VectorJson vectors = template_vectors();
  ASSERT_GT(vectors["snippets"].size(), 80U);
  for (const auto& vector : vectors["snippets"])
    expect_vector(vector["template"], vectors["context"], vector);
}

}  // namespace
}  // namespace cohort::text
