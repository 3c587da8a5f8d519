/// Cohort's own keys: platform, cards, placement, warm start, recording, transport, recovery.
#include <array>

#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

constexpr double k_mib = 1024.0 * 1024.0;

void describe_cards(Visitor& v, CardsSection& c) {
  if (!v.enter({"cards", "placement", "What a card has."}, true)) return;
  v.key({"type", "plan",
         "Card type that `actor-node plan` counts with: 910A, A2, A3, H100, H200, A100-40, "
         "A100-80 or cpu; empty: follows from the platform."},
        c.type);
  v.bytes(
      {"memory_bytes", "placement", "Memory of a card; on the cpu platform its budget.", above(0)},
      c.memory_bytes);
  v.bytes({"reserve_bytes", "placement", "Part of it that no role object may take: work space."},
          c.reserve_bytes);
  v.key({"threads_per_card", "compute", "Threads that compute for a card of the cpu platform.",
         between(1, 1024)},
        c.threads_per_card);
  v.leave();
}

void describe_warm_start(Visitor& v, WarmStartSection& w) {
  if (!v.enter({"warm_start", "driver, trainer",
                "Supervised start on scripted play, before the first step; it has "
                "its own learning rate and is not counted in max_steps."},
               true))
    return;
  v.key({"steps", "driver", "Optimizer steps; 0: no warm start.", at_least(0)}, w.steps);
  v.key({"batch_size", "driver", "Trajectories of an optimizer step.", between(1, 1 << 20)},
        w.batch_size);
  v.key({"rounds", "driver",
         "The trajectories are played, recorded and delivered in so many rounds.", at_least(1)},
        w.rounds);
  v.key({"learning_rate", "trainer", "Peak learning rate.", above(0)}, w.learning_rate);
  v.key({"warmup_steps", "trainer", "Optimizer steps of linear warm-up.", at_least(0)},
        w.warmup_steps);
  v.key({"decay_fraction", "trainer",
         "Last share of the steps, over which the rate falls linearly to 0.", between(0, 1)},
        w.decay_fraction);
  v.key({"expert_fraction", "environments",
         "Probability that a scripted action is the shortest path's; else it "
         "is a uniform valid one.",
         between(0, 1)},
        w.expert_fraction);
  v.key({"expert_fraction_end", "driver",
         "expert_fraction holds for half of the rounds, goes linearly to this value "
         "over the next quarter, and stays there; ~: it never changes.",
         between(0, 1)},
        w.expert_fraction_end);
  v.leave();
}

void describe_async(Visitor& v, AsyncSection& a) {
  if (v.enter({"async", "driver", "Generation beside training (docs/async.md)."}, true)) {
    v.key({"mode", "driver",
           "sync: they take turns; one_step_off: which policy plays a step is fixed; fully_async: "
           "rollouts play on across new policies."},
          a.mode);
    v.key(
        {"depth", "driver", "Steps that are played before the one that trains.", between(0, 1024)},
        a.depth);
    v.key(
        {"bound", "driver", "Steps that a trained token may be old, at most. 0: depth, rounded up.",
         between(0, 1024)},
        a.bound);
    v.key({"keep_kv_cache", "actor_infer",
           "fully_async: a trajectory that goes on with new weights keeps the KV of the old ones. "
           "false: its tokens are computed again."},
          a.keep_kv_cache);
    v.key({"schedule", "driver",
           "fully_async: a run folder. The policies that sampled its tokens sample them again, so "
           "that this run has its parameter hashes."},
          a.schedule);
    v.leave();
  }
}

/// From where a run learns and what watches over it. A resolved config names it if it is set.
void describe_watch(Visitor& v, RunConfig& c) {
  const RunConfig plain;
  const auto is_told = [&](bool is_set) { return is_set || !v.is_writing(); };
  if (is_told(!c.from_stream.empty()))
    v.nullable_text({"from_stream", "driver",
                     "Run or stream folder whose recorded trajectories train the policy; no "
                     "rollout plays (docs/replay.md)."},
                    c.from_stream);
  if (is_told(c.from_stream_paced))
    v.key({"from_stream_paced", "driver",
           "from_stream: a trajectory comes so long after its lease as it was generated and played "
           "for when it was recorded; false: at once."},
          c.from_stream_paced);
  if (is_told(c.record_only))
    v.key({"record_only", "driver",
           "Rollouts play and are recorded; after the warm start nothing is trained "
           "(docs/replay.md)."},
          c.record_only);
  if (is_told(!c.self_checks))
    v.key({"self_checks", "driver",
           "The first update's numbers are held against what a healthy run shows "
           "(docs/self_checks.md)."},
          c.self_checks);
  TelemetrySection& t = c.telemetry;
  if (!is_told(t != plain.telemetry) ||
      !v.enter({"telemetry", "observe", "What a run tells other tools (docs/telemetry.md)."}, true))
    return;
  v.nullable_text(
      {"otlp_endpoint", "observe",
       "http://HOST:PORT of a collector that takes OTLP/HTTP JSON; ~: nothing is sent."},
      t.otlp_endpoint);
  v.key({"otlp_headers", "observe", "HTTP headers of each request, name and value."},
        t.otlp_headers);
  v.key({"interval_s", "observe", "Time between two requests.", above(0)}, t.interval_s);
  v.key({"answer_steps", "observe",
         "TensorBoard has a prompt, its answer and its reward every so many steps. 0: never.",
         at_least(0)},
        t.answer_steps);
  static constexpr std::array<std::string_view, 4> k_names = {"auto", "cohort", "roll", "verl"};
  v.one_of({"metric_names", "observe",
            "Rows have the names of ROLL or verl too, where they mean the same; auto: those of the "
            "config's dialect; cohort: none."},
           k_names, t.metric_names);
  v.leave();
}

