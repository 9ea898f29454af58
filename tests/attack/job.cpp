#include "attack/job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tutti::attack {
namespace {

class Process {
 public:
  Process(const Program& program, const std::vector<std::string>& arguments, int process, const std::string& id,
          bool verbose) {
    std::vector<std::string> words = arguments;
    words.insert(words.begin(), "attack");
    words.insert(words.end(), {"--process", std::to_string(process)});
    if (!id.empty()) words.insert(words.end(), {"--id", id});
    std::vector<std::string> variables = program.environment;
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (char** entry = environ; *entry != nullptr; ++entry) envp.push_back(*entry);
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      if (!verbose) dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
      execve("/proc/self/exe", argv.data(), envp.data());
      _exit(98);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        pipe_(std::exchange(other.pipe_, -1)),
        received_(std::move(other.received_)) {}
  ~Process() {
    if (pid_ > 0) end();
    if (pipe_ >= 0) ::close(pipe_);
  }

  int pipe() const { return pipe_; }
  bool open() const { return pipe_ >= 0; }
  void signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  void end() {
    signal(SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    if (pid_ < 0 || waitpid(std::exchange(pid_, -1), &status, 0) < 0) return -1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// Reads what is there; passes each whole line to `take`.
  template <class Take>
  void read_some(const Take& take) {
    char bytes[1 << 16];
    const ssize_t got = ::read(pipe_, bytes, sizeof bytes);
    if (got <= 0) {
      close(std::exchange(pipe_, -1));
      return;
    }
    received_.append(bytes, static_cast<size_t>(got));
    for (size_t end; (end = received_.find('\n')) != std::string::npos; received_.erase(0, end + 1)) {
      take(received_.substr(0, end));
    }
  }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string received_;
};

class Run {
 public:
  Run(const Program& program, double seconds)
      : program_(program),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {
    outcome_.results.resize(static_cast<size_t>(program.ranks));
  }

  Outcome go(const std::vector<std::string>& arguments, bool verbose) {
    processes_.emplace_back(program_, arguments, 0, "", verbose);
    while (id_.empty() && receive()) {
    }
    for (int p = 1; p < program_.processes() && !id_.empty(); ++p)
      processes_.emplace_back(program_, arguments, p, id_, verbose);
    while (receive()) {
    }
    for (Process& process : processes_) {
      process.signal(SIGCONT);  // a stopped process must end too
      if (outcome_.hung) process.signal(SIGKILL);
      outcome_.exits.push_back(process.wait());
    }
    return std::move(outcome_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// False when there is nothing more to hear, or it took too long.
  bool receive() {
    std::vector<pollfd> polled;
    std::vector<Process*> of;
    for (Process& process : processes_) {
      if (!process.open()) continue;
      polled.push_back({process.pipe(), POLLIN, 0});
      of.push_back(&process);
    }
    if (polled.empty() || only_the_stopped_is_left(polled.size())) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
    if (left <= 0 || poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) {
      outcome_.hung = true;
      return false;
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) of[i]->read_some([this](const std::string& line) { take(line); });
    }
    return true;
  }

  bool only_the_stopped_is_left(size_t open) const {
    return program_.fault == Fault::Stop && open == 1 && !id_.empty() &&
           static_cast<int>(processes_.size()) == program_.processes() &&
           processes_[static_cast<size_t>(program_.process_of[static_cast<size_t>(program_.culprit)])].open();
  }

  void take(const std::string& line) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "id") words >> id_;
    if (kind != "line") return;
    size_t rank = 0;
    LineResult report;
    words >> rank >> report.index >> report.code >> report.seconds;
    words.get();
    std::getline(words, report.text);
    if (rank < outcome_.results.size()) outcome_.results[rank].push_back(report);
  }

  const Program& program_;
  const Clock::time_point end_;
  std::vector<Process> processes_;
  std::string id_;
  Outcome outcome_;
};

}  // namespace

Outcome run(const Program& program, const std::vector<std::string>& arguments, double seconds, bool verbose) {
  return Run(program, seconds).go(arguments, verbose);
}

}  // namespace tutti::attack
