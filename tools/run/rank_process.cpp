#include "tools/run/rank_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "tools/run/remote.hpp"
#include "tools/run/spawn.hpp"
#include "tools/run/terminal.hpp"

namespace tutti::tools {

OutputStream::OutputStream(Fd source, Sink& target, const std::string& prefix, bool remote)
    : source_(std::move(source)), target_(&target), want_pid_(remote) {
  if (!prefix.empty()) lines_.emplace(prefix);
  fcntl(source_.get(), F_SETFL, fcntl(source_.get(), F_GETFL) | O_NONBLOCK);
}

bool OutputStream::drain() {
  char block[65536];
  while (source_ && !target_->blocked()) {
    const ssize_t got = read(source_.get(), block, sizeof block);
    if (got > 0) {
      std::string kept;
      if (!pass_on(without_pid_line({block, static_cast<size_t>(got)}, kept))) return false;
    } else if (got == 0 || errno == EIO) {  // a pseudo-terminal's other end is closed
      close();
    } else if (errno != EINTR) {
      break;  // nothing more for now
    }
  }
  return true;
}

std::string_view OutputStream::without_pid_line(std::string_view text, std::string& kept) {
  if (!want_pid_) return text;
  head_ += text;
  kept.clear();
  for (size_t newline = head_.find('\n'); newline != std::string::npos && want_pid_; newline = head_.find('\n')) {
    remote_pid_ = tools::remote_pid(std::string_view(head_).substr(0, newline));
    want_pid_ = !remote_pid_;
    if (want_pid_) kept += head_.substr(0, newline + 1);  // a login shell's messages
    head_.erase(0, newline + 1);
  }
  if (!want_pid_) kept += std::exchange(head_, "");
  return kept;
}

bool OutputStream::pass_on(std::string_view text) {
  return target_->put(lines_ ? lines_->add(text) : std::string(text));
}

void OutputStream::close() {
  source_.reset();
  pass_on(std::exchange(head_, ""));
  if (lines_) target_->put(lines_->finish());
}

RankProcess::RankProcess(const Job& job, int rank, const Inherited& inherited, int stdin_source, Outputs& outputs,
                         HostSignals& signals)
    : rank_(rank),
      host_(job.ranks[static_cast<size_t>(rank)].host),
      signals_(signals),
      starter_(starter_of(job.launcher, host_)) {
  const bool remote = !host_.empty();
  SpawnRequest request;
  request.inherited = inherited;
  request.program = remote ? remote_command(job, host_, std::filesystem::current_path()) : job.program;
  if (!remote) {
    request.environment = rank_environment(job, rank);
    std::copy_if(job.exported.begin(), job.exported.end(), std::back_inserter(request.environment),
                 [](const std::string& variable) { return variable.find('=') != std::string::npos; });
  }
  request.cpus = job.ranks[static_cast<size_t>(rank)].cpus;

  // Only the launcher reads a terminal: the rank is not in the terminal's foreground. The same holds for what ssh
  // reads.
  Pipe in;
  const bool fed = remote || !job.input.empty() || (stdin_source >= 0 && isatty(stdin_source) != 0);
  if (fed) in = make_pipe();
  request.in = fed ? in.read.get() : stdin_source;
  const Ends theirs = job.prefix || remote || outputs.kept() ? open_output(job, outputs) : Ends{};
  request.out = theirs.out.get();
  request.err = theirs.err.get();
  pid_ = spawn(request);
  started_ = std::chrono::steady_clock::now();
  in.read.reset();
  if (fed) feed_.emplace(std::move(in.write), (remote ? remote_preamble(job, rank) : "") + job.input, stdin_source);
}

/// Opens the rank's output channels. Standard error needs no terminal, since it is unbuffered.
RankProcess::Ends RankProcess::open_output(const Job& job, Outputs& outputs) {
  const std::string plain = job.prefix ? rank_prefix(rank_, false) : "";
  const auto prefix = [&](int stream) { return job.prefix ? rank_prefix(rank_, shows_colours(stream)) : ""; };
  prefix_columns_ = plain.size();
  std::optional<PseudoTerminal> terminal;
  if (job.terminals && host_.empty() && !outputs.kept()) {
    if (const auto size = window_size(STDOUT_FILENO, prefix_columns_)) terminal = open_pseudo_terminal(*size);
  }
  terminal_ = terminal.has_value();
  Pipe out, err = make_pipe();
  if (terminal) {
    out = {std::move(terminal->master), std::move(terminal->slave)};
  } else {
    out = make_pipe();
  }
  outputs_.emplace_back(std::move(out.read), outputs.out(), prefix(STDOUT_FILENO), !host_.empty());
  outputs_.emplace_back(std::move(err.read), outputs.err(), prefix(STDERR_FILENO), false);
  return {std::move(out.write), std::move(err.write)};
}

int RankProcess::status() const {
  return WIFSIGNALED(wait_status_) ? 128 + WTERMSIG(wait_status_) : WEXITSTATUS(wait_status_);
}

bool RankProcess::refused() const {
  constexpr auto kAtOnce = std::chrono::seconds(60);  // also a program that first meets the other ranks
  return status() == kRefusedStatus && ended_at_ - started_ < kAtOnce;
}

bool RankProcess::killed_by(int signal) const { return status() == 128 + signal; }

std::string RankProcess::name() const {
  if (host_.empty()) return fmt::format("rank {} (pid {})", rank_, pid_);
  const auto pid = outputs_.front().remote_pid();
  return pid ? fmt::format("rank {} (pid {} on host {})", rank_, *pid, host_)
             : fmt::format("rank {} (on host {})", rank_, host_);
}

std::string RankProcess::what_became() const {
  if (WIFSIGNALED(wait_status_)) {
    const int signal = WTERMSIG(wait_status_);
    return fmt::format("killed by signal {} ({}){}", signal, strsignal(signal),
                       WCOREDUMP(wait_status_) ? ", core dumped" : "");
  }
  const int code = WEXITSTATUS(wait_status_);
  if (host_.empty()) return fmt::format("exited with status {}", code);
  if (code == 255 && !outputs_.front().remote_pid()) {
    return fmt::format("{} could not start it (its words are above); does \"{} true\" work?",
                       starter_.substr(0, starter_.find(' ')), starter_);
  }
  if (code > 128 && code < 128 + NSIG) {
    return fmt::format("killed by signal {} ({}), as its host says", code - 128, strsignal(code - 128));
  }
  return fmt::format("exited with status {}", code);
}

void RankProcess::mark_ended(int wait_status) {
  ended_ = true;
  ended_at_ = std::chrono::steady_clock::now();
  wait_status_ = wait_status;
  feed_.reset();
}

void RankProcess::send(int signal) const {
  if (ended_) return;
  const auto remote = outputs_.empty() ? std::nullopt : outputs_.front().remote_pid();
  const bool reached = !host_.empty() && remote && signals_.send(host_, *remote, signal);
  // A remote watcher ends the rank when ssh is gone.
  if (!reached || signal == SIGKILL) kill(-pid_, signal);
}

std::vector<std::pair<int, const Sink*>> RankProcess::output_fds() const {
  std::vector<std::pair<int, const Sink*>> fds;
  for (const OutputStream& output : outputs_) {
    if (output.open()) fds.emplace_back(output.fd(), &output.target());
  }
  return fds;
}

void RankProcess::wait_for(std::vector<pollfd>& fds) const {
  if (feed_) feed_->wait_for(fds);
}

void RankProcess::feed(const std::vector<pollfd>& fds) {
  if (feed_) feed_->pump(fds);
}

void RankProcess::resize() const {
  if (!terminal_ || !outputs_.front().open()) return;
  const auto size = window_size(STDOUT_FILENO, prefix_columns_);
  if (size && ioctl(outputs_.front().fd(), TIOCSWINSZ, &*size) == 0) send(SIGWINCH);
}

bool RankProcess::drain() {
  return std::all_of(outputs_.begin(), outputs_.end(), [](OutputStream& output) { return output.drain(); });
}

bool RankProcess::output_open() const {
  return std::any_of(outputs_.begin(), outputs_.end(), [](const OutputStream& output) { return output.open(); });
}

void RankProcess::close_output() {
  for (OutputStream& output : outputs_) {
    if (output.open()) output.close();
  }
}

}  // namespace tutti::tools
