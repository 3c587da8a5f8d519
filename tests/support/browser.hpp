#pragma once
/// Headless Chromium, driven over its debugging pipe (Chrome DevTools Protocol: JSON messages, each
/// with a zero behind it; in on descriptor 3, out on 4). Owner: the test. Every wait has an end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/child_process.hpp"

namespace cohort::test {

class Browser {
 public:
  using Json = nlohmann::json;

  /// Returns the program's path; "" if there is none.
  static std::string program() {
    for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser"})
      if (::access(path, X_OK) == 0) return path;
    return "";
  }

  Browser() {
    int in[2], out[2];
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    const std::string profile = "--user-data-dir=" + folder_.path().string();
    pid_ = ::fork();
    if (pid_ == 0) {
      // Above 4 first, so that neither overwrites the other.
      const int from = ::fcntl(in[0], F_DUPFD, 10), to = ::fcntl(out[1], F_DUPFD, 10);
      ::dup2(from, 3);
      ::dup2(to, 4);
      ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
      // Its own sandbox asks for rights that a container lacks; the pages are ours.
      const std::string path = program();
      ::execl(path.c_str(), "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
              "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe",
              profile.c_str(), "about:blank", nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    const Json target = call("Target.createTarget", {{"url", "about:blank"}});
    const Json attached = call("Target.attachToTarget",
                               {{"targetId", target.value("targetId", "")}, {"flatten", true}});
    session_ = attached.value("sessionId", "");
    for (const char* domain : {"Page", "Runtime", "Log"}) call(std::string(domain) + ".enable");
  }
  ~Browser() {
    ::close(to_);
    ::close(from_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Browser(const Browser&) = delete;

  /// Returns the command's result; an empty object, and a failure, if it has none in time.
  Json call(const std::string& method, const Json& parameters = Json::object()) {
    Json message = {{"id", ++id_}, {"method", method}, {"params", parameters}};
    if (!session_.empty()) message["sessionId"] = session_;
    const std::string text = message.dump() + '\0';
    if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      ADD_FAILURE() << method << ": chromium takes no more";
      return Json::object();
    }
    while (auto answer = next()) {
      if (answer->value("id", 0) != id_) {
        note(*answer);
        continue;
      }
      // A page that is being left answers nothing: wait_for() asks its successor.
      const bool is_leaving = answer->dump().find("navigated or closed") != std::string::npos;
      if (answer->contains("error") && !is_leaving)
        ADD_FAILURE() << method << ": " << answer->dump();
      return answer->value("result", Json::object());
    }
    ADD_FAILURE() << method << ": no answer";
    return Json::object();
  }
  /// Returns what the expression gives in the page.
  Json eval(const std::string& expression) {
    const Json result =
        call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}});
    if (result.contains("exceptionDetails"))
      ADD_FAILURE() << expression << ": " << result["exceptionDetails"].dump();
    return result.value("/result/value"_json_pointer, Json());
  }
  bool wait_for(const std::string& expression, int limit_ms = 15000) {
    return wait_until([&] { return eval(expression) == Json(true); }, limit_ms);
  }
  void open(const std::string& url) {
    call("Page.navigate", {{"url", url}});
    EXPECT_TRUE(wait_for("document.readyState === 'complete' && location.href !== 'about:blank'"));
  }
  /// Clicks the first link with these words, and waits for the next page to have been read.
  bool follow(const std::string& words) {
    const std::string link =
        "[...document.querySelectorAll('a')].find(a => a.textContent.trim() "
        "=== " +
        Json(words).dump() + ")";
    if (!wait_for("!!" + link)) return false;
    eval("window.isOld = true; " + link + ".click()");
    return is_read();
  }
  /// Waits for a page after the one that was left.
  bool is_read() {
    return wait_for(
        "!window.isOld && document.readyState === 'complete' && "
        "!document.querySelector('[data-waiting]')");
  }
  void press(const std::string& key) {
    Json event = {{"type", "keyDown"}, {"key", key}};
    if (key.size() == 1) event["text"] = key;
    if (key == "Enter") event.update({{"text", "\r"}, {"windowsVirtualKeyCode", 13}});
    call("Input.dispatchKeyEvent", event);
    call("Input.dispatchKeyEvent", {{"type", "keyUp"}, {"key", key}});
  }
  void show(int width, int height, bool is_dark) {
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
    call("Emulation.setEmulatedMedia",
         {{"features",
           {{{"name", "prefers-color-scheme"}, {"value", is_dark ? "dark" : "light"}}}}});
  }
  /// Writes FOLDER/NAME.png of the whole page if the variable COHORT_SCREENSHOTS names a folder.
  void screenshot(const std::string& name) {
    const char* folder = std::getenv("COHORT_SCREENSHOTS");
    if (folder == nullptr) return;
    const Json shot =
        call("Page.captureScreenshot", {{"format", "png"}, {"captureBeyondViewport", true}});
    const std::string bytes = from_base64(shot.value("data", ""));
    std::ofstream(std::filesystem::path(folder) / (name + ".png"), std::ios::binary) << bytes;
  }
  /// What the page has complained of so far: exceptions, refusals of its policy, failed fetches.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void note(const Json& event) {
    const std::string method = event.value("method", "");
    const bool is_error = method == "Log.entryAdded" &&
                          event.value("/params/entry/level"_json_pointer, "") == "error";
    if (is_error || method == "Runtime.exceptionThrown") complaints_.push_back(event.dump());
  }
  std::optional<Json> next() {
    constexpr int k_limit_ms = 20000;
    size_t end = 0;
    while ((end = buffer_.find('\0')) == std::string::npos) {
      pollfd waits{from_, POLLIN, 0};
      if (::poll(&waits, 1, k_limit_ms) != 1) return std::nullopt;
      std::array<char, 65536> bytes{};
      const ssize_t got = ::read(from_, bytes.data(), bytes.size());
      if (got <= 0) return std::nullopt;
      buffer_.append(bytes.data(), static_cast<size_t>(got));
    }
    Json message = Json::parse(buffer_.substr(0, end), nullptr, false);
    buffer_.erase(0, end + 1);
    return message;
  }
  static std::string from_base64(const std::string& text) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    unsigned bits = 0;
    int count = 0;
    for (char c : text) {
      const size_t digit = digits.find(c);
      if (digit == std::string::npos) break;
      bits = (bits << 6 | static_cast<unsigned>(digit)) & 0xffffffU;
      count += 6;
      if (count < 8) continue;
      count -= 8;
      out += static_cast<char>(bits >> count & 0xffU);
    }
    return out;
  }

  TempFolder folder_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, id_ = 0;
  std::string session_, buffer_;
  std::vector<std::string> complaints_;
};

}  // namespace cohort::test
