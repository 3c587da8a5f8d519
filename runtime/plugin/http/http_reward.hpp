#pragma once
/// Rewards that ask a server: llm_judge, a language model behind an OpenAI-compatible
/// /chat/completions, and remote, a scorer of one's own behind HTTP (docs/judges.md has options and
/// messages). Both retry passing failures, keep to a rate, and never score an unreadable reply 0.
/// Thread-safe. Bound: `workers` requests at once, a reply of at most 4 MiB, a cache of cache_rows
/// results. REWARD-2: a row ends timeout_s after its first request began; before that it waits for
/// a free worker and, if one is set, the rate limit. A name look-up takes what the system's
/// resolver takes.
#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

/// Returns Errc::config naming the option that is missing, unknown or wrong.
Expected<std::shared_ptr<tasks::Reward>> make_llm_judge(std::string_view config_json,
                                                        double timeout_s, uint32_t workers);
/// The same for remote.
Expected<std::shared_ptr<tasks::Reward>> make_remote_reward(std::string_view config_json,
                                                            double timeout_s, uint32_t workers);

}  // namespace cohort::plugin
