// A folder with something wrong in it, given to each command that reads one: the error names the
// file and what is wrong, and nothing has begun.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/byte_folder.hpp"
#include "tests/support/child_process.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Process;
using test::slurp;
using test::TempFolder;

std::string config(const std::string& name) {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/" + name;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

template <class Change>
void with_json(const fs::path& path, Change change) {
  json value = json::parse(slurp(path));
  change(value);
  write(path, value.dump());
}

/// Changes the header of the weights' file; the bytes behind it stay.
template <class Change>
void with_header(const fs::path& folder, Change change) {
  const fs::path path = folder / "model.safetensors";
  const std::string file = slurp(path);
  uint64_t size = 0;
  for (int i = 0; i < 8; ++i)
    size |= static_cast<uint64_t>(static_cast<unsigned char>(file[static_cast<size_t>(i)]))
            << (8 * i);
  json header = json::parse(file.substr(8, size));
  change(header);
  const std::string text = header.dump();
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> (8 * i));
  write(path, out + text + file.substr(8 + size));
}

enum Reads : unsigned { k_text = 1, k_model = 2 };  // logprobs reads no tokenizer

struct Case {
  const char* name;
  unsigned reads;
  std::function<void(const fs::path&)> harm;
  const char* file;     // that the message names
  const char* message;  // what it says of it
};

const std::string k_norm = "model.norm.weight";

const Case k_cases[] = {
    {"ConfigIsMissing", k_model, [](const auto& f) { fs::remove(f / "config.json"); },
     "config.json", "No such file"},
    {"ConfigIsNoJson", k_model, [](const auto& f) { write(f / "config.json", "{"); }, "model",
     "JSON"},
    {"ConfigOfAnotherFamily", k_model,
     [](const auto& f) { with_json(f / "config.json", [](json& c) { c["model_type"] = "gpt2"; }); },
     "model", "model_type 'gpt2'"},
    {"ConfigNamesTheWrongFamily", k_model,
     [](const auto& f) {
       with_json(f / "config.json", [](json& c) { c["model_type"] = "llama"; });
     },
     "model.safetensors", "is of no parameter that config.json's model_type 'llama' has"},
    {"ConfigHasAKeyNobodyKnows", k_model,
     [](const auto& f) { with_json(f / "config.json", [](json& c) { c["logit_scale"] = 2; }); },
     "config.json", "'logit_scale'"},
    {"WeightsAreMissing", k_model, [](const auto& f) { fs::remove(f / "model.safetensors"); },
     "model", "neither model.safetensors nor"},
    {"WeightsAreAPickle", k_model,
     [](const auto& f) { fs::rename(f / "model.safetensors", f / "pytorch_model.bin"); },
     "pytorch_model.bin", "is a pickle"},
    {"WeightsAreTruncated", k_model,
     [](const auto& f) {
       fs::resize_file(f / "model.safetensors", fs::file_size(f / "model.safetensors") - 64);
     },
     "model.safetensors", "outside the"},
    {"AShardIsMissing", k_model,
     [](const auto& f) {
       fs::remove(f / "model.safetensors");
       write(f / "model.safetensors.index.json",
             json{{"weight_map", {{k_norm, "model-00001-of-00001.safetensors"}}}}.dump());
     },
     "model-00001-of-00001.safetensors", "is missing"},
    {"HeaderLiesAboutAShape", k_model,
     [](const auto& f) { with_header(f, [](json& h) { h[k_norm]["shape"] = {64}; }); },
     "model.safetensors", "model.norm.weight"},
    {"HeaderLiesAboutAPlace", k_model,
     [](const auto& f) { with_header(f, [](json& h) {
                           h[k_norm]["data_offsets"] = {0, 64};
                         }); },
     "model.safetensors", "tensor"},
    {"HeaderLiesAboutItsLength", k_model,
     [](const auto& f) {
       write(f / "model.safetensors", std::string(7, '\xff') + "\x7f" + std::string(64, ' '));
     },
     "model.safetensors", "does not fit a file of 72"},
    {"ATensorHasAnotherDtype", k_model,
     [](const auto& f) { with_header(f, [](json& h) { h[k_norm]["dtype"] = "I16"; }); },
     "model.safetensors", "is I16, not F32"},
    {"ATensorIsMissing", k_model,
     [](const auto& f) {
       with_header(f, [](json& h) {
         h["spare"] = h[k_norm];
         h.erase(k_norm);
       });
     },
     "model", "model.norm.weight"},
    {"TokenizerHasMoreIdsThanTheModel", k_text,
     [](const auto& f) {
       with_json(f / "tokenizer.json", [](json& t) {
         t["added_tokens"].push_back(
             {{"id", 300}, {"content", "<|more|>"}, {"special", true}, {"normalized", false}});
       });
     },
     "tokenizer.json", "has ids up to 300"},
    {"TokenizerIsNoJson", k_text, [](const auto& f) { write(f / "tokenizer.json", "[]"); },
     "tokenizer.json", ""},
    {"TokenizerIsOfAnotherKind", k_text,
     [](const auto& f) {
       with_json(f / "tokenizer.json", [](json& t) { t["model"]["type"] = "Unigram"; });
     },
     "tokenizer.json", "Unigram"},
    {"EndTokenIsNone", k_text,
     [](const auto& f) {
       with_json(f / "tokenizer_config.json", [](json& t) { t["eos_token"] = "<|over|>"; });
     },
     "tokenizer_config.json", "<|over|>"},
    {"TemplateIsMissing", k_text,
     [](const auto& f) {
       with_json(f / "tokenizer_config.json", [](json& t) { t.erase("chat_template"); });
     },
     "template", "chat template"},
    {"TemplateRaises", k_text,
     [](const auto& f) { write(f / "chat_template.jinja", "{{ raise_exception('not today') }}"); },
     "template", "not today"},
    {"TemplateIsNoJinja", k_text,
     [](const auto& f) { write(f / "chat_template.jinja", "{% for %}"); }, "template", ""},
};

