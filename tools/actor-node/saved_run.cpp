#include "tools/actor-node/saved_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/config/load.hpp"
#include "runtime/job/policy.hpp"
#include "runtime/stream/stream_file.hpp"
#include "tools/actor-node/run_waits.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using observe::RunState;

constexpr size_t k_file_bytes_max = size_t{16} << 20, k_follow_batch = 4096;

/// Roles and budgets of plan.json's cards.
std::vector<observe::CardView> cards_of(const fs::path& folder) {
  std::map<uint32_t, observe::CardView> cards;
  const auto text = read_file(folder / "plan.json", k_file_bytes_max);
  const Json plan = text ? Json::parse(*text, nullptr, false) : Json();
  if (!plan.is_object()) return {};
  try {
    for (const Json& role : plan.value("roles", Json::array()))
      for (const Json& id : role.value("cards", Json::array())) {
        observe::CardView& card = cards[id.get<uint32_t>()];
        card.card = id.get<uint32_t>();
        card.role += (card.role.empty() ? "" : "+") + role.value("role", "");
        card.budget_bytes = plan.value("/peak/budget_bytes"_json_pointer, uint64_t{0});
      }
  } catch (const Json::exception&) {
    return {};  // of another version: the page goes without its cards
  }
  std::vector<observe::CardView> out;
  for (auto& [id, card] : cards) out.push_back(std::move(card));
  return out;
}

/// Whether a process of the run is there; one that was killed leaves its file of waits behind.
bool is_alive(const fs::path& folder) {
  return std::ranges::any_of(waits_files(waits_folder(folder)), [](const fs::path& file) {
    const auto waits = read_waits(file);
    return waits && process_started(waits->pid) == waits->started;
  });
}

/// Seconds from the start of the run to its last step, or to now if it goes on.
double seconds_of(const fs::path& folder, bool goes_on) {
  std::error_code failed;
  const auto begin = fs::last_write_time(folder / "config.yaml", failed);
  const auto end = goes_on ? fs::file_time_type::clock::now()
                           : fs::last_write_time(folder / "metrics.jsonl", failed);
  return failed ? 0 : std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

/// As actors::RunLog::phase shows a transition, from its record.
std::vector<observe::Transition> moves_of(const Json& record) {
  std::vector<observe::Transition> moves;
  for (const Json& card : record.value("cards", Json::array())) {
    const std::string verb = card.value("verb", "");
    if (verb == "begin_phase") continue;
    observe::Transition move;
    move.step = record.value("step", uint64_t{0});
    move.phase = record.value("phase", "");
    move.card = card.value("card", 0U);
    move.object = card.value("object", "");
    move.to = verb == "reshard" ? "card" : card.value("to", "");
    move.from = verb == "reshard" || move.to != "card" ? "card" : "host";
    const uint64_t on_card = card.value("bytes", uint64_t{0});
    const uint64_t moved = card.value("moved_bytes", uint64_t{0});
    move.bytes = verb == "reshard" ? moved : std::max(moved, on_card);
    move.start_s = card.value("start_s", 0.0);
    move.end_s = move.start_s + card.value("seconds", 0.0);
    moves.push_back(std::move(move));
  }
  return moves;
}

std::vector<std::pair<uint32_t, uint64_t>> peaks_of(const Json& record) {
  std::vector<std::pair<uint32_t, uint64_t>> peaks;
  const Json by_card = record.value("card_peak_bytes", Json::object());
  for (const auto& [card, bytes] : by_card.items())
    peaks.emplace_back(static_cast<uint32_t>(std::strtoul(card.c_str(), nullptr, 10)),
                       bytes.get<uint64_t>());
  return peaks;
}

}  // namespace

