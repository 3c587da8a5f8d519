#pragma once
/// The frames between a supervisor and its plugin child, over two pipes:
///   u32 size of the rest | u32 number of the call | u8 kind | payload
/// little-endian; a text is u32 size + bytes. The child answers each call with frames of the same
/// number. Values; bound: k_max_frame_bytes. FRAME-1: a reader never reads beyond the bytes it was
/// given; malformed input turns into Errc::protocol.
/// Payloads:
///   load     JSON {"kind": "reward"|"environment"|"tool", "path", "name", "source", "args",
///            "timeout_s", "output_bytes_max", "schema"}
///   score    u32 count, count rows: 7 texts as in RewardRow, u32 response_tokens, u8 is_finished
///   reset    u64 world, u64 seed          step   u64 world, answer          close   u64 world
///   call     the arguments of a tool, a JSON object
///   loaded   JSON {"name", "form", "is_batch", "is_concurrent", "schema", …}
///   results  u32 first row, u32 count, count results: f64 score, u8 Verdict, text detail,
///            text error, u32 parts, parts: text name, f64
///   world    f64 reward, u8 flags (1 done, 2 valid, 4 effective, 8 success), i32 actions_left,
///            texts observation, stop_reason, event, instructions, u32 metrics: text name, f64
///   output   what a tool says, a text
///   failed   u8 Verdict, u8 Errc, text: the whole call failed
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/text_environment.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

constexpr size_t k_frame_head_bytes = 9;
constexpr size_t k_max_frame_bytes = size_t{64} << 20;

enum class Op : uint8_t { load = 1, score = 2, reset = 3, step = 4, close = 5, call = 6 };
enum class Answer : uint8_t { loaded = 1, results = 2, failed = 3, world = 4, output = 5 };
enum class Verdict : uint8_t {
  scored = 0,
  raised = 1,  // worth one more try
  refused = 2  // an answer outside the contract: asking again gives the same
};

struct Frame {
  uint32_t number = 0;  // of the call
  uint8_t kind = 0;     // Op or Answer
  std::string payload;
};

struct RowResult {
  Verdict verdict = Verdict::scored;
  tasks::RewardResult result;
};

struct Results {
  uint32_t first = 0;
  std::vector<RowResult> rows;
};

struct World {
  tasks::StepResult step;
  int actions_left = -1;  // -1: not known
  std::string instructions;
  tasks::EpisodeMetrics metrics;
};

struct Failure {
  Verdict verdict = Verdict::raised;
  Errc code = Errc::compute;
  std::string reason;
};

using tasks::without_score;

/// Reads number and kind from the k_frame_head_bytes at `head`. Returns the payload's size, nothing
/// if it is no frame's.
std::optional<size_t> read_head(const char* head, Frame& frame);
/// Returns the bytes of a frame.
std::string frame_bytes(uint32_t number, uint8_t kind, std::string_view payload);

std::string rows_payload(std::span<const tasks::RewardRow* const> rows);
std::string results_payload(const Results& results);
std::string world_payload(const World& world);
std::string failure_payload(const Failure& failure);
std::string reset_payload(uint64_t world, uint64_t seed);
std::string step_payload(uint64_t world, const tasks::PolicyAnswer& answer);
std::string close_payload(uint64_t world);

Expected<std::vector<tasks::RewardRow>> read_rows(std::string_view payload);
Expected<Results> read_results(std::string_view payload);
Expected<World> read_world(std::string_view payload);
Expected<Failure> read_failure(std::string_view payload);
struct WorldCall {
  uint64_t world = 0;
  uint64_t seed = 0;
  tasks::PolicyAnswer answer;
};
Expected<WorldCall> read_world_call(Op op, std::string_view payload);

}  // namespace cohort::plugin
