// Credentials of a cluster: what is made can be loaded, and whatever is wrong with a folder is
// named.
#include "runtime/control/credentials.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/control/pem.hpp"
#include "tests/support/child_process.hpp"
#include "tools/actor-node/keys_command.hpp"

namespace cohort::control {
namespace {

namespace fs = std::filesystem;

unsigned mode_of(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777U;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

class CredentialsTest : public testing::Test {
 protected:
  fs::path make(const char* name = "keys", const NewCredentials& options = {}) {
    fs::path folder = folder_.path() / name;
    auto made = make_credentials(folder, options);
    EXPECT_TRUE(made) << made.error().to_string();
    return folder;
  }
  void expect_refused(const fs::path& folder, Errc code, const std::string& file,
                      const std::string& why) {
    auto loaded = load_credentials(folder);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, code) << loaded.error().to_string();
    EXPECT_NE(loaded.error().detail.find(file), std::string::npos) << loaded.error().detail;
    EXPECT_NE(loaded.error().detail.find(why), std::string::npos) << loaded.error().detail;
  }
  cohort::test::TempFolder folder_;
};

TEST_F(CredentialsTest, WhatIsMadeCanBeLoadedAndNobodyElseCanReadIt) {
  const fs::path folder = make();
  EXPECT_EQ(mode_of(folder), 0700U);
  for (const char* name :
       {"ca.pem", "node.pem", "node.key", "curve.public", "curve.secret", "dashboard.token"})
    EXPECT_EQ(mode_of(folder / name), 0600U) << name;
  auto loaded = load_credentials(folder);
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_EQ(loaded->curve_public.size(), 40U);
  EXPECT_EQ(loaded->curve_secret.size(), 40U);
  EXPECT_NEAR(static_cast<double>(loaded->expires_at - std::time(nullptr)), 730.0 * 86400, 60);
  EXPECT_EQ(loaded->certificate_file, folder / "node.pem");
  // KEYS-1: six files, and none of them is the authority's key.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 6);
}

TEST_F(CredentialsTest, TheDashboardsTokenIsASecretOfItsOwn) {
  const fs::path folder = make();
  auto keys = load_credentials(folder);
  ASSERT_TRUE(keys);
  auto token = load_dashboard_token(*keys);
  ASSERT_TRUE(token) << token.error().to_string();
  EXPECT_EQ(token->size(), 64U);
  auto expect_refused_token = [&](Errc code, const std::string& why) {
    auto loaded = load_dashboard_token(*keys);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, code);
    EXPECT_NE(loaded.error().detail.find("dashboard.token"), std::string::npos);
    EXPECT_NE(loaded.error().detail.find(why), std::string::npos) << loaded.error().detail;
  };
  for (const char* wrong : {"", "short\n", "0123456789012345678901234567890123456789 x\n"}) {
    write(folder / "dashboard.token", wrong);
    expect_refused_token(Errc::invalid_argument, "holds no token");
  }
  fs::permissions(folder / "dashboard.token", fs::perms(0644));
  expect_refused_token(Errc::invalid_argument, "others can read it");
  fs::remove(folder / "dashboard.token");
  expect_refused_token(Errc::not_found, "No such file");
  EXPECT_TRUE(load_credentials(folder)) << "older keys have none, and hold";
}

TEST_F(CredentialsTest, TwoClustersShareNothing) {
  auto one = load_credentials(make("one"));
  auto two = load_credentials(make("two"));
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->curve_secret, two->curve_secret);
  auto a = describe_credentials(*one);
  auto b = describe_credentials(*two);
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->authority_sha256, b->authority_sha256);
  EXPECT_NE(a->certificate_sha256, b->certificate_sha256);
  EXPECT_EQ(a->authority_sha256.size(), 64U);
}

TEST_F(CredentialsTest, NothingIsWrittenOverAndAnEmptyFolderIsTaken) {
  const fs::path folder = make();
  const std::string before = read(folder / "node.key");
  auto again = make_credentials(folder);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::invalid_argument);
  EXPECT_EQ(read(folder / "node.key"), before);
  fs::create_directory(folder_.path() / "empty");
  EXPECT_TRUE(make_credentials(folder_.path() / "empty/"));
  EXPECT_EQ(mode_of(folder_.path() / "empty"), 0700U);
  // Nothing half-made is left beside them.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(CredentialsTest, AMissingFolderSaysHowToMakeOne) {
  expect_refused(folder_.path() / "none", Errc::not_found, "none", "actor-node keys new DIR");
}

