#include "base/private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"

namespace tutti {
namespace {

constexpr mode_t kOwnerOnly = 0600, kOwnersFolder = 0700;

[[noreturn]] void fail(const std::string& path) {
  throw_error(Code::SystemError, "{}: {}", path, std::strerror(errno));
}

void make_folder(const std::string& path, int deep) {
  if (path.empty() || ::mkdir(path.c_str(), kOwnersFolder) == 0 || errno == EEXIST) return;
  if (errno != ENOENT || deep == 0) fail(path);
  make_folder(path.substr(0, path.rfind('/')), deep - 1);
  if (::mkdir(path.c_str(), kOwnersFolder) != 0 && errno != EEXIST) fail(path);
}

void write_all(int file, const std::string& text, const std::string& path) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(file, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail(path);
    at += static_cast<size_t>(wrote);
  }
}

}  // namespace

std::string cache_folder() {
  const std::string cache = foreign_env("XDG_CACHE_HOME").value_or("");
  if (cache.rfind('/', 0) == 0) return cache + "/tutti";
  const std::string home = foreign_env("HOME").value_or("");
  return home.rfind('/', 0) == 0 ? home + "/.cache/tutti" : "";
}

std::string path_of_process(std::string path) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto put = [&](const char* sign, const std::string& value) {
    for (size_t at = 0; (at = path.find(sign, at)) != std::string::npos; at += value.size()) path.replace(at, 2, value);
  };
  put("%h", host);
  put("%p", std::to_string(getpid()));
  return path;
}

std::optional<std::string> read_file(const std::string& path, size_t most, bool only_ours) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) return {};
  struct stat known {};
  if (file.get() < 0 || ::fstat(file.get(), &known) != 0) fail(path);
  if (!S_ISREG(known.st_mode)) throw_error(Code::InvalidArgument, "{} is no ordinary file", path);
  if (only_ours && (known.st_uid != ::geteuid() || (known.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
    throw_error(Code::InvalidArgument, "{} belongs to another user, or others may write to it", path);
  }
  constexpr size_t kPart = size_t{64} << 10;  // files of /proc/sys refuse to be read by megabytes (ENOMEM)
  std::string text, part(kPart, '\0');
  while (text.size() <= most) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path);
    if (got == 0) return text;
    text.append(part, 0, static_cast<size_t>(got));
  }
  throw_error(Code::InvalidArgument, "{} has more than {} bytes", path, most);
}

void write_private(const std::string& path, const std::string& text) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos) make_folder(path.substr(0, slash), 1);
  const std::string part = fmt::format("{}.{}.part", path, ::getpid());
  try {
    const Fd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
    if (file.get() < 0) fail(part);
    write_all(file.get(), text, part);
    if (::fsync(file.get()) != 0 || ::rename(part.c_str(), path.c_str()) != 0) fail(path);
  } catch (const Error&) {
    ::unlink(part.c_str());
    throw;
  }
}

}  // namespace tutti
