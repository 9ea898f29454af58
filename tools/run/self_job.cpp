#include "tools/run/self_job.hpp"

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "tools/run/binding.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/meeting.hpp"

namespace tutti::tools {

std::string own_program() {
  char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
    throw_error(Code::SystemError, "this program's own file cannot be found: {}", std::strerror(errno));
  }
  return self;
}

Job job_of_self(const std::string& speaker, const std::vector<std::string>& arguments, std::vector<Placement> ranks,
                int threads) {
  Job job;
  job.speaker = speaker;
  job.program = {own_program()};
  job.program.insert(job.program.end(), arguments.begin(), arguments.end());
  job.program.emplace_back("--launched");
  job.ranks = std::move(ranks);
  bind_ranks(job.ranks, threads > 1 ? Binding::None : Binding::Auto, usable_cores());
  set_meeting_point(job, 0, host_name());
  name_job(job);
  resolve_meeting_point(job);
  job.prefix = false;
  job.tasks = threads > 1 ? static_cast<uint64_t>(threads) + 2 : 2;  // the main thread and the control thread
  job.bytes = job.ranks.size() > 1 ? staging_bytes() : 0;
  job.bytes_for = "staging memory (TUTTI_ARENA)";
  job.feed_stdin = false;
  return job;
}

}  // namespace tutti::tools
