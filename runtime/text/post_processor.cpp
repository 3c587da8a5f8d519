#include "runtime/text/post_processor.hpp"

#include "runtime/text/json_fields.hpp"

namespace cohort::text {
namespace {

constexpr int k_post_processor_depth_max = 8;

/// Returns the ids of special_tokens[name].
Expected<std::vector<TokenId>> template_ids(const nlohmann::json& json, const std::string& name,
                                            const std::string& where) {
  const auto tokens = json.find("special_tokens");
  const bool is_known = tokens != json.end() && tokens->is_object() && tokens->contains(name);
  const std::string path = where + ".special_tokens[\"" + name.substr(0, 64) + "\"]";
  if (!is_known) return Error{Errc::config, path + " is missing, but .single names it"};
  JsonFields fields((*tokens)[name], path);
  std::vector<TokenId> ids;
  for (const nlohmann::json& id : fields.array("ids")) {
    const bool is_id = id.is_number_integer() && id >= 0 && id < Vocabulary::k_id_end;
    if (!is_id) fields.fail("ids", "must be ids of tokens");
    if (is_id) ids.push_back(id.get<TokenId>());
  }
  COHORT_TRY(fields.finish());
  return ids;
}

Expected<void> add_template(const nlohmann::json& json, const std::string& where,
                            PostProcessor& out) {
  JsonFields fields(json, where);
  std::vector<TokenId> before, behind;
  int sequences = 0;
  size_t i = 0;
  for (const nlohmann::json& item : fields.array("single")) {
    const std::string at = fields.path("single") + "[" + std::to_string(i++) + "]";
    if (item.is_object() && item.contains("Sequence")) {
      ++sequences;
      continue;
    }
    if (!item.is_object() || !item.contains("SpecialToken"))
      return Error{Errc::config, at + " must be a Sequence or a SpecialToken"};
    JsonFields token(item["SpecialToken"], at + ".SpecialToken");
    const std::string name = token.text("id");
    COHORT_TRY(token.finish());
    COHORT_ASSIGN(const std::vector<TokenId> ids, template_ids(json, name, where));
    std::vector<TokenId>& side = sequences == 0 ? before : behind;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (sequences != 1) fields.fail("single", "must hold one Sequence");
  COHORT_TRY(fields.finish());
  out.before.insert(out.before.begin(), before.begin(), before.end());
  out.behind.insert(out.behind.end(), behind.begin(), behind.end());
  return {};
}

Expected<void> add_processor(const nlohmann::json& json, const std::string& where, int depth,
                             PostProcessor& out) {
  if (json.is_null()) return {};
  COHORT_ASSIGN(const std::string type, type_of(json, where));
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return add_template(json, where, out);
  if (type != "Sequence")
    return Error{Errc::unsupported,
                 where + ": the post-processor \"" + type.substr(0, 64) +
                     "\" is not built; ByteLevel, TemplateProcessing and Sequence are"};
  if (depth >= k_post_processor_depth_max)
    return Error{Errc::config, where + " is nested too deep"};
  JsonFields fields(json, where);
  size_t i = 0;
  for (const nlohmann::json& inner : fields.array("processors"))
    COHORT_TRY(add_processor(inner, fields.path("processors") + "[" + std::to_string(i++) + "]",
                             depth + 1, out));
  return fields.finish();
}

}  // namespace

Expected<PostProcessor> PostProcessor::read(const nlohmann::json& json) {
  PostProcessor out;
  COHORT_TRY(add_processor(json, "post_processor", 0, out));
  return out;
}

}  // namespace cohort::text
