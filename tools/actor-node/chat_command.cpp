#include "tools/actor-node/chat_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/compute/generate/folder_engine.hpp"
#include "runtime/text/dialogue.hpp"

namespace cohort {
namespace {

using compute::FolderEngine;
using Json = nlohmann::ordered_json;

/// Ctrl-C: the first one ends the answer, one without an answer ends the program.
std::atomic<bool> is_answering{false}, is_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  if (is_answering && !is_interrupted.exchange(true)) return;
  constexpr int k_interrupted = 130;  // as a shell says it
  ::_exit(k_interrupted);
}

/// What answers: made once, before the first line is read.
struct Session {
  const ChatCommand& command;
  text::TokenizerFolder folder;
  std::unique_ptr<FolderEngine> engine;
  std::unique_ptr<text::Dialogue> dialogue;  // refers to folder
  FolderEngine::Draw draw;
  bool has_told_of_change = false;
};

Expected<Json> variables_of(const std::string& text) {
  if (text.empty()) return Json();
  Json kwargs = Json::parse(text, nullptr, false);
  if (kwargs.is_object()) return kwargs;
  return Error{Errc::config, "--kwargs: '" + text.substr(0, 80) + "' is no JSON object"};
}

Expected<std::unique_ptr<Session>> open_session(const ChatCommand& command) {
  COHORT_ASSIGN(text::TokenizerFolder folder, text::TokenizerFolder::read(command.folder));
  auto session = std::make_unique<Session>(Session{command, std::move(folder), {}, {}, {}});
  text::Dialogue::Options options{.folder = &session->folder, .system = command.system};
  COHORT_ASSIGN(options.kwargs, variables_of(command.kwargs));
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &options.local_time);
  COHORT_ASSIGN(text::Dialogue dialogue, text::Dialogue::begin(std::move(options)));
  session->dialogue = std::make_unique<text::Dialogue>(std::move(dialogue));
  auto& sampling = session->draw.sampling;
  sampling.greedy = command.temperature == 0;
  if (!sampling.greedy) sampling.temperature = static_cast<float>(command.temperature);
  sampling.top_p = static_cast<float>(command.top_p);
  sampling.top_k = static_cast<int>(command.top_k);
  COHORT_TRY(compute::validate(sampling));
  session->draw.seed = command.seed;
  COHORT_ASSIGN(session->engine,
                FolderEngine::open(
                    {.folder = command.folder,
                     .dtype = command.dtype == "bf16" ? tensor::Dtype::bf16 : tensor::Dtype::f32,
                     .context_max = command.context,
                     .threads = std::max(1U, std::thread::hardware_concurrency())}));
  if (session->folder.tokenizer.id_end() > session->engine->vocab_size())
    return Error{Errc::config, fmt::format("{}: tokenizer.json has ids up to {}, the model {} rows",
                                           command.folder, session->folder.tokenizer.id_end() - 1,
                                           session->engine->vocab_size())};
  if (session->folder.eos_ids.empty())
    std::fprintf(stderr, "notice: %s: nothing says which token ends an answer (eos_token_id)\n",
                 command.folder.c_str());
  return session;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Samples the answer and prints it on the way; what was sampled is in `sampled` in any case.
Expected<void> sample(Session& session, std::vector<text::TokenId>& sampled) {
  const auto& ends = session.folder.eos_ids;
  text::StreamDecoder decoder(session.folder.tokenizer, {.skips_special_tokens = true});
  while (static_cast<int64_t>(sampled.size()) < session.command.max_new_tokens && !is_interrupted) {
    COHORT_ASSIGN(const int32_t token, session.engine->next());
    sampled.push_back(token);
    if (std::ranges::find(ends, token) != ends.end()) break;
    print(decoder.next(token));
  }
  print(decoder.finish());
  return {};
}

Expected<void> answer(Session& session, const std::string& line) {
  COHORT_TRY(session.dialogue->ask(line));
  if (session.dialogue->has_changed_text() && !session.has_told_of_change) {
    std::fprintf(stderr,
                 "notice: the chat template changes earlier turns; they are encoded anew "
                 "from the change on\n");
    session.has_told_of_change = true;
  }
  std::vector<text::TokenId> sampled;
  is_interrupted = false;
  is_answering = true;
  const double start = now_seconds();
  Expected<void> done = session.engine->begin(session.dialogue->ids(), session.draw);
  if (done) done = sample(session, sampled);
  is_answering = false;
  ++session.draw.turn;
  session.dialogue->answer(sampled);
  print("\n");
  if (done && ::isatty(STDERR_FILENO) != 0)
    std::fprintf(stderr, "[%zu tokens, %.1f tokens/s]\n", sampled.size(),
                 static_cast<double>(sampled.size()) / std::max(now_seconds() - start, 1e-9));
  if (done) return done;
  return Error{done.error().code, done.error().detail + " (/reset begins anew)"};
}

/// Returns whether each line had its answer.
bool talk(Session& session) {
  const bool is_terminal = ::isatty(STDIN_FILENO) != 0;
  bool is_good = true;
  for (std::string line;;) {
    if (is_terminal) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line)) return is_good;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line == "/quit") return is_good;
    if (line == "/reset") session.dialogue->reset();
    if (line == "/reset" || line.find_first_not_of(" \t") == std::string::npos) continue;
    if (const auto done = answer(session, line); !done) {
      std::fprintf(stderr, "error: chat: %s\n", done.error().detail.c_str());
      is_good = false;
    }
  }
}

}  // namespace

CLI::App* add_chat_command(CLI::App& app, ChatCommand& command) {
  CLI::App* sub = app.add_subcommand("chat", "talk with the model of a Hugging Face folder");
  sub->add_option("folder", command.folder,
                  "Hugging Face folder: config.json, safetensors, tokenizer, chat template")
      ->required();
  sub->add_option("--system", command.system, "system message, in front of the dialogue");
  sub->add_option("--temperature", command.temperature, "divides the logits; 0: most likely token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_option("--top-p", command.top_p, "least share of probability that is kept; 1: all")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sub->add_option("--top-k", command.top_k, "most likely tokens that are kept; 0: all")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  sub->add_option("--max-new-tokens", command.max_new_tokens, "of an answer")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  sub->add_option("--context", command.context, "tokens of a dialogue, at most the model's")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  sub->add_option("--seed", command.seed, "of what is sampled: the same lines, the same answers")
      ->capture_default_str();
  sub->add_option("--dtype", command.dtype, "what products are computed in")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  sub->add_option("--kwargs", command.kwargs,
                  "variables of the chat template, e.g. '{\"enable_thinking\": false}'");
  sub->footer(
      "Each line of standard input is a turn; /reset forgets the dialogue, /quit or Ctrl-D ends.\n"
      "Ctrl-C ends an answer, a second one the program.\n"
      "Exit codes: 0 done, 1 a line had no answer, 2 folder or options cannot be used.");
  return sub;
}

int chat_command(const ChatCommand& command) {
  auto session = open_session(command);
  if (!session) {
    std::fprintf(stderr, "error: chat: %s\n", session.error().detail.c_str());
    return 2;
  }
  for (const std::string& notice : (*session)->engine->notices())
    std::fprintf(stderr, "notice: %s\n", notice.c_str());
  std::signal(SIGINT, on_interrupt);
  return talk(**session) ? 0 : 1;
}

}  // namespace cohort
