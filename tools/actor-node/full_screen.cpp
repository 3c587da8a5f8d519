#include "tools/actor-node/full_screen.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace cohort {
namespace {

// Lines are not wrapped: a character that takes two cells would push the rest down.
constexpr std::string_view k_enter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view k_leave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

sigset_t heard_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH})
    sigaddset(&set, signal);
  return set;
}

}  // namespace

Expected<FullScreen> FullScreen::open(int in_fd, int out_fd) {
  const sigset_t set = heard_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  Descriptor signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals.get() < 0)
    return Error{Errc::io, std::string("the terminal: signalfd: ") + std::strerror(errno)};
  return FullScreen(in_fd, out_fd, std::move(signals));
}

FullScreen::FullScreen(int in_fd, int out_fd, Descriptor signals)
    : in_fd_(in_fd), out_fd_(out_fd), signals_(std::move(signals)) {
  termios before{};
  if (::tcgetattr(in_fd_, &before) == 0) before_ = before;
  has_keys_ = before_.has_value();
  enter();
}

FullScreen::FullScreen(FullScreen&& other) noexcept
    : in_fd_(other.in_fd_),
      out_fd_(other.out_fd_),
      signals_(std::move(other.signals_)),
      before_(other.before_),
      has_keys_(other.has_keys_),
      is_drawn_on_(std::exchange(other.is_drawn_on_, false)),
      drawn_(std::move(other.drawn_)) {}

FullScreen::~FullScreen() {
  if (is_drawn_on_) leave();
}

void FullScreen::enter() {
  if (before_) {
    termios raw = *before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C and Ctrl-Z stay signals
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(in_fd_, TCSANOW, &raw);
  }
  observe::write_text(out_fd_, k_enter);
  drawn_.clear();
  is_drawn_on_ = true;
}

void FullScreen::leave() {
  observe::write_text(out_fd_, k_leave);
  if (before_) ::tcsetattr(in_fd_, TCSANOW, &*before_);
  is_drawn_on_ = false;
}

void FullScreen::draw(const std::vector<std::string>& lines) {
  std::string out;
  for (size_t i = 0; i < std::max(lines.size(), drawn_.size()); ++i) {
    const bool is_there = i < drawn_.size();
    const std::string line = i < lines.size() ? lines[i] : "";
    if (is_there && drawn_[i] == line) continue;
    out += "\x1b[" + std::to_string(i + 1) + ";1H\x1b[2K" + line;
  }
  drawn_ = lines;
  observe::write_text(out_fd_, out);
}

FullScreen::Heard FullScreen::wait(std::chrono::milliseconds limit) {
  pollfd sources[] = {{signals_.get(), POLLIN, 0}, {has_keys_ ? in_fd_ : -1, POLLIN, 0}};
  if (::poll(sources, 2, static_cast<int>(limit.count())) <= 0) return Heard::nothing;
  if (sources[0].revents != 0) return hear_signal();
  return hear_key();
}

FullScreen::Heard FullScreen::hear_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return Heard::nothing;
  switch (info.ssi_signo) {
    case SIGTSTP:  // its default is blocked here; SIGSTOP cannot be
      leave();
      ::raise(SIGSTOP);
      [[fallthrough]];
    case SIGCONT:  // the shell has had the terminal meanwhile
      enter();
      return Heard::resize;
    case SIGWINCH:
      drawn_.clear();
      observe::write_text(out_fd_, "\x1b[2J");
      return Heard::resize;
    default:
      return Heard::end;
  }
}

FullScreen::Heard FullScreen::hear_key() {
  char key = 0;
  const ssize_t size = ::read(in_fd_, &key, 1);
  if (size <= 0) {  // nobody types any more
    has_keys_ = size < 0 && (errno == EINTR || errno == EAGAIN);
    return Heard::nothing;
  }
  return key == 'q' || key == 'Q' ? Heard::end : Heard::key;
}

}  // namespace cohort
