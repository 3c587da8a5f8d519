#include "runtime/text/tokenizer_folder.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "runtime/base/read_file.hpp"
#include "runtime/text/json_fields.hpp"
#include "runtime/text/tokenizer_json.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

namespace fs = std::filesystem;

constexpr size_t k_config_bytes_max = size_t{64} << 20;
constexpr std::string_view k_token_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};

/// Returns the file's bytes, or nothing if there is no such file.
Expected<std::optional<std::string>> read_text(const fs::path& path, size_t bytes_max) {
  Expected<std::string> text = read_file(path, bytes_max);
  if (!text && text.error().code == Errc::not_found) return std::optional<std::string>();
  if (!text) return text.error();
  return std::optional(*std::move(text));
}

/// Returns the object in a file, or an empty one if there is no such file.
Expected<Json> read_object(const fs::path& path) {
  COHORT_ASSIGN(const std::optional<std::string> text, read_text(path, k_config_bytes_max));
  if (!text) return Json::object();
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded()) return Error{Errc::config, path.string() + " is no JSON"};
  if (!json.is_object()) return Error{Errc::config, path.string() + " must be a JSON object"};
  return json;
}

/// The files of one folder.
struct FolderFiles {
  fs::path folder;
  std::string tokenizer;
  Json config, special_tokens, generation, model;

  std::string name(std::string_view file) const { return (folder / file).string(); }
};

Expected<FolderFiles> read_files(const std::string& folder) {
  FolderFiles files;
  files.folder = folder;
  std::error_code code;
  if (!fs::is_directory(folder, code))
    return Error{Errc::not_found, folder + " is no folder; give one with a tokenizer.json"};
  COHORT_ASSIGN(std::optional<std::string> tokenizer,
                read_text(files.folder / "tokenizer.json", TokenizerJson::k_file_bytes_max));
  if (!tokenizer) {
    const bool has_model = fs::exists(files.folder / "tokenizer.model", code) ||
                           fs::exists(files.folder / "vocab.json", code);
    return Error{Errc::not_found,
                 folder + " has no tokenizer.json" +
                     (has_model ? "; transformers makes one of the files that are there: "
                                  "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
                                : "")};
  }
  files.tokenizer = *std::move(tokenizer);
  COHORT_ASSIGN(files.config, read_object(files.folder / "tokenizer_config.json"));
  COHORT_ASSIGN(files.special_tokens, read_object(files.folder / "special_tokens_map.json"));
  COHORT_ASSIGN(files.generation, read_object(files.folder / "generation_config.json"));
  COHORT_ASSIGN(files.model, read_object(files.folder / "config.json"));
  return files;
}

/// Tokens of tokenizer_config.json, {id: {content, flags}}: tokenizer.json may lack some.
Expected<std::vector<AddedToken>> added_tokens_decoder(const FolderFiles& files) {
  std::vector<AddedToken> tokens;
  const auto found = files.config.find("added_tokens_decoder");
  if (found == files.config.end() || found->is_null()) return tokens;
  const std::string where = files.name("tokenizer_config.json") + ": added_tokens_decoder";
  if (!found->is_object()) return Error{Errc::config, where + " must be an object"};
  for (const auto& [key, value] : found->items()) {
    JsonFields fields(value, where + "[\"" + key.substr(0, 32) + "\"]");
    AddedToken token = read_added_token(fields);
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (code != std::errc() || end != key.data() + key.size() || token.id < 0 ||
        token.id >= Vocabulary::k_id_end)
      fields.fail("", "must have the id of a token as its key");
    COHORT_TRY(fields.finish());
    tokens.push_back(std::move(token));
  }
  std::ranges::sort(tokens, {}, &AddedToken::id);
  return tokens;
}

/// Returns the text of a token that is a string or an object with "content"; nothing for null.
Expected<std::optional<std::string>> token_text(const Json& value, const std::string& where) {
  if (value.is_null()) return std::optional<std::string>();
  if (value.is_string()) return std::optional(value.get<std::string>());
  if (value.is_object())
    if (const auto content = value.find("content"); content != value.end() && content->is_string())
      return std::optional(content->get<std::string>());
  return Error{Errc::config, where + " must be a text, an object with \"content\", or null"};
}

Expected<void> read_special_tokens(const FolderFiles& files, TokenizerFolder& out) {
  const auto read = [&](std::string_view file, const std::string& key,
                        const Json& value) -> Expected<void> {
    COHORT_ASSIGN(const std::optional<std::string> text,
                  token_text(value, files.name(file) + ": " + key));
    if (text) out.special_tokens.try_emplace(key, *text);
    return {};
  };
  for (const auto& [json, file] : {std::pair(&files.config, "tokenizer_config.json"),
                                   std::pair(&files.special_tokens, "special_tokens_map.json")})
    for (const std::string_view name : k_token_names)
      if (const auto found = json->find(name); found != json->end())
        COHORT_TRY(read(file, std::string(name), *found));
  // transformers 5 names further tokens here; a list of texts has no names.
  if (const auto extra = files.config.find("extra_special_tokens");
      extra != files.config.end() && extra->is_object())
    for (const auto& [key, value] : extra->items())
      COHORT_TRY(read("tokenizer_config.json", key, value));
  for (const char* name : {"bos_token", "eos_token", "pad_token"}) {
    const auto found = out.special_tokens.find(name);
    if (found == out.special_tokens.end() || out.tokenizer.id_of(found->second)) continue;
    return Error{Errc::config, files.name("tokenizer_config.json") + ": " + name + " \"" +
                                   found->second.substr(0, 64) + "\" is no token of " +
                                   files.name("tokenizer.json")};
  }
  return {};
}

