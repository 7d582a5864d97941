//===- TemporaryFileTest.cpp - Files written whole or not at all ----------===//

#include "fusion/Support/TemporaryFile.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fusion;
namespace fs = std::filesystem;

namespace {

struct TemporaryFileTest : testing::Test {
  TemporaryFileTest()
      : folder(fs::path(testing::TempDir()) /
               ("temporary-file-" + std::to_string(getpid()))) {
    fs::create_directory(folder);
  }
  ~TemporaryFileTest() override { fs::remove_all(folder); }
  std::string path() const { return folder / "out"; }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const {
    return std::distance(fs::directory_iterator(folder), {});
  }
  /// A child that has written and waits; it ends by `signal`.
  void endBy(int signal) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
      // Shells start programs in the background with signals ignored.
      ::signal(signal, SIG_DFL);
      alarm(60);
      TemporaryFile file(path());
      bool good = bool(file.writeAt(0, "abc", 3));
      (void)!write(ready[1], good ? "y" : "n", 1);
      pause();
      _exit(0);
    }
    char answer = 'n';
    ASSERT_EQ(read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    close(ready[0]);
    close(ready[1]);
  }

  fs::path folder;
};

/// Replacing takes a second name for a moment; a process that is killed in it
/// leaves none.
TEST_F(TemporaryFileTest, KilledWhileReplacingLeavesNoSecondName) {
  std::ofstream(path()) << "first";
  for (int i = 0; i < 40; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (;;) {
        TemporaryFile file(path());
        if (!file.writeAt(0, "again", 5) || !file.publish())
          _exit(1);
      }
    }
    usleep(5000 + 700 * i);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    for (int wait = 0; wait < 1000 && files() > 1; ++wait)
      usleep(2000); // the last step goes on
    ASSERT_EQ(files(), 1u);
    EXPECT_EQ(text().size(), 5u);
  }
}

TEST_F(TemporaryFileTest, AppearsWhenPublished) {
  TemporaryFile file(path());
  ASSERT_TRUE(file.isOpen());
  EXPECT_TRUE(file.writeAt(0, "hello", 5));
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_TRUE(file.publish());
  EXPECT_EQ(text(), "hello");
  EXPECT_EQ(files(), 1u);
}

TEST_F(TemporaryFileTest, ReplacesWhole) {
  std::ofstream(path()) << "something longer";
  {
    TemporaryFile file(path());
    EXPECT_TRUE(file.writeAt(0, "new", 3));
    EXPECT_EQ(text(), "something longer");
    EXPECT_TRUE(file.publish());
  }
  EXPECT_EQ(text(), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(TemporaryFileTest, LeavesNothing) {
  {
    TemporaryFile file(path());
    EXPECT_TRUE(file.writeAt(0, "hello", 5));
  }
  EXPECT_EQ(files(), 0u);
  EXPECT_FALSE(TemporaryFile(folder / "no" / "out").isOpen());
  fs::create_directory(path());
  TemporaryFile file(path());
  EXPECT_TRUE(file.writeAt(0, "hello", 5));
  EXPECT_FALSE(file.publish());
  EXPECT_EQ(files(), 1u);
}

TEST_F(TemporaryFileTest, LeavesNothingWhenKilled) {
  for (int signal : {SIGKILL, SIGTERM, SIGINT}) {
    endBy(signal);
    EXPECT_EQ(files(), 0u) << strsignal(signal);
  }
}

TEST_F(TemporaryFileTest, SaysThatTheDiskIsFull) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {4, 4};
    setrlimit(RLIMIT_FSIZE, &limit);
    TemporaryFile file(path());
    Status status = file.writeAt(0, "hello", 5);
    _exit(!status && status.message().find("cannot write") == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), 0u);
}

} // namespace
