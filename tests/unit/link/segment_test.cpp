#include "link/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::link {
namespace {

Fd memfd(uint64_t bytes, unsigned flags, int seals) {
  Fd fd(::memfd_create("tutti-test", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_TRUE(seals == 0 || ::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

/// Code and text of what `body` throws.
std::pair<Code, std::string> thrown_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {Code::Ok, ""};
}

TEST(Segment, IsZeroedAllocatedMemoryOfWholePagesThatCannotShrink) {
  const Segment segment = Segment::create(10000);
  EXPECT_EQ(segment.bytes(), 12288u);
  for (uint64_t i = 0; i < segment.bytes(); ++i) ASSERT_EQ(segment.base()[i], 0);
  struct stat file {};
  ASSERT_EQ(::fstat(segment.file()->get(), &file), 0);
  EXPECT_EQ(file.st_blocks * 512, 12288) << "pages are missing: touching them might fail";
  EXPECT_NE(::ftruncate(segment.file()->get(), 4096), 0);
  EXPECT_NE(::ftruncate(segment.file()->get(), 1 << 20), 0);
  EXPECT_NE(::fcntl(segment.file()->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Segment, TakesMemoryWhenItIsCommitted) {
  const Segment segment = Segment::create(1 << 20, Pages::Later);
  const auto taken = [&segment] {
    struct stat file {};
    EXPECT_EQ(::fstat(segment.file()->get(), &file), 0);
    return file.st_blocks * 512;
  };
  EXPECT_EQ(taken(), 0);
  segment.commit(8192, 4096);
  EXPECT_EQ(taken(), 4096);
  segment.base()[8192] = 1;
  EXPECT_EQ(taken(), 4096);
  EXPECT_THROW(segment.commit(1 << 20, 4096), Error) << "memory that cannot be had is an error, not a fault later";
}

TEST(Segment, IsTheSameMemoryWhereAPeerMapsIt) {
  const Segment mine = Segment::create(8192);
  Segment theirs = Segment::map(Fd(::dup(mine.file()->get())), {0, mine.bytes()}, "rank 1");
  EXPECT_EQ(theirs.file(), nullptr);
  mine.base()[5000] = 42;
  EXPECT_EQ(theirs.base()[5000], 42);
  const Segment moved = std::move(theirs);
  EXPECT_EQ(moved.base()[5000], 42);
}

uint64_t blocks_of(const Segment& segment) {
  struct stat file {};
  EXPECT_EQ(::fstat(segment.file()->get(), &file), 0);
  return static_cast<uint64_t>(file.st_blocks) * 512;
}

TEST(SegmentFiles, GiveHundredsOfSegmentsOneDescriptor) {
  SegmentFiles files;
  std::vector<Segment> segments;
  for (unsigned char i = 0; i < 100; ++i) {
    segments.push_back(files.cut(10000));
    EXPECT_EQ(segments.back().bytes(), 12288u);
    EXPECT_EQ(segments.back().offset(), i * uint64_t{12288});
    EXPECT_EQ(segments.back().file()->get(), segments.front().file()->get());
    segments.back().commit(4096, 4096);
    segments.back().base()[4096] = i;
  }
  EXPECT_EQ(blocks_of(segments.front()), 100u * 4096);
  const Segment theirs = Segment::map(Fd(::dup(segments[7].file()->get())), {segments[7].offset(), 12288}, "rank 1");
  EXPECT_EQ(theirs.base()[4096], 7);
  for (unsigned char i = 0; i < 100; ++i) EXPECT_EQ(segments[i].base()[4096], i);
  EXPECT_NE(::ftruncate(segments.front().file()->get(), 4096), 0) << "it never shrinks";
}

TEST(SegmentFiles, FreeWhatNobodyReadsAnyMore) {
  SegmentFiles files;
  const Segment kept = files.cut(4096);
  for (const bool unread : {false, true}) {
    Segment gone = files.cut(4096);
    gone.commit(0, 4096);
    gone.base()[0] = 42;
    const Segment late = Segment::map(Fd(::dup(gone.file()->get())), {gone.offset(), 4096}, "rank 1");
    if (unread) gone.when_peers_are_done()();
    auto service = gone.file();
    gone = Segment();
    EXPECT_EQ(late.base()[0], 42) << "who answers for it has it still";
    service.reset();
    EXPECT_EQ(late.base()[0], unread ? 0 : 42) << "a peer may still read it";
  }
  Segment next = files.cut(4096);
  EXPECT_EQ(next.offset(), 3u * 4096) << "no place is used twice";
}

TEST(SegmentFiles, BeginAnotherFileWhereOneMayNotGrow) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  SegmentFiles files;
  const Segment first = files.cut(1 << 20);
  const rlimit low{3 << 19, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const Segment second = files.cut(1 << 20);
  EXPECT_EQ(thrown_by([&] { files.cut(2 << 20); }).first, Code::SystemError);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NE(second.file()->get(), first.file()->get());
  EXPECT_EQ(second.offset(), 0u);
}

long faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// Plain stores, because a sanitizer's instrumentation would cause page faults of its own.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void touch(unsigned char* base, uint64_t pages) {
  for (uint64_t page = 0; page < pages; ++page) const_cast<volatile unsigned char*>(base)[page * 4096] = 1;
}

TEST(Segment, EntersItsPagesBeforeTheyAreTouched) {
#ifdef MADV_POPULATE_READ
  constexpr uint64_t kPages = 256;
  const Segment mine = Segment::create(kPages * 4096);
  const Segment theirs = Segment::map(Fd(::dup(mine.file()->get())), {0, mine.bytes()}, "rank 1");
  if (::madvise(mine.base(), 4096, MADV_POPULATE_READ) != 0) GTEST_SKIP() << "this kernel enters none ahead";
  for (const Segment* segment : {&mine, &theirs}) {
    segment->enter_pages(0, segment->bytes());
    const long before = faults();
    touch(segment->base(), kPages);
    EXPECT_LT(faults() - before, 16);
  }
#else
  GTEST_SKIP() << "built without MADV_POPULATE_READ";
#endif
}

TEST(Segment, SaysWhatToDoWhenThereIsNotEnoughMemory) {
  const auto [code, text] = thrown_by([] { Segment::create(uint64_t{1} << 45); });
  EXPECT_EQ(code, Code::OutOfMemory);
  EXPECT_NE(text.find("32T"), std::string::npos) << text;
  EXPECT_NE(text.find("TUTTI_ARENA"), std::string::npos) << text;
  EXPECT_EQ(thrown_by([] { Segment::create(0); }).first, Code::InvalidArgument);
  EXPECT_EQ(thrown_by([] { Segment::create(~uint64_t{0}); }).first, Code::InvalidArgument);
}

TEST(Segment, RefusesADescriptorThatCouldKillItsReader) {
  char name[] = "/tmp/tutti-segment-XXXXXX";
  Fd file(::mkstemp(name));
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
  struct {
    Fd fd;
    uint64_t bytes;
    const char* defect;
  } cases[] = {
      {Fd(), 8192, "no descriptor"},
      {std::move(file), 8192, "not sealed"},
      {Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), 8192, "not sealed"},
      {memfd(8192, MFD_ALLOW_SEALING, 0), 8192, "not sealed"},
      {memfd(8192, MFD_ALLOW_SEALING, F_SEAL_GROW), 8192, "not sealed"},
      {memfd(8192, MFD_ALLOW_SEALING, F_SEAL_SHRINK), 12288, "smaller"},
      {memfd(8192, MFD_ALLOW_SEALING, F_SEAL_SHRINK), 0, "its size is invalid"},
      {memfd(8192, MFD_ALLOW_SEALING, F_SEAL_SHRINK), 5000, "its size is invalid"},
      {memfd(8192, MFD_ALLOW_SEALING, F_SEAL_SHRINK), ~uint64_t{0} - 4095, "its size is invalid"},
  };
  for (auto& c : cases) {
    const auto [code, text] = thrown_by([&] { Segment::map(std::move(c.fd), {0, c.bytes}, "rank 7"); });
    EXPECT_EQ(code, Code::ProtocolError) << c.defect;
    EXPECT_NE(text.find("rank 7"), std::string::npos) << text;
    EXPECT_NE(text.find(c.defect), std::string::npos) << text;
  }
}

TEST(Segment, RefusesHugePages) {
  Fd fd(::memfd_create("tutti-test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd) GTEST_SKIP() << "this kernel has none";
  ASSERT_EQ(::ftruncate(fd.get(), 2 << 20), 0);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(thrown_by([&] { Segment::map(std::move(fd), {0, 2 << 20}, "rank 7"); }).first, Code::ProtocolError);
}

}  // namespace
}  // namespace tutti::link
