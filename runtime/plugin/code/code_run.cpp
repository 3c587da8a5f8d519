#include "runtime/plugin/code/code_run.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

namespace cohort::plugin {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration seconds(double x) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(x));
}

// How often the memory of a sandbox is looked at; a process of it may have filled this much time.
constexpr int k_look_ms = 20;
// A helper's time for its report, beyond the time of a case.
constexpr double k_grace_s = 1;

/// An answer's sandbox, and why it is gone.
class Answer {
 public:
  Answer(CodePool& pool, const CodeRunOptions& options) : pool_(pool), options_(options) {}
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() {
    if (link_ != nullptr) pool_.end(std::move(link_));
  }

  Expected<void> start(const CodeFrame& job) {
    COHORT_ASSIGN(link_, pool_.take_sample());
    link_->push(job);
    link_->transfer();
    pool_.prepare_sample();
    next_look_ = Clock::now() + std::chrono::milliseconds(k_look_ms);
    return {};
  }

  CodeLink& link() { return *link_; }
  bool is_lost() const { return !fault_.empty(); }
  const std::string& fault() const { return fault_; }

  /// Ends the sandbox for `why`, unless it has ended for another reason.
  void kill(std::string why) {
    if (is_lost()) return;
    fault_ = std::move(why);
    link_->process().kill();
  }

  /// Waits for something to do until `limit`; `other` is waited for too.
  void wait(Clock::time_point limit, CodeLink* other) {
    auto now = Clock::now();
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - now).count() + 1;
    wait_for(link_.get(), other,
             static_cast<int>(std::clamp<int64_t>(left, 0, int64_t{k_look_ms})));
    look();
  }

 private:
  void look() {
    if (is_lost()) return;
    if (link_->is_broken()) return kill("the answer's process wrote over its harness");
    if (!link_->is_open()) return note_end();
    if (Clock::now() < next_look_) return;
    next_look_ = Clock::now() + std::chrono::milliseconds(k_look_ms);
    // Something it has left behind may hold the pipe open.
    if (link_->process().poll_status() >= 0) {
      link_->transfer();
      return note_end();
    }
    if (link_->process().memory_bytes() > options_.memory_bytes)
      kill(fmt::format("memory limit: more than {} MiB", options_.memory_bytes >> 20));
  }

  /// The pipe is closed: it has ended, or is about to.
  void note_end() {
    auto limit = Clock::now() + seconds(k_grace_s);
    int status = link_->process().poll_status();
    while (status < 0 && Clock::now() < limit) {
      wait_for(nullptr, nullptr, 1);
      status = link_->process().poll_status();
    }
    fault_ = status < 0
                 ? "crash: the answer closed its harness's pipe"
                 : fmt::format("crash: the answer ended its process, {}", describe_status(status));
  }

  CodePool& pool_;
  const CodeRunOptions& options_;
  std::unique_ptr<CodeLink> link_;
  Clock::time_point next_look_;
  std::string fault_;
};

std::string shown_seconds(double x) { return fmt::format("{:g} s", x); }

std::string first_line(std::string_view text) {
  constexpr size_t k_shown = 300;
  return std::string(text.substr(0, std::min(text.find('\n'), k_shown)));
}

/// "memory limit in case 2: …" from "memory limit: …".
std::string in_case(std::string_view fault, size_t index) {
  size_t colon = std::min(fault.find(": "), fault.size());
  return fmt::format("{} in case {}{}", fault.substr(0, colon), index + 1, fault.substr(colon));
}

// ---- programs: input in, output out ---------------------------------------------------------

/// The harness's report of one case.
struct Ending {
  bool is_timeout = false;
  int status = 0;
  std::string_view out, note, err;
};

class ProgramRun {
 public:
  ProgramRun(const CodeTask& task, CodePool& pool, const CodeRunOptions& options)
      : task_(task), options_(options), answer_(pool, options) {}

  CodeVerdict run() {
    auto end = Clock::now() + seconds(options_.timeout_s);
    if (Expected<void> started = answer_.start(job()); !started)
      return {0, "", started.error().to_string()};
    auto case_end = next_end(end);
    while (done_ < task_.cases.size() && !is_over_) {
      while (std::optional<CodeFrame> frame = answer_.link().pop()) {
        take(*frame);
        case_end = next_end(end);
        if (is_over_ || done_ == task_.cases.size()) return verdict_;
      }
      if (answer_.is_lost()) return fail(in_this_case(answer_.fault()));
      if (Clock::now() >= case_end) answer_.kill(late(end));
      if (!answer_.is_lost()) answer_.wait(case_end, nullptr);
    }
    return verdict_;
  }

