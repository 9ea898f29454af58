// Other processes for tests: this test program, started again in a role, by exec, because after a mere fork threads and
// ThreadSanitizer do not work as in a real process.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/deadline.hpp"
#include "base/fd.hpp"

namespace tutti::test {

/// Lines of text between a test and a child process.
class Line {
 public:
  explicit Line(Fd fd) : fd_(std::move(fd)) {}
  void tell(const std::string& line);
  /// The next line; "(nothing)" when the other end has closed, "(late)" after `seconds`.
  std::string receive(double seconds = 30);

 private:
  Fd fd_;
  std::string received_;
};

class Child {
 public:
  /// Starts this program in `role` with `argument`. `environment`: "NAME=value NAME=value".
  Child(const std::string& role, const std::string& argument, const std::string& environment = "");
  ~Child();  ///< kills it if it still runs
  Child(Child&& other) noexcept;

  pid_t process() const { return process_; }
  Line& line() { return line_; }
  void tell(const std::string& text) { line_.tell(text); }
  std::string receive(double seconds = 30) { return line_.receive(seconds); }
  void signal(int number) const;  ///< SIGSTOP: returns once all its threads have stopped
  /// Waits for its end: its exit status, or −(signal number).
  int wait();

 private:
  Child(pid_t process, Fd line) : process_(process), line_(std::move(line)) {}
  static Child start(const std::string& role, const std::string& argument, const std::string& environment);
  pid_t process_ = -1;
  Line line_;
};

/// Registers what a child does in a role; the returned number is its exit status.
struct Role {
  using Body = int (*)(const std::string& argument, Line& test);
  Role(const char* name, Body body);
};

}  // namespace tutti::test
