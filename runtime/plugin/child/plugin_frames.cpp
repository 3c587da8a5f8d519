#include "runtime/plugin/child/plugin_frames.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace cohort::plugin {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are written as they lie");

class Writer {
 public:
  template <class T>
  void number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
  }
  void raw(std::string_view value) { bytes_.append(value); }
  void numbers(const std::vector<std::pair<std::string, double>>& named) {
    number(static_cast<uint32_t>(named.size()));
    for (const auto& [name, value] : named) {
      text(name);
      number(value);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads until the bytes end; after that is_good() is false and every value is empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value{};
    if (take(sizeof value)) std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::string text() {
    auto size = number<uint32_t>();
    return take(size) ? std::string(bytes_.substr(at_ - size, size)) : std::string();
  }
  std::string rest() {
    std::string found(bytes_.substr(at_));
    at_ = bytes_.size();
    return found;
  }
  std::vector<std::pair<std::string, double>> numbers() {
    std::vector<std::pair<std::string, double>> found;
    auto count = number<uint32_t>();
    for (uint32_t i = 0; i < count && is_good_; ++i) {
      std::string name = text();
      found.emplace_back(std::move(name), number<double>());
    }
    return found;
  }
  bool is_good() const { return is_good_; }
  bool is_whole() const { return is_good_ && at_ == bytes_.size(); }

 private:
  bool take(size_t count) {
    is_good_ = is_good_ && bytes_.size() - at_ >= count;
    if (is_good_) at_ += count;
    return is_good_;
  }
  std::string_view bytes_;
  size_t at_ = 0;
  bool is_good_ = true;
};

Error garbage(const char* what) {
  return {Errc::protocol, std::string("answered garbage: ") + what + " that does not parse"};
}

Expected<Verdict> verdict_of(uint8_t value) {
  if (value > static_cast<uint8_t>(Verdict::refused)) return garbage("a verdict");
  return static_cast<Verdict>(value);
}

}  // namespace

std::optional<size_t> read_head(const char* head, Frame& frame) {
  uint32_t size = 0;
  std::memcpy(&size, head, sizeof size);
  std::memcpy(&frame.number, head + sizeof size, sizeof frame.number);
  frame.kind = static_cast<uint8_t>(head[k_frame_head_bytes - 1]);
  return size < 5 || size > k_max_frame_bytes ? std::nullopt : std::optional<size_t>(size - 5);
}

std::string frame_bytes(uint32_t number, uint8_t kind, std::string_view payload) {
  Writer out;
  out.number(static_cast<uint32_t>(payload.size() + 5));
  out.number(number);
  out.number(kind);
  out.raw(payload);
  return out.take();
}

std::string rows_payload(std::span<const tasks::RewardRow* const> rows) {
  Writer out;
  out.number(static_cast<uint32_t>(rows.size()));
  for (const tasks::RewardRow* row : rows) {
    for (const std::string* text : {&row->id, &row->response, &row->prompt, &row->messages,
                                    &row->ground_truth, &row->data_source, &row->columns})
      out.text(*text);
    out.number(row->response_tokens);
    out.number(static_cast<uint8_t>(row->is_finished ? 1 : 0));
  }
  return out.take();
}

Expected<std::vector<tasks::RewardRow>> read_rows(std::string_view payload) {
  Reader in(payload);
  auto count = in.number<uint32_t>();
  std::vector<tasks::RewardRow> rows;
  for (uint32_t i = 0; i < count && in.is_good(); ++i) {
    tasks::RewardRow& row = rows.emplace_back();
    for (std::string* text : {&row.id, &row.response, &row.prompt, &row.messages, &row.ground_truth,
                              &row.data_source, &row.columns})
      *text = in.text();
    row.response_tokens = in.number<uint32_t>();
    row.is_finished = in.number<uint8_t>() != 0;
  }
  if (!in.is_whole()) return garbage("rows");
  return rows;
}