 private:
  bool is_compiling() const { return task_.language == CodeLanguage::cpp && !is_compiled_; }
  double limit_s() const {
    return is_compiling() ? options_.compile_timeout_s : options_.case_timeout_s;
  }

  /// The harness keeps the time itself; this is for when it has been made not to.
  Clock::time_point next_end(Clock::time_point end) const {
    return std::min(end, Clock::now() + seconds(limit_s() + k_grace_s));
  }

  std::string late(Clock::time_point end) const {
    if (Clock::now() >= end)
      return fmt::format("timeout: {} for all cases", shown_seconds(options_.timeout_s));
    return "timeout: after " + shown_seconds(limit_s());
  }

  bool is_session() const { return task_.kind == CaseKind::session; }
  std::string in_this_case(const std::string& fault) {
    verdict_.is_timeout = fault.starts_with("timeout");
    return is_session() ? fault : in_case(fault, done_);
  }

  CodeFrame job() const {
    std::string time = fmt::format("{}", options_.case_timeout_s),
                size = std::to_string(options_.max_output_bytes);
    CodeFrame frame{is_session() ? 'T' : 'S', {task_.code, time, size}};
    if (task_.language == CodeLanguage::cpp) {
      std::string compiler;
      for (const std::string& word : options_.compiler) compiler += word + '\0';
      frame.letter = 'C';
      frame.fields.insert(frame.fields.end(), {fmt::format("{}", options_.compile_timeout_s),
                                               compiler + "-o" + '\0' + "a.out" + '\0' + "a.cpp"});
    }
    for (const CodeCase& x : task_.cases) frame.fields.push_back(x.input);
    return frame;
  }

  CodeVerdict fail(std::string what) {
    if (verdict_.failure.empty()) verdict_.failure = std::move(what);
    return verdict_;
  }

  void take(const CodeFrame& frame) {
    if (frame.letter == 'E' && frame.fields.size() == 1) {
      is_over_ = true;
      fail("compile error: " + first_line(frame.fields[0]));
      return;
    }
    if (frame.letter != 'R' || frame.fields.size() != 5)
      return answer_.kill("crash: the answer wrote over its harness");
    const auto& f = frame.fields;
    Ending ending{f[0] == "timeout", std::atoi(f[1].c_str()), f[2], f[3], f[4]};
    if (is_compiling()) return take_compilation(ending);
    if (is_session()) keep_output(ending);
    std::string failure = judged(ending);
    if (failure.empty())
      ++verdict_.passed;
    else
      fail(std::move(failure));
    ++done_;
    is_over_ = options_.stops_at_failure && !verdict_.failure.empty();
  }

  void keep_output(const Ending& ending) {
    verdict_.is_timeout = ending.is_timeout;
    verdict_.output = ending.out.substr(0, options_.max_output_bytes);
    if (!verdict_.output.empty() && !ending.err.empty() && verdict_.output.back() != '\n')
      verdict_.output += '\n';
    verdict_.output += ending.err;
  }

  void take_compilation(const Ending& ending) {
    is_compiled_ = true;
    if (!ending.is_timeout && ending.status == 0 && ending.note.empty()) return;
    is_over_ = true;
    if (ending.is_timeout)
      fail("compile error: timeout after " + shown_seconds(options_.compile_timeout_s));
    else if (!ending.note.empty())
      verdict_.error = fmt::format("code_sandbox: {}: {}", options_.compiler[0], ending.note);
    else
      fail("compile error: " + error_line(ending.out, ending.err));
  }

  /// Returns the compiler's first error; the end of its words may be all that is there.
  static std::string error_line(std::string_view out, std::string_view err) {
    std::string_view text = err.empty() ? out : err;
    size_t at = text.find("error: ");
    return first_line(at == std::string_view::npos ? text : text.substr(at + 7));
  }

