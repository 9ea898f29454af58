// Where the calibration lies, and who makes it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>
#include <utility>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "select/calibration.hpp"
#include "topo/cores.hpp"

namespace tutti::select {
namespace {

constexpr size_t kMaxText = 64 << 10;
constexpr int kMaxAttempts = 3;
constexpr double kForgotten = 600;  // seconds after which a machine that was too busy may have become quiet
constexpr double kSettled = 60;     // seconds after which it is measured a second time
constexpr uint64_t kLooks = 2;
constexpr auto kPatience = std::chrono::milliseconds(100);
constexpr auto kLongestOfOne = std::chrono::milliseconds(45), kLongest = std::chrono::milliseconds(60);  // of two
constexpr const char* kFailed = "implausible ";  // and how often
constexpr const char* kNothing = "\n";

/// One file a boot, format and set of cores: containers of one host may have different ones.
std::string path_in(const std::string& folder, const Cores& cores) {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", kMaxText, false);
  if (!boot) return "";
  return fmt::format("{}/calibration-{}-{:08x}", folder, boot->substr(0, boot->find('\n')),
                     static_cast<uint32_t>(Hash().add(kCalibrationFormat).add(tutti::to_text(cores)).value()));
}

/// A measurement, or how many attempts have failed.
struct Known {
  std::optional<Calibration> calibration;
  int attempts = 0;
};

/// Was it written so many seconds ago?
bool is_older(const std::string& path, double seconds) {
  struct stat file {};
  return ::stat(path.c_str(), &file) == 0 && std::difftime(std::time(nullptr), file.st_mtime) > seconds;
}

Known read(const std::string& path) {
  const auto text = read_file(path, kMaxText, true);
  if (!text) return {};
  if (text->rfind(kFailed, 0) == 0) {
    if (is_older(path, kForgotten)) return {};
    return {{}, std::clamp((*text)[std::string_view(kFailed).size()] - '0', 1, kMaxAttempts)};
  }
  auto calibration = parse_calibration(*text);
  if (calibration && !implausible(*calibration).empty()) calibration.reset();
  return {calibration, 0};  // what cannot be read is measured again
}

/// Waits a little while another process measures. None: it still does, or nothing can be written there.
Fd lock(const std::string& path) {
  const std::string name = path + ".lock";
  const auto open_it = [&] { return Fd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)); };
  Fd file = open_it();
  if (file.get() < 0) {
    write_private(name, kNothing);  // makes the folder
    file = open_it();
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > until) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return file;
}

/// A calibration, or why there is none.
struct Loaded {
  std::optional<Calibration> calibration;
  std::string why_not;
};

std::string given_up(const std::string& path) {
  return fmt::format("the machine was too busy, {} times; processes try again in {:g} minutes, or once {} is removed",
                     kMaxAttempts, kForgotten / 60, path);
}

/// Where the first figures cannot be right, as when the machine was interrupted, a second time in what is left of the
/// time.
std::pair<std::optional<Calibration>, std::string> measure_twice(const Cores& cores) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  std::string fault;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto left = end - std::chrono::steady_clock::now();
    auto measured = calibrate(cores, std::min<std::chrono::nanoseconds>(left, kLongestOfOne));
    if (!measured) return {{}, fault.empty() ? "it took too long" : fault};
    fault = implausible(*measured);
    if (fault.empty()) return {measured, ""};
  }
  return {{}, fault};
}

Loaded measure(const std::string& path, const Cores& cores, int attempts) {
  const auto [measured, fault] = measure_twice(cores);
  if (measured) {
    write_private(path, to_text(*measured));
    return {measured, ""};
  }
  write_private(path, kFailed + std::to_string(attempts + 1) + "\n");
  if (attempts + 1 >= kMaxAttempts) return {{}, given_up(path)};
  return {{}, fmt::format("the machine is too busy ({}); the next process tries again", fault)};
}

/// The second look at a machine, where it is due and no other process takes it. Where the machine is too busy for it,
/// or nothing can be written there, the first one has to do.
Calibration settled(const std::string& path, const Cores& cores, const Calibration& known) {
  if (known.looks >= kLooks || !is_older(path, kSettled)) return known;
  try {
    const Fd held = lock(path);
    if (held.get() < 0) return known;
    const Known now = read(path);  // another process may have been faster
    if (now.calibration && now.calibration->looks >= kLooks) return *now.calibration;
    const std::optional<Calibration> again = measure_twice(cores).first;
    Calibration best = again ? best_of(known, *again) : known;
    best.looks = kLooks;
    write_private(path, to_text(best));
    return best;
  } catch (const Error& error) {
    log_debug("no second look at this machine: {}", error.what());
    return known;
  }
}

/// All that this process's control group lets it use: launchers confine ranks to a core each, and what is measured lies
/// between the ranks' cores.
Cores permitted_cores() {
  constexpr int kMaxProcessors = 4096;
  Cores permitted;
  std::thread([&] {
    Cores all(kMaxProcessors);
    std::iota(all.begin(), all.end(), 0);
    run_on(affinity_mask(all));
    permitted = allowed_cores();
  }).join();
  return permitted;
}

Loaded load() {
  if (!env().calibration) return {{}, "TUTTI_CALIBRATION is off"};
  const Cores cores = permitted_cores();
  if (cores.size() < 2) return {{}, "this process may use one core only"};
  const std::string folder = cache_folder();
  if (folder.empty()) return {{}, "there is no cache folder: set HOME or XDG_CACHE_HOME"};
  try {
    const std::string path = path_in(folder, cores);
    if (path.empty()) return {{}, "the kernel does not tell which boot this is"};
    const auto known_from_file = [&]() -> std::optional<Loaded> {
      const Known known = read(path);
      if (known.calibration) return Loaded{settled(path, cores, *known.calibration), ""};
      if (known.attempts >= kMaxAttempts) return Loaded{{}, given_up(path)};
      return {};
    };
    if (const auto known = known_from_file()) return *known;
    const Fd held = lock(path);
    if (held.get() < 0) return {{}, "another process is measuring now"};
    if (const auto known = known_from_file()) return *known;  // another process may have been faster
    return measure(path, cores, read(path).attempts);
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

/// Once a process.
const Loaded& loaded() {
  static const Loaded kLoaded = [] {
    Loaded made = load();
    if (made.calibration) apply(*made.calibration, internal::constants_in_use);
    if (!made.calibration && env().calibration) {
      log_info("there is no quick calibration, so the table's figures are used: {}", made.why_not);
    }
    return made;
  }();
  return kLoaded;
}

}  // namespace

const Calibration* local_calibration() { return loaded().calibration ? &*loaded().calibration : nullptr; }

std::string why_no_calibration() { return loaded().why_not; }

}  // namespace tutti::select
