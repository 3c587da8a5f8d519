#pragma once
/// Dialogues of pipeline sft as ids and masks: by the chat template of the policy's folder, or in
/// ChatML for the words of the demos (docs/sft.md). One thread.
#include <functional>
#include <memory>

#include "runtime/config/run_config.hpp"
#include "runtime/tasks/sft_row.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::actors {

/// Errors name the turn and what to do, not the row.
using RowEncoder = std::function<Expected<tasks::MaskedTokens>(const tasks::SftRow&)>;

/// Returns Errc::config for a template name that is none, or a folder without a chat template.
Expected<RowEncoder> row_encoder_of(const config::RunConfig& config,
                                    std::shared_ptr<const tasks::Tokenizer> tokenizer);

}  // namespace cohort::actors
