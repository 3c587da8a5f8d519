#include "tools/actor-node/tokenize_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/read_file.hpp"
#include "runtime/text/local_time.hpp"
#include "runtime/text/tokenizer_folder.hpp"
#include "tools/actor-node/tokenize_chat.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;
using text::TokenId;

/// What every row of a call shares.
struct TokenizeContext {
  const TokenizeCommand& command;
  std::optional<text::TokenizerFolder> folder;  // absent with --template alone
  std::optional<ChatRows> chat;
};

/// {"text": …, "add_special_tokens": true, "offsets": false}
Expected<Json> text_row(const Json& row, const TokenizeContext& context) {
  text::EncodeOptions options =
      context.command.is_plain ? text::k_plain_text : text::EncodeOptions();
  if (const auto adds = row.find("add_special_tokens"); adds != row.end()) {
    if (!adds->is_boolean()) return Error{Errc::config, "add_special_tokens must be true or false"};
    options.adds_special_tokens = adds->get<bool>() && !context.command.is_plain;
  }
  options.wants_offsets = row.contains("offsets") && row["offsets"] == true;
  COHORT_ASSIGN(
      const text::Encoding encoding,
      context.folder->tokenizer.encode(row["text"].get_ref<const std::string&>(), options));
  Json out;
  out["ids"] = encoding.ids;
  if (options.wants_offsets)
    for (const text::Span& span : encoding.offsets)
      out["offsets"].push_back(Json::array({span.begin, span.end}));
  return out;
}

/// {"ids": …, "skip_special_tokens": false}; pieces: what each id adds to a stream, and one more
/// for what it holds back until its end.
Expected<Json> ids_row(const Json& row, const TokenizeContext& context) {
  std::vector<TokenId> ids;
  for (const Json& id : row["ids"]) {
    if (!id.is_number_integer() || id < 0 || id >= text::Vocabulary::k_id_end)
      return Error{Errc::config, "ids must be a list of ids of tokens"};
    ids.push_back(id.get<TokenId>());
  }
  const text::DecodeOptions options{.skips_special_tokens = row.contains("skip_special_tokens") &&
                                                            row["skip_special_tokens"] == true};
  Json out;
  out["text"] = context.folder->tokenizer.decode(ids, options);
  out["pieces"] = Json::array();
  text::StreamDecoder stream(context.folder->tokenizer, options);
  for (const TokenId id : ids) out["pieces"].push_back(stream.next(id));
  if (std::string rest = stream.finish(); !rest.empty()) out["pieces"].push_back(std::move(rest));
  return out;
}

constexpr uintmax_t k_template_bytes_max = uintmax_t{64} << 20;

/// What rows of messages share: template, variables, time.
Expected<ChatRows> chat_rows(const TokenizeContext& context) {
  const TokenizeCommand& command = context.command;
  ChatRows::Options options;
  if (context.folder) options.folder = &*context.folder;
  options.bos = command.bos;
  options.eos = command.eos;
  if (!command.template_file.empty()) {
    COHORT_ASSIGN(options.source, read_file(command.template_file, k_template_bytes_max));
  }
  if (command.now.empty()) {
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &options.local_time.emplace());
  } else {
    COHORT_ASSIGN(options.local_time, text::local_time_of(command.now));
  }
  return ChatRows(std::move(options));
}

/// Whatever is wrong with a dialogue is its answer: other rows go on.
Json messages_row(const Json& row, TokenizeContext& context) {
  auto result = context.chat->answer(row);
  return result ? *std::move(result) : Json{{"error", result.error().detail}};
}

/// Returns the answer to one row. Errc::config: it is no row.
Expected<Json> answer(const Json& row, TokenizeContext& context) {
  const auto is_row = [&](const char* key, auto is_type) {
    const auto found = row.find(key);
    return found != row.end() && is_type(*found);
  };
  const auto is_text = [](const Json& x) { return x.is_string(); };
  const auto is_list = [](const Json& x) { return x.is_array(); };
  if (is_row("messages", is_list)) return messages_row(row, context);
  const bool has_text = is_row("text", is_text), has_ids = is_row("ids", is_list);
  if (!has_text && !has_ids)
    return Error{Errc::config, "must be {\"text\": text}, {\"ids\": list} or {\"messages\": list}"};
  if (!context.folder)
    return Error{Errc::invalid_argument, "rows of text or ids need a folder with a tokenizer"};
  return has_text ? text_row(row, context) : ids_row(row, context);
}