std::string results_payload(const Results& results) {
  Writer out;
  out.number(results.first);
  out.number(static_cast<uint32_t>(results.rows.size()));
  for (const RowResult& row : results.rows) {
    out.number(row.result.score);
    out.number(static_cast<uint8_t>(row.verdict));
    out.text(row.result.detail);
    out.text(row.result.error);
    out.numbers(row.result.parts);
  }
  return out.take();
}

Expected<Results> read_results(std::string_view payload) {
  Reader in(payload);
  Results found{.first = in.number<uint32_t>(), .rows = {}};
  auto count = in.number<uint32_t>();
  for (uint32_t i = 0; i < count && in.is_good(); ++i) {
    RowResult& row = found.rows.emplace_back();
    row.result.score = in.number<double>();
    COHORT_ASSIGN(row.verdict, verdict_of(in.number<uint8_t>()));
    row.result.detail = in.text();
    row.result.error = in.text();
    row.result.parts = in.numbers();
  }
  if (!in.is_whole()) return garbage("results");
  return found;
}

std::string world_payload(const World& world) {
  const tasks::StepResult& step = world.step;
  Writer out;
  out.number(static_cast<double>(step.reward));
  out.number(static_cast<uint8_t>((step.is_done ? 1 : 0) | (step.is_valid ? 2 : 0) |
                                  (step.is_effective ? 4 : 0) | (step.is_success ? 8 : 0)));
  out.number(static_cast<int32_t>(world.actions_left));
  for (const std::string* text :
       {&step.observation, &step.stop_reason, &step.event, &world.instructions})
    out.text(*text);
  out.numbers(world.metrics);
  return out.take();
}

Expected<World> read_world(std::string_view payload) {
  Reader in(payload);
  World world;
  world.step.reward = static_cast<float>(in.number<double>());
  auto flags = in.number<uint8_t>();
  world.step.is_done = (flags & 1) != 0;
  world.step.is_valid = (flags & 2) != 0;
  world.step.is_effective = (flags & 4) != 0;
  world.step.is_success = (flags & 8) != 0;
  world.actions_left = in.number<int32_t>();
  for (std::string* text :
       {&world.step.observation, &world.step.stop_reason, &world.step.event, &world.instructions})
    *text = in.text();
  world.metrics = in.numbers();
  if (!in.is_whole()) return garbage("a world");
  return world;
}

std::string failure_payload(const Failure& failure) {
  Writer out;
  out.number(static_cast<uint8_t>(failure.verdict));
  out.number(static_cast<uint8_t>(failure.code));
  out.text(failure.reason);
  return out.take();
}

Expected<Failure> read_failure(std::string_view payload) {
  Reader in(payload);
  Failure found;
  COHORT_ASSIGN(found.verdict, verdict_of(in.number<uint8_t>()));
  auto code = in.number<uint8_t>();
  if (code == 0 || code > static_cast<uint8_t>(Errc::denied)) return garbage("an error code");
  found.code = static_cast<Errc>(code);
  found.reason = in.text();
  if (!in.is_whole()) return garbage("a failure");
  return found;
}

std::string reset_payload(uint64_t world, uint64_t seed) {
  Writer out;
  out.number(world);
  out.number(seed);
  return out.take();
}

std::string step_payload(uint64_t world, const tasks::PolicyAnswer& answer) {
  Writer out;
  out.number(world);
  out.number(answer.prompt_tokens);
  out.number(answer.tokens);
  out.number(static_cast<uint8_t>(answer.is_cut));
  out.raw(answer.text);
  return out.take();
}

std::string close_payload(uint64_t world) {
  Writer out;
  out.number(world);
  return out.take();
}

Expected<WorldCall> read_world_call(Op op, std::string_view payload) {
  Reader in(payload);
  WorldCall call;
  call.world = in.number<uint64_t>();
  if (op == Op::reset) call.seed = in.number<uint64_t>();
  if (op == Op::step) {
    call.answer.prompt_tokens = in.number<uint32_t>();
    call.answer.tokens = in.number<uint32_t>();
    call.answer.is_cut = in.number<uint8_t>() != 0;
    call.answer.text = in.rest();
  }
  if (!in.is_whole()) return garbage("a call");
  return call;
}

}  // namespace cohort::plugin
