// Pipeline sft as a user runs it: the shipped config, rows of a file, a kill, two cards.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/byte_folder.hpp"
#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

std::vector<std::string> sft_run(const TempFolder& folder,
                                 const std::vector<std::string>& more = {}) {
  return test::rows_run("sft_arithmetic", folder, more);
}

std::vector<nlohmann::json> metrics(const Process& run) {
  return test::metric_rows(run_folder(run));
}

TEST(Sft, TheShippedConfigTrainsMeasuresAndRecords) {
  TempFolder folder;
  Process run(sft_run(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto rows = metrics(run);
  ASSERT_EQ(rows.size(), 7U);
  for (size_t step = 0; step < rows.size(); ++step) {
    EXPECT_EQ(rows[step].contains("val/loss"), step % 3 == 0) << rows[step];
    if (step == 0) continue;
    for (const char* key : {"loss", "actor/grad_norm", "actor/lr", "sft/counted_tokens",
                            "sft/truncated_rows", "data/epoch", "tokens"})
      EXPECT_TRUE(rows[step].contains(key)) << key << " in " << rows[step];
  }
  EXPECT_LT(rows[6]["val/loss"], rows[0]["val/loss"]);
  EXPECT_NE(run.out().find("held-out loss:"), std::string::npos) << run.out();
  Process verify({test::binary("traj"), "verify", run_folder(run)}, folder);
  EXPECT_EQ(verify.wait(), 0) << verify.err();
}

TEST(Sft, EpochsDecideTheLengthOfARunWithoutSteps) {
  TempFolder folder;
  const std::string file = (folder.path() / "rows.jsonl").string();
  {
    std::ofstream out(file);
    for (int i = 0; i < 20; ++i)
      out << R"({"prompt": ")" << i << R"(+1=", "response": ")" << i + 1 << "\"}\n";
  }
  auto command = sft_run(folder, {"sft_train.data_args.file_name=[" + file + "]",
                                  "sft_train.training_args.num_train_epochs=2", "~max_steps",
                                  "eval_steps=-1", "sequence_length=7"});
  Process run(command, folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto rows = metrics(run);
  ASSERT_EQ(rows.size(), 6U) << "2 epochs of 20 rows, 8 a step";
  EXPECT_FALSE(rows[0].contains("val/loss"));
  double epoch = 0;
  for (const auto& row : rows) epoch = row.value("data/epoch", epoch);
  EXPECT_DOUBLE_EQ(epoch, 2);
}

TEST(Sft, AKilledRunResumesWithTheBitsOfOneThatWasNot) {
  test::expect_same_bits_after_a_kill(sft_run);
}

TEST(Sft, ARunWhoseTrainerIsKilledStartsAgainByItself) {
  TempFolder whole, folder;
  Process reference(sft_run(whole), whole);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  auto command = test::in_processes(sft_run(folder), 1);
  command.insert(command.begin() + 2, {"--restarts", "1"});
  const std::filesystem::path claim = folder.path() / "claim";
  Process run(test::with_failpoint(command, "trainer.update:5:kill", claim), folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  EXPECT_TRUE(test::claimed_at(claim)) << "the point was never passed";
  EXPECT_EQ(hashes(run_folder(run)), hashes(run_folder(reference)));
}

TEST(Sft, TwoCardsAndZeroGiveTheBitsOfOneCard) {
  TempFolder one, two;
  Process reference(sft_run(one), one);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  const std::string strategy = "sft_train.strategy_args.strategy_config";
  for (const char* stage : {"0", "3"}) {
    Process run(sft_run(two, {"num_gpus_per_node=2", "sft_train.device_mapping=[0,1]",
                              "sft_train.training_args.gradient_accumulation_steps=1",
                              "++" + strategy + ".zero_optimization.stage=" + stage,
                              "exp_name=zero" + std::string(stage)}),
                two);
    ASSERT_EQ(run.wait(), 0) << run.err();
    EXPECT_EQ(hashes(run_folder(run)), hashes(run_folder(reference))) << "stage " << stage;
  }
}

// EP 2, EP 2 x DP 2 and one card: the same hashes (TRAIN-3).
TEST(Sft, ExpertsOverCardsGiveTheBitsOfOneCard) {
  TempFolder folder;
  const std::filesystem::path shape = folder.path() / "config.json";
  std::ofstream(shape) << R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
    "vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 32, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 12, "norm_topk_prob": true,
    "mlp_only_layers": [1], "rope_theta": 10000, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "initializer_range": 0.05, "max_position_embeddings": 64, "tie_word_embeddings": true})";
  const auto run_of = [&](const std::string& name, const std::string& cards, int batch,
                          const std::string& strategy) {
    return sft_run(folder,
                   {"pretrain=random:" + shape.string(), "micro_batch_tokens=24",
                    "num_gpus_per_node=4", "sft_train.device_mapping=[" + cards + "]",
                    "sft_train.training_args.gradient_accumulation_steps=1",
                    "sft_train.training_args.per_device_train_batch_size=" + std::to_string(batch),
                    "sft_train.strategy_args={strategy_name: megatron_train, "
                    "strategy_config: {" +
                        strategy + "}}",
                    "exp_name=" + name});
  };
  Process reference(run_of("one", "0", 8, ""), folder);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  Process two(run_of("two", "0,1", 4, "expert_model_parallel_size: 2"), folder);
  ASSERT_EQ(two.wait(), 0) << two.err();
  EXPECT_EQ(hashes(run_folder(two)), hashes(run_folder(reference)));
  Process four(test::in_processes(run_of("four", "0,1,2,3", 2,
                                         "expert_model_parallel_size: 2, "
                                         "use_distributed_optimizer: true"),
                                  4),
               folder);
  ASSERT_EQ(four.wait(), 0) << four.err();
  EXPECT_EQ(hashes(run_folder(four)), hashes(run_folder(reference)));
  Process refused(run_of("no", "0,1,2", 2, "expert_model_parallel_size: 3"), folder);
  EXPECT_NE(refused.wait(), 0);
  EXPECT_NE(refused.err().find("expert parallel 3 does not divide num_experts 4"),
            std::string::npos)
      << refused.err();
}

/// A run on a small model's folder with the rows that are given.
std::vector<std::string> folder_run(const TempFolder& folder, const std::string& rows,
                                    const std::vector<std::string>& more = {}) {
  tests::write_byte_model(folder.path() / "model");
  const std::string file = (folder.path() / "rows.jsonl").string();
  std::ofstream(file) << rows;
  std::vector<std::string> command = {
      test::binary("actor-node"),
      "run",
      "--plain",
      std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/sft_arithmetic.yaml",
      "output_dir=" + folder.path().string(),
      "~model",
      "pretrain=" + (folder.path() / "model").string(),
      "sft_train.data_args.file_name=[" + file + "]",
      "sft_train.data_args.template=native",
      "sft_train.training_args.per_device_train_batch_size=2",
      "sft_train.training_args.gradient_accumulation_steps=1",
      "sequence_length=512",
      "++max_steps=2",
      "eval_steps=-1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

constexpr const char* k_tool_row =
    R"({"messages": [{"role": "user", "content": "2+2?"}, )"
    R"({"role": "assistant", "content": "I compute."}, )"
    R"({"role": "tool", "content": "4"}, {"role": "assistant", "content": "It is 4."}]})";

TEST(Sft, AFoldersTemplateAndTokenizerWriteTheRows) {
  TempFolder folder;
  const std::string rows = std::string(k_tool_row) + "\n" +
                           R"({"instruction": "say", "input": "hi", "output": "hi"})" + "\n";
  Process run(folder_run(folder, rows), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string jsonl = (folder.path() / "all.jsonl").string();
  Process exported({test::binary("traj"), "export", run_folder(run), "--jsonl", jsonl}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::ifstream in(jsonl);
  std::map<std::string, int> seen;  // what the mask selects, and how often
  for (std::string line; std::getline(in, line);) {
    const auto t = nlohmann::json::parse(line);
    const auto tokens = t.at("tokens").get<std::vector<int32_t>>();
    const auto mask = t.at("response_mask").get<std::vector<int>>();
    std::string said;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (mask[i] != 0)
        said += tokens[i] < 256 ? std::string(1, static_cast<char>(tokens[i])) : "|";
    ++seen[said];
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"I compute.|It is 4.|", 2}, {"hi|", 2}}));
}

/// verl's command, and the same run in the keys of ROLL: one hash for each step.
TEST(Sft, VerlsCommandIsTheSameRun) {
  TempFolder folder, other;
  std::string rows;
  for (int i = 0; i < 8; ++i)
    rows += nlohmann::json{{"extra_info",
                            {{"question", std::to_string(i) + " + 1?"},
                             {"answer", std::to_string(i + 1)}}}}
                .dump() +
            "\n";
  auto roll = folder_run(
      folder, rows,
      {"prompt_key=extra_info.question", "response_key=extra_info.answer", "++max_steps=4",
       "seed=1", "sft_train.model_args.dtype=bf16", "sft_train.training_args.learning_rate=1.0e-2",
       "sft_train.training_args.warmup_ratio=0.1", "sft_train.training_args.weight_decay=0.01",
       "micro_batch_tokens=2048", "cards.threads_per_card=1"});
  Process expected(roll, folder);
  ASSERT_EQ(expected.wait(), 0) << expected.err() << expected.out();
  Process run({test::binary("actor-node"),
               "run",
               "--plain",
               "--dialect",
               "verl",
               "data.train_files=" + (folder.path() / "rows.jsonl").string(),
               "data.prompt_key=extra_info",
               "data.response_key=extra_info",
               "data.prompt_dict_keys=[question]",
               "data.response_dict_keys=[answer]",
               "data.train_batch_size=2",
               "data.max_length=512",
               "model.partial_pretrain=" + (folder.path() / "model").string(),
               "optim.lr=1e-2",
               "trainer.n_gpus_per_node=1",
               "trainer.total_epochs=1",
               "trainer.device=cpu",
               "trainer.experiment_name=sft",
               "trainer.checkpoint.save_contents=[model,hf_model]",
               "trainer.default_local_dir=" + other.path().string(),
               "cards.memory_bytes=64MiB",
               "cards.reserve_bytes=1MiB",
               "determinism=strict"},
              other);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  EXPECT_EQ(hashes(run_folder(run)), hashes(run_folder(expected)));
  EXPECT_TRUE(std::filesystem::exists(run_folder(run) + "/hf/step_4/model.safetensors"));
  EXPECT_EQ(std::filesystem::path(run_folder(run)).parent_path(), other.path() / "sft");
}

TEST(Sft, HeldOutRowsMayHaveATemplateOfTheirOwn) {
  const std::string row = "{\"prompt\": \"2 + 2?\", \"response\": \"4\"}\n";
  const auto first_loss = [&](const std::vector<std::string>& more) {
    TempFolder folder;
    auto words = folder_run(folder, row + row, more);
    words.insert(words.end(), {"eval_steps=1", "validation.data_args.file_name=[" +
                                                   (folder.path() / "rows.jsonl").string() + "]"});
    Process run(words, folder);
    EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
    return metrics(run).front().at("val/loss").get<double>();
  };
  const double as_trained = first_loss({});
  EXPECT_EQ(first_loss({"+validation.data_args.template=native"}), as_trained);
  EXPECT_NE(first_loss({"+validation.data_args.template=empty"}), as_trained);
  TempFolder folder;
  Process refused(folder_run(folder, row + row,
                             {"+validation.data_args.template=alpaca", "eval_steps=1",
                              "validation.data_args.file_name=[builtin:arithmetic/held_out]"}),
                  folder);
  EXPECT_EQ(refused.wait(), 2);
  EXPECT_NE(refused.err().find("validation.data_args.template: 'alpaca' is not built in"),
            std::string::npos)
      << refused.err();
}

TEST(Sft, WhatATemplateRefusesIsNamedByRow) {
  TempFolder folder;
  auto command = folder_run(folder, std::string(k_tool_row) + "\n" + k_tool_row + "\n");
  std::ofstream(folder.path() / "model" / "chat_template.jinja")
      << "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}"
         "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  Process run(command, folder);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_NE(run.err().find("rows.jsonl:1: "), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("no tools"), std::string::npos) << run.err();
}

TEST(Sft, ABadRowIsNamedAndWhatToDo) {
  TempFolder folder;
  const std::string file = (folder.path() / "rows.jsonl").string();
  const auto refusal = [&](const std::string& row) {
    std::ofstream(file) << R"({"prompt": "1+1=", "response": "2"})"
                        << "\n"
                        << row << "\n";
    Process run(sft_run(folder, {"sft_train.data_args.file_name=[" + file + "]"}), folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    return run.err();
  };
  for (const auto& [row, words] :
       {std::pair{R"({"messages": [{"role": "user", "content": "1"}]})", "no message of the assis"},
        std::pair{R"({"messages": [{"role": "judge", "content": "1"}]})", "role is \"judge\""},
        std::pair{R"({"prompt": "2+2="})", "no answer to imitate"}}) {
    const std::string told = refusal(row);
    EXPECT_NE(told.find(file + ":2: "), std::string::npos) << told;
    EXPECT_NE(told.find(words), std::string::npos) << told;
  }
}

}  // namespace
}  // namespace cohort
