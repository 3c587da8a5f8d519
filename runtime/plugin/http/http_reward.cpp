#include "runtime/plugin/http/http_reward.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "runtime/plugin/http/judge_reward.hpp"
#include "runtime/plugin/http/remote_reward.hpp"
#include "runtime/tasks/json_options.hpp"

namespace cohort::plugin {
namespace {

constexpr uint32_t k_workers_max = 256;
constexpr double k_timeout_max_s = 86400;
constexpr std::string_view k_completions = "/chat/completions";

struct ServerSetup {
  HttpPoolOptions server;
  HttpWorkersOptions workers;
};

/// The key out of the environment; it appears in no message.
Expected<std::string> read_key(std::string_view owner, const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0')
    return Error{Errc::config, fmt::format("{}: api_key_env names {}, which is not set in the "
                                           "environment",
                                           owner, variable)};
  for (const char* c = value; *c != '\0'; ++c) {
    if (*c <= ' ' || *c > '~')
      return Error{Errc::config, fmt::format("{}: the key in {} holds a blank, a line break or a "
                                             "letter outside ASCII",
                                             owner, variable)};
  }
  return std::string(value);
}

/// The options that both have.
Expected<ServerSetup> read_server(std::string_view owner, tasks::Options& options, double timeout_s,
                                  uint32_t workers) {
  ServerSetup setup;
  if (!(timeout_s > 0 && timeout_s <= k_timeout_max_s) || workers > k_workers_max)
    return Error{Errc::config,
                 fmt::format("{}: timeout_s is above 0 and at most a day, workers are "
                             "at most {}",
                             owner, k_workers_max)};
  setup.workers.workers = workers;
  setup.workers.timeout_s = timeout_s;
  setup.workers.try_timeout_s = options.number("try_timeout_s", 0);
  setup.workers.retries = options.count("retries", setup.workers.retries);
  setup.workers.backoff_s = options.number("backoff_s", setup.workers.backoff_s);
  setup.workers.requests_per_minute = options.number("requests_per_minute", 0);
  for (auto [name, value] : {std::pair{"try_timeout_s", setup.workers.try_timeout_s},
                             std::pair{"backoff_s", setup.workers.backoff_s},
                             std::pair{"requests_per_minute", setup.workers.requests_per_minute}}) {
    if (!(value >= 0 && value <= 1e6)) options.reject(name, "is not in 0..1000000");
  }
  setup.server.ca_file = options.text("ca_file", "");
  if (!options.has("url"))
    return Error{Errc::config, fmt::format("{}: url is missing: http(s)://host:port/path", owner)};
  auto url = parse_http_url(options.text("url", ""));
  if (!url) return url.error().with_context(owner);
  setup.server.url = std::move(*url);
  if (std::string variable = options.text("api_key_env", ""); !variable.empty()) {
    COHORT_ASSIGN(std::string key, read_key(owner, variable));
    setup.server.headers.emplace_back("Authorization", "Bearer " + key);
  }
  return setup;
}

/// "http://host/v1" and "http://host/v1/" become "…/v1/chat/completions".
void complete_path(std::string& path) {
  if (path.ends_with(k_completions)) return;
  while (path.ends_with('/')) path.pop_back();
  path += k_completions;
}

}  // namespace

Expected<std::shared_ptr<tasks::Reward>> make_llm_judge(std::string_view config_json,
                                                        double timeout_s, uint32_t workers) {
  constexpr std::string_view k_owner = "llm_judge";
  COHORT_ASSIGN(tasks::Options options,
                tasks::Options::parse(fmt::format("reward {}", k_owner), config_json));
  COHORT_ASSIGN(ServerSetup setup, read_server(k_owner, options, timeout_s, workers));
  complete_path(setup.server.url.path);
  JudgeOptions judge;
  judge.model = options.text("model", "");
  judge.system = options.text("system", "");
  judge.temperature = options.number("temperature", judge.temperature);
  judge.max_tokens = options.count("max_tokens", judge.max_tokens, 1);
  judge.scale = options.number("scale", judge.scale);
  judge.cache_rows = options.count("cache_rows", judge.cache_rows);
  if (judge.model.empty()) options.reject("model", "is missing: the name the server knows it by");
  if (!(judge.temperature >= 0 && judge.temperature <= 2))
    options.reject("temperature", "is not in 0..2");
  if (!(judge.scale >= 0 && judge.scale <= 1e6)) options.reject("scale", "is not in 0..1000000");
  auto prompt = JudgeTemplate::create(options.text("template", default_judge_template()));
  COHORT_TRY(options.finish());
  if (!prompt) return prompt.error().with_context(k_owner);
  return std::shared_ptr<tasks::Reward>(std::make_shared<JudgeReward>(
      std::move(judge), std::move(*prompt), std::move(setup.server), setup.workers));
}

Expected<std::shared_ptr<tasks::Reward>> make_remote_reward(std::string_view config_json,
                                                            double timeout_s, uint32_t workers) {
  constexpr std::string_view k_owner = "remote";
  COHORT_ASSIGN(tasks::Options options,
                tasks::Options::parse(fmt::format("reward {}", k_owner), config_json));
  COHORT_ASSIGN(ServerSetup setup, read_server(k_owner, options, timeout_s, workers));
  const uint32_t batch_rows = options.count("batch_rows", 32, 1);
  COHORT_TRY(options.finish());
  return std::shared_ptr<tasks::Reward>(
      std::make_shared<RemoteReward>(batch_rows, std::move(setup.server), setup.workers));
}

}  // namespace cohort::plugin