TEST_F(CredentialsTest, EveryMissingEmptyOrHalfWrittenFileIsNamed) {
  const fs::path folder = make();
  for (const char* name : {"ca.pem", "node.pem", "node.key", "curve.public", "curve.secret"}) {
    const std::string whole = read(folder / name);
    write(folder / name, whole.substr(0, whole.size() / 2));
    expect_refused(folder, Errc::invalid_argument, name, "holds no whole");
    write(folder / name, "");
    expect_refused(folder, Errc::invalid_argument, name, "holds no whole");
    write(folder / name, std::string(1 << 20, 'x'));
    expect_refused(folder, Errc::invalid_argument, name, "is too long");
    fs::remove(folder / name);
    expect_refused(folder, Errc::not_found, name, "copy the folder again");
    write(folder / name, whole);
    ASSERT_EQ(::chmod((folder / name).c_str(), 0600), 0);
  }
  EXPECT_TRUE(load_credentials(folder));
}

TEST_F(CredentialsTest, WhatOthersCanReadOrChangeIsRefused) {
  const fs::path folder = make();
  for (const char* name : {"node.key", "curve.secret"}) {
    ASSERT_EQ(::chmod((folder / name).c_str(), 0640), 0);
    expect_refused(folder, Errc::invalid_argument, name, "others can read it");
    ASSERT_EQ(::chmod((folder / name).c_str(), 0600), 0);
  }
  ASSERT_EQ(::chmod((folder / "ca.pem").c_str(), 0644), 0);
  EXPECT_TRUE(load_credentials(folder)) << "certificates are no secret";
  ASSERT_EQ(::chmod((folder / "ca.pem").c_str(), 0664), 0);
  expect_refused(folder, Errc::invalid_argument, "ca.pem", "others can change it");
  ASSERT_EQ(::chmod((folder / "ca.pem").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0770), 0);
  expect_refused(folder, Errc::invalid_argument, "keys", "can be changed by others");
}

TEST_F(CredentialsTest, PartsOfTwoClustersDoNotFit) {
  const fs::path one = make("one"), two = make("two");
  auto swap_in = [&](const char* name, const char* file, const char* why) {
    const std::string own = read(one / name);
    write(one / name, read(two / name));
    expect_refused(one, Errc::invalid_argument, file, why);
    write(one / name, own);
  };
  swap_in("node.key", "node.key", "is not the key of");
  swap_in("node.pem", "node.key", "is not the key of");
  swap_in("ca.pem", "node.pem", "was not signed by");
  swap_in("curve.public", "curve.secret", "is not the secret of");
  swap_in("curve.secret", "curve.secret", "is not the secret of");
}

TEST_F(CredentialsTest, ExpiredAndNotYetValidAreToldApart) {
  const int64_t now = std::time(nullptr), day = 86400;
  expect_refused(make("old", {.valid_days = 1, .now = now - 3 * day}), Errc::invalid_argument,
                 "node.pem", "has expired");
  expect_refused(make("new", {.valid_days = 9, .now = now + 3 * day}), Errc::invalid_argument,
                 "node.pem", "is not valid yet");
  EXPECT_FALSE(make_credentials(folder_.path() / "never", {.valid_days = 0}));
}

TEST(Z85, AgreesWithItsSpecificationAndRefusesWhatIsOutside) {
  // rfc.zeromq.org/spec/32: 86 4F D2 6F B5 59 F7 5B is "HelloWorld".
  detail::CurveKey key{0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B};
  EXPECT_EQ(detail::z85_text(key).substr(0, 10), "HelloWorld");
  EXPECT_EQ(detail::z85_key(detail::z85_text(key)), key);
  EXPECT_FALSE(detail::z85_key(std::string(40, '#'))) << "85^5 - 1 is more than 32 bits";
  EXPECT_FALSE(detail::z85_key(std::string(39, '0')));
  EXPECT_FALSE(detail::z85_key(std::string(39, '0') + "~"));
}

TEST_F(CredentialsTest, TheCommandShowsNothingSecret) {
  const std::string folder = folder_.path() / "keys";
  auto made = keys_text({.verb = "new", .folder = folder, .valid_days = 10});
  ASSERT_TRUE(made) << made.error().to_string();
  auto shown = keys_text({.verb = "show", .folder = folder});
  ASSERT_TRUE(shown) << shown.error().to_string();
  auto loaded = load_credentials(folder);
  ASSERT_TRUE(loaded);
  for (const std::string& text : {*made, *shown}) {
    EXPECT_NE(text.find(loaded->curve_public), std::string::npos);
    EXPECT_EQ(text.find(loaded->curve_secret), std::string::npos);
    EXPECT_NE(text.find(" days left)"), std::string::npos) << text;
  }
  EXPECT_EQ(keys_command({.verb = "new", .folder = folder}), 1) << "never written over";
}

}  // namespace
}  // namespace cohort::control