Expected<SavedRun> SavedRun::open(const fs::path& folder, observe::Board& board) {
  SavedRun run;
  std::error_code code;
  run.folder_ = fs::absolute(folder, code).lexically_normal();
  if (code || folder.empty())
    return Error{Errc::not_found, "'" + folder.string() + "' is no run folder"};
  if (!run.folder_.has_filename()) run.folder_ = run.folder_.parent_path();
  const fs::path config_file = run.folder_ / "config.yaml";
  auto yaml = read_file(config_file, k_file_bytes_max);
  if (!yaml) return yaml.error().with_context(folder.string() + " is no run folder");
  COHORT_ASSIGN(const config::RunConfig config,
                config::load_text(*yaml, config_file.string(), {}, {.check_files = false}));
  if (auto policy = job::policy_of(config))
    run.tokenizer_ = policy->tokenizer;
  else
    run.tokenizer_error_ = policy.error().detail;
  observe::RunView view;
  view.name = config.exp_name;
  view.total_steps = static_cast<uint64_t>(std::max<int64_t>(config.max_steps, 0));
  const bool goes_on = is_alive(run.folder_);
  view.started = now_seconds() - seconds_of(run.folder_, goes_on);
  view.ended = goes_on ? 0 : now_seconds();
  view.cards = cards_of(run.folder_);
  board.begin_run(std::move(view));
  board.set_folder(run.folder_.filename(), run.folder_, {}, {});
  run.follow(board);
  return run;
}

void SavedRun::follow(observe::Board& board) {
  follow_metrics(board);
  if (auto followed = follow_stream(board); !followed) {  // none yet, or not readable: it may come
    index_.reset();
    reader_.reset();
  }
  show_state(board);
}

/// Takes the whole lines behind those that have been read.
void SavedRun::follow_metrics(observe::Board& board) {
  std::ifstream in(folder_ / "metrics.jsonl", std::ios::binary | std::ios::ate);
  if (!in) return;
  // A run that goes on from a checkpoint has cut it back.
  metrics_read_ = std::min(metrics_read_, static_cast<uint64_t>(in.tellg()));
  in.seekg(static_cast<std::streamoff>(metrics_read_));
  std::vector<observe::MetricRow> rows;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    metrics_read_ += line.size() + 1;
    if (auto row = observe::MetricRow::from_json(line)) rows.push_back(std::move(*row));
  }
  if (!rows.empty()) board.add_rows(rows);
}

Expected<void> SavedRun::follow_stream(observe::Board& board) {
  if (!index_) {
    COHORT_ASSIGN(const fs::path folder, stream::folder_of(folder_));
    COHORT_ASSIGN(index_, StepIndex::open(folder));
    COHORT_ASSIGN(reader_, stream::Reader::open(folder));
  }
  for (bool is_at_end = false; !is_at_end;) {
    COHORT_ASSIGN(is_at_end, index_->follow(k_follow_batch));
  }
  for (const stream::RecordInfo& info : index_->recent_phases())
    if (info.number >= moves_shown_) COHORT_TRY(show_moves(board, info));
  for (const stream::RecordInfo& info : index_->recent_events())
    if (info.number >= events_shown_) COHORT_TRY(show_event(board, info));
  return {};
}

Expected<void> SavedRun::show_moves(observe::Board& board, const stream::RecordInfo& info) {
  moves_shown_ = info.number + 1;
  COHORT_ASSIGN(const stream::Record record, reader_->read(info));
  const Json json = Json::parse(record.text(), nullptr, false);
  if (!json.is_object()) return {};
  try {
    board.add_moves(moves_of(json));
    // The last one is the phase that goes on.
    board.set_stage("step", json.value("phase", ""), -1);
    board.set_peaks(peaks_of(json));
  } catch (const Json::exception&) {  // of another version: it is left out
  }
  return {};
}

Expected<void> SavedRun::show_event(observe::Board& board, const stream::RecordInfo& info) {
  events_shown_ = info.number + 1;
  COHORT_ASSIGN(const stream::Record record, reader_->read(info));
  const Json json = Json::parse(record.text(), nullptr, false);
  if (!json.is_object()) return {};
  observe::EventView event;
  event.step = info.key.step.value_or(0);
  try {
    event.kind = json.value("kind", "event");
    event.text = json.value("detail", "");
    const auto us = json.value("time_us", uint64_t{0});
    if (us > reader_->stream().created_us)
      event.time_s = 1e-6 * static_cast<double>(us - reader_->stream().created_us);
  } catch (const Json::exception&) {
    return {};
  }
  if (!event.text.empty()) board.add_event(std::move(event));
  return {};
}

void SavedRun::show_state(observe::Board& board) {
  std::error_code failed;
  const RunState state = is_alive(folder_)                             ? RunState::running
                         : fs::exists(folder_ / "report.html", failed) ? RunState::finished
                                                                       : RunState::failed;
  if (state_ == state) return;
  state_ = state;
  board.set_state(state, state == RunState::failed
                             ? "no process of it is on this host, and it wrote no report"
                             : "");
}

}  // namespace cohort