/// The JSON of a row in one line, also for readers that take U+0085, U+2028 and U+2029 for its end
/// (Python's str.splitlines): these three are escaped.
std::string one_line(const Json& row) {
  const std::string text = row.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::pair<std::string_view, std::string_view> k_ends[] = {
      {"\xc2\x85", "\\u0085"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const auto* end = std::ranges::find_if(
        k_ends, [&](const auto& pair) { return rest.starts_with(pair.first); });
    if (end == std::end(k_ends)) {
      out += text[at++];
      continue;
    }
    out += end->second;
    at += end->first.size();
  }
  return out;
}

/// Reads a line. Errc::config: what is no JSON in it, e.g. the NaN or the unpaired surrogates that
/// Python writes, and where.
Expected<Json> parse_line(const std::string& line, const std::string& where) {
  try {
    return Json::parse(line);
  } catch (const Json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 9: …"
    std::string_view what = e.what();
    if (const size_t end = what.find("] "); end != std::string_view::npos)
      what.remove_prefix(end + 2);
    return Error{Errc::config, fmt::format("{} is no JSON: {}", where, what)};
  }
}

Expected<void> run_rows(std::istream& in, const std::string& name, TokenizeContext& context,
                        std::ostream& out) {
  uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    const Expected<Json> row = parse_line(line, where);
    if (!row) {
      out << one_line({{"error", row.error().detail}}) << '\n';
      continue;
    }
    if (!row->is_object()) return Error{Errc::config, where + " is no JSON object"};
    auto result = answer(*row, context);
    if (!result &&
        (result.error().code == Errc::config || result.error().code == Errc::invalid_argument))
      return result.error().with_context(where);
    const Json line_out = result ? *std::move(result) : Json{{"error", result.error().detail}};
    out << one_line(line_out) << '\n';
  }
  if (in.bad()) return Error{Errc::io, name + ": cannot be read"};
  return {};
}

}  // namespace

CLI::App* add_tokenize_command(CLI::App& app, TokenizeCommand& command) {
  CLI::App* tokenize = app.add_subcommand(
      "tokenize", "what the tokenizer and the chat template of a folder make of rows of JSON");
  tokenize
      ->add_option("paths", command.paths,
                   "FOLDER with a tokenizer.json, then ROWS.jsonl or - for standard input; "
                   "with --template the folder may be left out")
      ->required()
      ->expected(1, 2);
  tokenize->add_flag("--no-special", command.is_plain,
                     "text cannot make special ids, and none are put around it");
  tokenize->add_option("--template", command.template_file,
                       "chat template (Jinja) in place of the folder's");
  tokenize->add_option("--bos", command.bos, "the template's bos_token");
  tokenize->add_option("--eos", command.eos, "the template's eos_token");
  tokenize->add_option("--now", command.now,
                       "local time that a template is told: \"2026-01-31 12:00:00\"; without it, "
                       "the clock's");
  tokenize->footer(
      "Rows: {\"text\": …} -> {\"ids\": […]}; {\"ids\": […]} -> {\"text\": …, \"pieces\": […]};\n"
      "{\"messages\": […], \"tools\": …, \"kwargs\": {…}} -> {\"text\": …, \"ids\": […], \"mask\": "
      "[…]}.\n"
      "Exit codes: 0 done, 1 a file or a row is bad, 2 an option is wrong. More: "
      "docs/tokenizer.md, docs/chat_templates.md.");
  return tokenize;
}

Expected<void> tokenize_rows(const TokenizeCommand& command, std::ostream& out) {
  TokenizeContext context{command, std::nullopt, std::nullopt};
  if (command.paths.size() < 2 && command.template_file.empty())
    return Error{Errc::invalid_argument,
                 "give a FOLDER and ROWS.jsonl, or --template and ROWS.jsonl"};
  if (command.paths.size() == 2) {
    COHORT_ASSIGN(context.folder, text::TokenizerFolder::read(command.paths[0]));
  }
  COHORT_ASSIGN(context.chat, chat_rows(context));
  const std::string& rows = command.paths.back();
  if (rows == "-") return run_rows(std::cin, "standard input", context, out);
  std::ifstream file(rows, std::ios::binary);
  if (!file) return Error{Errc::not_found, rows + ": " + std::strerror(errno)};
  return run_rows(file, rows, context, out);
}

int tokenize_command(const TokenizeCommand& command) {
  std::ios::sync_with_stdio(false);
  const auto done = tokenize_rows(command, std::cout);
  std::cout.flush();
  if (done) return 0;
  std::fprintf(stderr, "error: tokenize: %s\n", done.error().detail.c_str());
  return done.error().code == Errc::invalid_argument ? 2 : 1;
}

}  // namespace cohort
