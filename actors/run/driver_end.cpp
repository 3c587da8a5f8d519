// The driver's checkpoints and the end of the run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/run/driver_actor.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/base/log.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

using namespace control;

std::string DriverState::state_json(const std::string& stage) const {
  return nlohmann::json{{"format", 1},
                        {"stage", stage},
                        {"step", step_},
                        {"version", version_},
                        {"warm_round", warm_round_},
                        {"trajectories", trajectories_},
                        {"run_id", options_.run_id},
                        {"seed", options_.config.seed},
                        {"tasks", options_.tasks->state()}}
      .dump();
}

void DriverState::checkpoint(const std::string& folder, Next next) {
  phase_ = "checkpoint";
  bool is_warm = folder.starts_with("warm_");
  CheckpointRequest request{step_, options_.run_folder + "/checkpoints/" + folder,
                            state_json(is_warm ? "warm_start" : "policy")};
  send_request(
      self_, options_.recorder, std::chrono::milliseconds(options_.request_timeout_ms),
      [this, request, next](bool) {
        ask(
            "actor_train", options_.trainer,
            [this, next](const CheckpointReport& report) {
              log::info("checkpoint {} ({:.3f} s)", report.folder, report.seconds);
              record(static_cast<uint16_t>(stream::RecordType::checkpoint),
                     nlohmann::json{{"step", step_},
                                    {"folder", report.folder},
                                    {"param_hash", fmt::format("{:016x}", report.param_hash)},
                                    {"seconds", report.seconds}}
                         .dump());
              prune_checkpoints();
              next();
            },
            save_atom_v, request);
      },
      [this](caf::error& e) { on_fail(failure_of("recorder", "checkpoint", e)); }, flush_atom_v);
}

// The newest keep_checkpoints stay; step_0 stays always, because it is the reference's policy.
void DriverState::prune_checkpoints() {
  auto keep = static_cast<size_t>(options_.config.keep_checkpoints);
  if (keep == 0) return;
  std::vector<Checkpoint> found = list_checkpoints(options_.run_folder);
  std::erase_if(found, [](const Checkpoint& c) { return c.is_policy && c.number == 0; });
  for (size_t i = 0; i + keep < found.size(); ++i) {
    std::error_code ignored;
    std::filesystem::remove_all(found[i].folder, ignored);
  }
}

void DriverState::record(uint16_t type, const std::string& json) {
  send_request(
      self_, options_.recorder, std::chrono::milliseconds(options_.request_timeout_ms), [](bool) {},
      [this](caf::error& e) { on_fail(failure_of("recorder", phase_, e)); }, record_atom_v, type,
      json);
}

void DriverState::finish(bool is_stopped) {
  phase_ = "end";
  send_request(
      self_, options_.recorder, std::chrono::milliseconds(options_.request_timeout_ms),
      [this, is_stopped](bool) {
        RunResult result = result_;
        result.is_ok = true;
        result.is_stopped = is_stopped;
        end(std::move(result));
      },
      [this](caf::error& e) { on_fail(failure_of("recorder", "end", e)); }, flush_atom_v);
}

void DriverState::end(RunResult result) {
  if (is_over_) return;
  is_over_ = true;
  result.param_hash = param_hash_;
  result.trajectories = trajectories_;
  options_.on_end(std::move(result));
}

DriverActor::behavior_type driver(DriverActor::stateful_pointer<DriverState> self,
                                  DriverOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  DriverState* state = &self->state;
  return {
      [state](start_atom) { state->on_start(); },
      [state](stop_atom) { state->on_stop(); },
      [state](fail_atom, const Failure& failure) { state->on_told(failure); },
      [state](notice_atom, const std::string& role, const std::string& text) {
        state->on_notice(role, text);
      },
      [state](lost_atom, const CardsLost& lost) { state->on_lost(lost); },
      [state](back_atom, const CardsBack& back) { state->on_back(back); },
      [state](leave_atom, const CardsLost& leaving, uint32_t wait_ms) {
        return state->on_leave(leaving, wait_ms);
      },
      [state](watch_atom, uint64_t number) { state->on_watch(number); },
      [state](ping_atom) { state->on_ping(); },
  };
}

}  // namespace cohort::actors
