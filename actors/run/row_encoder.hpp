#pragma once
/// Dialogues of rows as ids and masks: by the chat template of the policy's folder, or in
/// ChatML for the words of the demos (docs/sft.md). One thread.
#include <functional>
#include <memory>
#include <string>

#include "runtime/config/run_config.hpp"
#include "runtime/tasks/sft_row.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::actors {

/// Errors name the turn and what to do, not the row.
using RowEncoder = std::function<Expected<tasks::MaskedTokens>(const tasks::SftRow&)>;

/// `data`: the section whose rows are written, which the config calls `key` (sft_train.data_args,
/// validation.data_args). Returns Errc::config for a template name that is none, or a folder
/// without a chat template.
Expected<RowEncoder> row_encoder_of(const config::RunConfig& config, const config::DataArgs& data,
                                    const std::string& key,
                                    std::shared_ptr<const tasks::Tokenizer> tokenizer);

}  // namespace cohort::actors