void describe_recording(Visitor& v, RecordingSection& r) {
  if (!v.enter({"recording", "stream", "The trajectory stream."}, true)) return;
  v.key({"enabled", "stream", "Every trajectory is in the stream before it is acknowledged."},
        r.enabled);
  v.bytes({"segment_bytes", "stream", "Size of a segment file.", at_least(k_mib)}, r.segment_bytes);
  static constexpr std::array<std::string_view, 2> k_compressions = {"none", "zstd"};
  v.one_of({"compression", "stream",
            "zstd: records are packed, games to half their bytes and long answers to 0.7; older "
            "programs cannot read such a stream (docs/stream.md)."},
           k_compressions, r.compression);
  v.leave();
}

}  // namespace

void describe_plugin(Visitor& v, PluginSection& p, std::string_view reader) {
  v.nullable_text({"plugin", reader,
                   "type or env_type plugin: path.py:name or path.so, from the working directory."},
                  p.path);
  v.json_map({"args", reader, "Its own options (docs/rewards.md, docs/plugins.md)."}, p.args);
  describe_plugin_process(v, p, reader);
}

void describe_plugin_process(Visitor& v, PluginSection& p, std::string_view reader) {
  v.key({"timeout_s", reader,
         "Deadline of one answer, which is masked then, of one reset or step, or of a tool's call.",
         above(0)},
        p.timeout_s);
  v.key({"workers", reader, "Child processes, or requests at once.", between(1, 256)}, p.workers);
  v.nullable_text({"python", reader, "Interpreter of a plugin; ~: /usr/bin/python3."}, p.python);
  if (!v.enter({"sandbox", reader, "What the child processes may do."},
               p.sandbox != SandboxSection{} || v.is_listing()))
    return;
  v.key({"mode", reader,
         "bubblewrap isolates; rlimits only limits, for machines without user namespaces."},
        p.sandbox.mode);
  v.key({"network", reader, "May open connections."}, p.sandbox.network);
  v.key({"readable", reader, "Folders it may read beyond the system's."}, p.sandbox.readable);
  v.bytes({"memory", reader, "Address space of one process."}, p.sandbox.memory_bytes);
  v.leave();
}

void describe_runtime(Visitor& v, RunConfig& c) {
  v.key({"platform", "placement, compute",
         "What a card is. cuda and npu need the backend and a device: docs/devices.md."},
        c.platform);
  v.key({"determinism", "everything",
         "strict: two runs of one config give the same parameter hash after every "
         "step, and what cannot promise it is refused; relaxed: not promised."},
        c.determinism);
  describe_cards(v, c.cards);
  if (v.enter({"placement", "placement", "Who shares cards, and what leaves them."}, true)) {
    v.key({"mode", "placement",
           "separate: train and infer roles never share a card. timeshare: they share cards and "
           "take turns."},
          c.placement.mode);
    v.key({"offload", "placement",
           "never: objects stay on their cards; step: each role's objects leave when its "
           "phase ends."},
          c.placement.offload);
    v.key({"init_cache", "placement",
           "late: the KV cache comes when what trains has left its cards, which keeps the peak "
           "low; early: with the weights."},
          c.placement.init_cache);
    v.leave();
  }
  describe_async(v, c.async);
  describe_warm_start(v, c.warm_start);
  describe_recording(v, c.recording);
  describe_watch(v, c);
  if (v.enter({"transport", "transport", "Bounds of a data link."}, true)) {
    v.bytes({"credit_bytes", "transport", "What a consumer grants each producer.", at_least(k_mib)},
            c.transport.credit_bytes);
    v.bytes({"chunk_bytes", "transport", "Frames are cut to this.", between(4096, 64 * k_mib)},
            c.transport.chunk_bytes);
    v.bytes({"queue_bytes", "transport",
             "What a producer holds, sent and not acknowledged or waiting.", at_least(k_mib)},
            c.transport.queue_bytes);
    v.leave();
  }
  if (v.enter({"recovery", "driver", "What is done about work that does not come back."}, true)) {
    v.key({"straggler_factor", "driver",
           "A group open for longer than so many times its round's median is played by an idle "
           "rollout too; the first counts. 0: never.",
           at_least(0)},
          c.recovery.straggler_factor);
    v.key({"straggler_floor_s", "driver", "A younger group is never late.", at_least(0)},
          c.recovery.straggler_floor_s);
    v.key({"group_timeout_s", "driver",
           "A rollout with open groups and without a token or turn for so long is ended and "
           "counts as lost (docs/leases.md). 0: never.",
           at_least(0)},
          c.recovery.group_timeout_s);
    v.leave();
  }
  v.key({"micro_batch_tokens", "trainer",
         "Packed tokens of one forward and backward pass; a longer trajectory goes alone.",
         between(1, 1 << 24)},
        c.micro_batch_tokens);
  v.key({"max_running_requests", "rollout", "Trajectories that generate at once on an infer card.",
         between(1, 1 << 20)},
        c.max_running_requests);
}

}  // namespace cohort::config