struct Command {
  const char* name;
  unsigned reads;
  std::vector<std::string> (*words)(const TempFolder& temp);
};

std::vector<std::string> run_words(const TempFolder& temp) {
  return {test::binary("actor-node"),
          "run",
          "--plain",
          config("arithmetic_rlvr.yaml"),
          "output_dir=" + (temp.path() / "out").string(),
          "~model",
          "pretrain=" + (temp.path() / "model").string(),
          "max_steps=1",
          "prompt_length=104",
          "warm_start.steps=0",
          "actor_train.data_args.template=native"};
}

std::vector<std::string> sft_words(const TempFolder& temp) {
  write(temp.path() / "rows.jsonl", "{\"prompt\": \"1 + 1?\", \"response\": \"2\"}\n");
  const std::string rows = "[" + (temp.path() / "rows.jsonl").string() + "]";
  return {test::binary("actor-node"),
          "run",
          "--plain",
          config("sft_arithmetic.yaml"),
          "output_dir=" + (temp.path() / "out").string(),
          "~model",
          "pretrain=" + (temp.path() / "model").string(),
          "++max_steps=1",
          "eval_steps=-1",
          "sft_train.data_args.file_name=" + rows,
          "sft_train.data_args.template=native",
          "sft_train.training_args.per_device_train_batch_size=1",
          "sft_train.training_args.gradient_accumulation_steps=1",
          "sequence_length=256"};
}

std::vector<std::string> chat_words(const TempFolder& temp) {
  write(temp.path() / "lines", "hello\n");
  return {"sh",
          "-c",
          "exec \"$@\" < " + (temp.path() / "lines").string(),
          "sh",
          test::binary("actor-node"),
          "chat",
          (temp.path() / "model").string(),
          "--max-new-tokens",
          "4"};
}

std::vector<std::string> logprobs_words(const TempFolder& temp) {
  write(temp.path() / "rows.jsonl", "{\"ids\": [1, 2, 3]}\n");
  return {test::binary("actor-node"), "logprobs", (temp.path() / "model").string(),
          (temp.path() / "rows.jsonl").string()};
}

const Command k_commands[] = {{"run", k_text | k_model, run_words},
                              {"sft", k_text | k_model, sft_words},
                              {"chat", k_text | k_model, chat_words},
                              {"logprobs", k_model, logprobs_words}};

class BadFolder : public ::testing::TestWithParam<Case> {};

TEST_P(BadFolder, IsRefusedByEachCommandBeforeACardIsTouched) {
  const Case& x = GetParam();
  for (const Command& command : k_commands) {
    if ((command.reads & x.reads) == 0) continue;
    const TempFolder temp;
    tests::write_byte_model(temp.path() / "model");
    x.harm(temp.path() / "model");
    Process process(command.words(temp), temp);
    // To chat, what a template raises is the answer to one line (docs/models.md).
    const bool is_answer = x.name == std::string("TemplateRaises") && command.words == chat_words;
    EXPECT_EQ(process.wait(), is_answer ? 1 : 2)
        << command.name << ": " << process.err() << process.out();
    EXPECT_NE(process.err().find(x.file), std::string::npos)
        << command.name << ": " << process.err();
    EXPECT_NE(process.err().find(x.message), std::string::npos)
        << command.name << ": " << process.err();
    EXPECT_FALSE(fs::exists(temp.path() / "out")) << command.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadFolder, ::testing::ValuesIn(k_cases),
                         [](const auto& param) { return std::string(param.param.name); });

/// The row is named, and the one behind it is computed.
TEST(Logprobs, ARowThatIsNestedIsAnErrorOfTheRow) {
  const TempFolder temp;
  tests::write_byte_model(temp.path() / "model");
  const std::vector<std::string> words = logprobs_words(temp);
  const std::string brackets(400'000, '['), ends(400'000, ']');
  write(temp.path() / "rows.jsonl", "{\"ids\": [" + brackets + ends + "]}\n{\"ids\": [1, 2, 3]}\n");
  Process process(words, temp);
  EXPECT_EQ(process.wait(), 1) << process.err();
  EXPECT_NE(process.out().find("rows.jsonl:1: the row is nested too deeply"), std::string::npos)
      << process.out();
  EXPECT_NE(process.out().find("{\"logprobs\":["), std::string::npos) << process.out();
}

/// The same words, on a folder with nothing wrong in it.
TEST(GoodFolder, IsTakenByEachCommand) {
  for (const Command& command : k_commands) {
    const TempFolder temp;
    tests::write_byte_model(temp.path() / "model");
    Process process(command.words(temp), temp);
    EXPECT_EQ(process.wait(), 0) << command.name << ": " << process.err();
  }
}

}  // namespace
}  // namespace cohort
