// make_stream FOLDER [zstd]: a stream of known records, packed or not, with every field and column
// that a trajectory has.
// The script make_stream builds it against this version or an older one, so fields are filled where
// the version has them. tests/golden/stream_versions_test.cpp reads what they wrote.
#include <cstdio>
#include <string>
#include <string_view>

#include "runtime/stream/writer.hpp"

namespace {

using namespace cohort;

template <class Part>
Part part_of(std::string name, double value, double weight) {
  Part part;
  part.name = std::move(name);
  part.value = value;
  part.weight = weight;
  if constexpr (requires { part.detail; }) part.detail = "pred 18";
  return part;
}

template <class T>
void fill_newer_fields(T& x) {
  if constexpr (requires { x.mask_reason; }) x.mask_reason = "filtered: no signal";
  if constexpr (requires { x.data_source; }) x.data_source = "gsm8k";
  if constexpr (requires { x.ground_truth; }) x.ground_truth = "18";
  if constexpr (requires { x.is_greedy; }) x.is_greedy = true;
  if constexpr (requires { x.teacher_logp; })
    for (size_t i = 0; i < x.tokens.size(); ++i)
      x.teacher_logp.push_back(-0.25F * static_cast<float>(i));
}

proto::Trajectory trajectory(uint64_t step, uint32_t group, uint32_t index, bool is_full) {
  proto::Trajectory x;
  x.run_id = "golden";
  x.key = {is_full ? proto::TrajectoryKind::val : proto::TrajectoryKind::train, step, group, index};
  x.attempt = is_full ? 2 : 0;
  x.tag = "FrozenLake";
  x.seed = 0x8000000000000001;
  x.prompt_id = "lake-7";
  x.weight_version_min = step;
  x.weight_version_max = step + 1;
  x.stop_reason = is_full ? std::string("length \xff") : "goal";  // no text of UTF-8
  x.generate_seconds = 0.125;
  x.env_seconds = 1e-9;
  x.score = -2.5;
  using Part = std::decay_t<decltype(x.reward_parts.front())>;
  x.reward_parts = {part_of<Part>("math/acc", 0.25, 2), part_of<Part>("len", -0.5, 0)};
  x.metrics = {{"success", 1.0}, {"moves", 7.0}};
  for (int i = 0; i < 12; ++i) {
    const auto f = static_cast<float>(i);
    x.tokens.push_back(i * 1000 - 1);
    x.response_mask.push_back(i >= 6 ? 1 : 0);
    x.behavior_logp.push_back(-0.5F * f);
    if (!is_full) continue;
    x.ref_logp.push_back(-0.75F * f);
    x.values.push_back(0.1F * f);
    x.token_rewards.push_back(1 / (1 + f));
    x.token_versions.push_back(static_cast<uint32_t>(step) + (i >= 9 ? 1 : 0));
  }
  x.turns = {{2, 6, 0.5F, true, false, "P_O\nG__", "<answer>Right</answer>"},
             {8, 12, -1, false, true, "_PO\nG__", "né"}};
  if (is_full) fill_newer_fields(x);
  return x;
}

template <class Options>
void pack_records(Options& options) {
  if constexpr (requires { options.compression; }) options.compression = stream::Compression::zstd;
}

int write(const char* folder, bool is_packed) {
  stream::WriterOptions options;
  if (is_packed) pack_records(options);
  options.run_id = "golden";
  options.preallocate = false;
  auto writer = stream::Writer::open(folder, options);
  if (!writer) return std::fprintf(stderr, "make_stream: %s\n", writer.error().detail.c_str()), 1;
  using stream::RecordType;
  bool is_written = true;
  const auto json = [&](RecordType type, std::string_view text) {
    is_written = is_written && writer->append_json(type, text).has_value();
  };
  json(RecordType::run_config, R"({"run_id":"golden","yaml":"seed: 1\n"})");
  json(RecordType::plan, R"({"cards":2})");
  for (uint64_t step = 1; step <= 2; ++step) {
    json(RecordType::phase, "{\"step\":" + std::to_string(step) + ",\"phase\":\"generate\"}");
    for (uint32_t i = 0; i < 4; ++i)
      is_written = is_written &&
                   writer->append_trajectory(trajectory(step, i / 2, i % 2, i == 3)).has_value();
    json(RecordType::step_result, "{\"step\":" + std::to_string(step) + ",\"loss\":0.5}");
  }
  proto::Trajectory again = trajectory(1, 0, 0, false);
  again.attempt = 1;
  is_written = is_written && writer->append_trajectory(again).has_value();
  json(RecordType::weight_version, R"({"step":2,"version":3,"hash":"00ff"})");
  json(RecordType::advantages, R"({"step":2,"mean":0.0})");
  json(RecordType::event, R"({"kind":"lost","text":"card 1"})");
  json(RecordType::checkpoint, R"({"step":2,"path":"checkpoints/step_2"})");
  return is_written && writer->close() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_packed = argc == 3 && std::string_view(argv[2]) == "zstd";
  if (argc != 2 && !is_packed) return std::fprintf(stderr, "usage: make_stream FOLDER [zstd]\n"), 2;
  return write(argv[1], is_packed);
}