  std::string judged(const Ending& ending) const {
    const std::string where = is_session() ? "" : fmt::format(" in case {}", done_ + 1);
    if (ending.is_timeout)
      return fmt::format("timeout{} after {}", where, shown_seconds(options_.case_timeout_s));
    bool is_size = WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == SIGXFSZ;
    if (is_size || ending.out.size() > options_.max_output_bytes ||
        ending.note.starts_with("OSError: [Errno 27]"))
      return fmt::format("output limit{}: more than {} bytes", where, options_.max_output_bytes);
    if (ending.note.starts_with("MemoryError") ||
        ending.err.find("std::bad_alloc") != std::string_view::npos)
      return fmt::format("memory limit{}: {}", where, shown_memory(ending));
    if (ending.note.starts_with("exit code")) return fmt::format("crash{}: {}", where, ending.note);
    if (!ending.note.empty()) return fmt::format("exception{}: {}", where, first_line(ending.note));
    if (ending.status != 0)
      return fmt::format("crash{}: {}", where, describe_status(ending.status));
    if (is_session()) return "";
    const std::string& expected = task_.cases[done_].expected;
    if (outputs_agree(expected, ending.out)) return "";
    return fmt::format("wrong answer{}: {}", where, difference(expected, ending.out));
  }

  std::string shown_memory(const Ending& ending) const {
    return ending.note.empty() ? "std::bad_alloc" : first_line(ending.note);
  }

  const CodeTask& task_;
  const CodeRunOptions& options_;
  Answer answer_;
  CodeVerdict verdict_;
  size_t done_ = 0;
  bool is_compiled_ = false, is_over_ = false;
};

// ---- tests: the judge calls the answer ------------------------------------------------------

constexpr const char* k_kind_names[] = {"input", "call", "test",
                                        "check", "text", "session"};  // by CaseKind

/// The judge runs the tests and keeps the verdicts; what it asks of the answer and what the answer
/// says goes through here, unread.
class JudgedRun {
 public:
  JudgedRun(const CodeTask& task, CodePool& pool, const CodeRunOptions& options)
      : task_(task), pool_(pool), options_(options), answer_(pool, options) {}
  JudgedRun(const JudgedRun&) = delete;
  JudgedRun& operator=(const JudgedRun&) = delete;
  ~JudgedRun() {
    if (judge_ != nullptr) pool_.end(std::move(judge_));
  }

  CodeVerdict run() {
    end_ = Clock::now() + seconds(options_.timeout_s);
    has_answer_ = task_.kind != CaseKind::text;
    if (has_answer_) {
      if (Expected<void> x = answer_.start({'V', {task_.code, task_.prefix}}); !x)
        return {0, "", x.error().to_string()};
      std::string names = import_answer();
      if (!is_ready_) return verdict_;
      if (Expected<void> x = open_judge(names); !x) return {0, "", x.error().to_string()};
    } else if (Expected<void> x = open_judge("{}"); !x) {
      return {0, "", x.error().to_string()};
    }
    converse();
    if (is_done_) pool_.give_back_judge(std::move(judge_));
    return verdict_;
  }

 private:
  /// Returns the answer's definitions. Not ready: the verdict has the reason.
  std::string import_answer() {
    auto limit = std::min(end_, Clock::now() + seconds(options_.case_timeout_s));
    for (;;) {
      if (std::optional<CodeFrame> frame = answer_.link().pop()) {
        is_ready_ = frame->letter == 'N' && frame->fields.size() == 1;
        if (is_ready_) return frame->fields[0];
        std::string what = frame->fields.empty() ? "" : first_line(frame->fields[0]);
        fail(what.starts_with("MemoryError") ? "memory limit: " + what
             : frame->letter == 'C'          ? "compile error: " + what
                                             : "exception: " + what);
        return "";
      }
      if (!answer_.is_lost() && Clock::now() >= limit)
        answer_.kill("timeout: after " + shown_seconds(options_.case_timeout_s));
      if (answer_.is_lost()) {
        fail(in_case(answer_.fault(), 0));
        return "";
      }
      answer_.wait(limit, nullptr);
    }
  }

  Expected<void> open_judge(const std::string& names) {
    COHORT_ASSIGN(judge_, pool_.take_judge());
    CodeFrame frame{
        'J',
        {k_kind_names[static_cast<size_t>(task_.kind)], names, task_.entry, task_.prefix,
         task_.kind == CaseKind::text ? task_.code : "", options_.stops_at_failure ? "1" : ""}};
    for (const CodeCase& x : task_.cases) {
      frame.fields.push_back(x.input);
      frame.fields.push_back(x.expected);
    }
    judge_->push(frame);
    judge_->transfer();
    return {};
  }

