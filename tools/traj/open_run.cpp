#include "tools/traj/open_run.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/stream/stream_file.hpp"

namespace cohort::traj {

Expected<stream::Reader> open_run(const std::string& run) {
  COHORT_ASSIGN(std::filesystem::path folder, stream::folder_of(run));
  return stream::Reader::open(folder);
}

Expected<proto::TrajectoryKey> parse_key(const std::string& text, proto::TrajectoryKind kind) {
  proto::TrajectoryKey key{kind, 0, 0, 0};
  const char* at = text.data();
  const char* end = at + text.size();
  auto number = [&](auto& value, bool is_last) {
    auto [next, code] = std::from_chars(at, end, value);
    bool is_ok = code == std::errc{} && (is_last ? next == end : next != end && *next == '/');
    at = is_last || !is_ok ? next : next + 1;
    return is_ok;
  };
  if (number(key.step, false) && number(key.group, false) && number(key.index, true)) return key;
  return Error{Errc::invalid_argument,
               fmt::format("'{}' is not STEP/GROUP/INDEX, e.g. 3/0/1", text)};
}

Expected<stream::Record> find_trajectory(stream::Reader& reader, const proto::TrajectoryKey& key,
                                         const std::string& run) {
  COHORT_ASSIGN(auto record, reader.find(key));
  if (record) return std::move(*record);
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  if (tell_losses(*index) > 0)
    return Error{Errc::corrupt, fmt::format("{}: no trajectory {} in what is left of the stream",
                                            run, proto::to_string(key))};
  return Error{Errc::not_found, fmt::format("{}: no trajectory {}; `traj ls` lists them", run,
                                            proto::to_string(key))};
}

uint64_t tell_losses(const stream::Index& index) {
  for (const stream::Damage& damage : index.damages())
    fmt::print(stderr, "traj: damage: {}\n", damage.describe());
  return index.damages().size();
}

Expected<void> to_result(uint64_t losses, uint64_t damaged, std::string_view what) {
  std::string text;
  if (damaged > 0) text = fmt::format("{} damaged {} left out", damaged, what);
  if (losses > 0)
    text += fmt::format(
        "{}the stream is damaged in {} place{}, and this is what is left; `traj verify` says more",
        text.empty() ? "" : "; ", losses, losses == 1 ? "" : "s");
  return text.empty() ? Expected<void>() : Error{Errc::corrupt, std::move(text)};
}

Expected<void> for_each_trajectory(
    stream::Reader& reader, const Choice& choice,
    const std::function<void(const stream::RecordInfo&, const proto::Trajectory&)>& f) {
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  const uint64_t losses = choice.is_quiet ? 0 : tell_losses(*index);
  uint64_t count = 0, damaged = 0;
  for (const stream::RecordInfo& info : index->trajectories()) {
    if ((choice.step && info.key.step != choice.step) ||
        (choice.kind && info.key.trajectory->kind != *choice.kind))
      continue;
    if (choice.limit != 0 && count == choice.limit) break;
    ++count;
    auto record = reader.read(info);
    auto trajectory = record ? record->trajectory() : Expected<proto::Trajectory>(record.error());
    if (trajectory) {
      f(info, *trajectory);
      continue;
    }
    ++damaged;
    if (!choice.is_quiet) fmt::print(stderr, "traj: left out: {}\n", trajectory.error().detail);
  }
  if (choice.step && count == 0 && losses == 0)
    return Error{Errc::not_found,
                 fmt::format("no trajectory{} is of step {}; `traj stats` lists the steps",
                             choice.kind ? fmt::format(" of kind {}", to_string(*choice.kind)) : "",
                             *choice.step)};
  return to_result(losses, damaged, "trajectories");
}

bool is_success(const proto::Trajectory& trajectory) {
  for (const auto& [name, value] : trajectory.metrics)
    if (name == proto::k_success) return value > 0;
  return trajectory.stop_reason == "goal";
}

std::string_view fate_of(const proto::Trajectory& x) {
  if (x.key.kind != proto::TrajectoryKind::train) return "";
  if (proto::is_left_out(x)) return "filtered";
  if (!x.mask_reason.empty()) return "masked";
  return x.is_greedy ? "baseline" : "trains";
}

std::string printable(std::string_view bytes) {
  using Json = nlohmann::json;
  std::string quoted = Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace cohort::traj