/// Returns the ids of a key that holds an id, a list of them, or nothing.
Expected<std::vector<TokenId>> read_ids(const Json& json, const std::string& key,
                                        const std::string& file) {
  std::vector<TokenId> ids;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return ids;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    // -1 stands for none in some files.
    if (id.is_number_integer() && id == -1) continue;
    if (!id.is_number_integer() || id < 0 || id >= Vocabulary::k_id_end)
      return Error{Errc::config, file + ": " + key + " must be the id of a token or a list of ids"};
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

Expected<void> read_ends(const FolderFiles& files, TokenizerFolder& out) {
  const auto id_of = [&](const char* name) -> std::optional<TokenId> {
    const auto found = out.special_tokens.find(name);
    return found == out.special_tokens.end() ? std::nullopt : out.tokenizer.id_of(found->second);
  };
  const auto first_of = [&](const char* key) -> Expected<std::vector<TokenId>> {
    COHORT_ASSIGN(std::vector<TokenId> ids,
                  read_ids(files.generation, key, files.name("generation_config.json")));
    if (!ids.empty()) return ids;
    return read_ids(files.model, key, files.name("config.json"));
  };
  COHORT_ASSIGN(std::vector<TokenId> ends, first_of("eos_token_id"));
  if (const auto id = id_of("eos_token")) ends.push_back(*id);
  const std::set<TokenId> all(ends.begin(), ends.end());
  out.eos_ids.assign(all.begin(), all.end());
  COHORT_ASSIGN(const std::vector<TokenId> pads, first_of("pad_token_id"));
  COHORT_ASSIGN(const std::vector<TokenId> begins, first_of("bos_token_id"));
  out.pad_id = id_of("pad_token");
  if (!out.pad_id && !pads.empty()) out.pad_id = pads[0];
  out.bos_id = id_of("bos_token");
  if (!out.bos_id && !begins.empty()) out.bos_id = begins[0];
  return {};
}

Expected<void> read_template_file(const fs::path& path, const std::string& name,
                                  TokenizerFolder& out) {
  COHORT_ASSIGN(std::optional<std::string> text, read_text(path, k_config_bytes_max));
  if (!text) return {};
  if (!is_valid_utf8(*text)) return Error{Errc::config, path.string() + " is not UTF-8"};
  out.chat_templates[name] = *std::move(text);
  return {};
}

Expected<void> read_templates(const FolderFiles& files, TokenizerFolder& out) {
  const std::string where = files.name("tokenizer_config.json") + ": chat_template";
  if (const auto found = files.config.find("chat_template"); found != files.config.end()) {
    if (found->is_string()) {
      out.chat_templates["default"] = found->get<std::string>();
    } else if (found->is_array()) {
      for (const Json& item : *found) {
        JsonFields fields(item, where);
        const std::string name = fields.text("name"), text = fields.text("template");
        COHORT_TRY(fields.finish());
        out.chat_templates[name] = text;
      }
    } else if (!found->is_null()) {
      return Error{Errc::config, where + " must be a text or a list of {name, template}"};
    }
  }
  COHORT_TRY(read_template_file(files.folder / "chat_template.jinja", "default", out));
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(files.folder / "additional_chat_templates", code))
    if (entry.path().extension() == ".jinja")
      COHORT_TRY(read_template_file(entry.path(), entry.path().stem().string(), out));
  return {};
}

void read_limit(const FolderFiles& files, TokenizerFolder& out) {
  const auto found = files.config.find("model_max_length");
  if (found == files.config.end() || !found->is_number()) return;
  const auto length = found->get<double>();  // 1e30 stands for no limit
  if (length >= 1 && length < 1e15) out.model_max_length = static_cast<uint64_t>(length);
}

}  // namespace

Expected<std::string_view> TokenizerFolder::chat_template(bool has_tools) const {
  if (has_tools)
    if (const auto found = chat_templates.find("tool_use"); found != chat_templates.end())
      return std::string_view(found->second);
  if (const auto found = chat_templates.find("default"); found != chat_templates.end())
    return std::string_view(found->second);
  std::string names;
  for (const auto& [name, text] : chat_templates) names += (names.empty() ? "" : ", ") + name;
  return Error{Errc::not_found,
               names.empty() ? "the folder has no chat template (chat_template.jinja, or "
                               "chat_template in tokenizer_config.json); give one with --template"
                             : "the folder has no chat template named default, but " + names};
}

Expected<TokenizerFolder> TokenizerFolder::read(const std::string& folder) {
  COHORT_ASSIGN(FolderFiles files, read_files(folder));
  COHORT_ASSIGN(const std::vector<AddedToken> more, added_tokens_decoder(files));
  COHORT_ASSIGN(Tokenizer tokenizer,
                Tokenizer::from_json(files.tokenizer, files.name("tokenizer.json"), more));
  TokenizerFolder out(std::move(tokenizer));
  COHORT_TRY(read_special_tokens(files, out));
  COHORT_TRY(read_ends(files, out));
  COHORT_TRY(read_templates(files, out));
  read_limit(files, out);
  return out;
}

}  // namespace cohort::text