  void converse() {
    case_end_ = end_;
    while (!is_done_ && verdict_.error.empty()) {
      pass_on();
      if (is_done_) return;
      check_times();
      if (!verdict_.error.empty() || is_given_up_) return;
      auto limit = std::min(case_end_, end_);
      if (has_answer_ && !answer_.is_lost())
        answer_.wait(limit, judge_.get());
      else
        wait_for(judge_.get(), nullptr, k_look_ms);
      if (!judge_->is_open() || judge_->is_broken()) {
        pass_on();
        if (!is_done_)
          verdict_.error =
              pool_.is_stopped() ? "code_sandbox: stopped" : "code_sandbox: the judge has died";
      }
    }
  }

  void pass_on() {
    while (std::optional<CodeFrame> frame = judge_->pop()) take_judged(std::move(*frame));
    if (!has_answer_) return;
    while (std::optional<CodeFrame> frame = answer_.link().pop()) {
      if (frame->fields.size() != 1 || frame->fields[0].size() > options_.max_output_bytes)
        answer_.kill(fmt::format("output limit: more than {} bytes", options_.max_output_bytes));
      else if (frame->letter == 'V' || frame->letter == 'B')
        judge_->push(*frame);
    }
    if (answer_.is_lost() && !is_told_) {
      is_told_ = true;
      judge_->push({'D', {}});
    }
    judge_->transfer();
  }

  void take_judged(CodeFrame frame) {
    switch (frame.letter) {
      case 'Q':
      case 'A':
        if (has_answer_ && !answer_.is_lost()) {
          answer_.link().push(frame);
          answer_.link().transfer();
        }
        return;
      case 'I':
        case_end_ = Clock::now() + seconds(options_.case_timeout_s);
        return;
      case 'K':
        take_case(frame);
        return;
      case 'Z':
        is_done_ = true;
        return;
      default:
        verdict_.error =
            "code_sandbox: " + (frame.fields.empty() ? "?" : first_line(frame.fields[0]));
    }
  }

  /// fields: "1" or "", what was wrong ("": the answer's process is gone).
  void take_case(const CodeFrame& frame) {
    case_end_ = end_;
    if (frame.fields.size() == 2 && frame.fields[0] == "1") {
      ++verdict_.passed;
    } else if (frame.fields.size() == 2) {
      const std::string& what = frame.fields[1];
      fail(in_case(what.empty() ? answer_.fault() : what, done_));
    }
    ++done_;
  }

  void check_times() {
    auto now = Clock::now();
    if (now < std::min(case_end_, end_)) return;
    // A test that loops without the answer is the row's fault, but it must end too.
    if (now >= std::min(case_end_, end_) + seconds(k_grace_s)) {
      is_given_up_ = true;
      fail(in_case(has_answer_ ? answer_.fault() : "timeout: of the test itself", done_));
      return;
    }
    if (has_answer_)
      answer_.kill(now >= end_ ? "timeout: " + shown_seconds(options_.timeout_s) + " for all cases"
                               : "timeout: after " + shown_seconds(options_.case_timeout_s));
  }

  void fail(std::string what) {
    if (verdict_.failure.empty()) verdict_.failure = std::move(what);
  }

  const CodeTask& task_;
  CodePool& pool_;
  const CodeRunOptions& options_;
  Answer answer_;
  std::unique_ptr<CodeLink> judge_;
  CodeVerdict verdict_;
  Clock::time_point end_, case_end_;
  size_t done_ = 0;
  bool has_answer_ = true, is_ready_ = false, is_told_ = false, is_done_ = false,
       is_given_up_ = false;
};

}  // namespace

CodeVerdict run_code(const CodeTask& task, CodePool& pool, const CodeRunOptions& options) {
  const bool is_program = task.kind == CaseKind::input || task.kind == CaseKind::session;
  CodeVerdict verdict =
      is_program ? ProgramRun(task, pool, options).run() : JudgedRun(task, pool, options).run();
  if (pool.is_stopped()) verdict.error = "code_sandbox: stopped";
  return verdict;
}

}  // namespace cohort::plugin
