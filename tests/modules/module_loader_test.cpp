// Modules that fit are opened; each that does not is refused with its own reason.
#include "transports/module_loader.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/build_parts.hpp"
#include "base/format.hpp"
#include "base/version.hpp"
#include "support/fake_wireup.hpp"
#include "topo/constants.hpp"
#include "transports/module.hpp"
#include "transports/rank_group.hpp"

namespace tutti::transports {
namespace {

using Folders = std::vector<std::string>;

ModuleSearch in_folders(Folders folders) { return {.folders = std::move(folders)}; }

std::string reason(const std::string& name) {
  const ModuleLoad load = load_module(name, in_folders({TUTTI_TEST_MODULES}));
  EXPECT_EQ(load.module, nullptr) << name << " was accepted";
  return load.why_not;
}

std::string file_of(const std::string& name) { return TUTTI_TEST_MODULES "/libtutti_" + name + ".so"; }

TEST(ModuleLoader, OpensAModule) {
  const ModuleLoad load = load_module("push", in_folders({TUTTI_TEST_MODULES}));
  ASSERT_NE(load.module, nullptr) << load.why_not;
  EXPECT_STREQ(load.module->transport->name, "push");
  EXPECT_NE(load.module->transport->make, nullptr);
}

/// They run below, too: modules_test.py.
TEST(ModuleLoader, OpensModulesOfOtherVersions) {
  for (const char* name : {"push_old", "push_new"}) {
    const ModuleLoad load = load_module(name, in_folders({TUTTI_TEST_MODULES}));
    ASSERT_NE(load.module, nullptr) << load.why_not;
    EXPECT_STRNE(load.module->version, version());
    EXPECT_NE(load.module->revision, kModuleRevision);
    EXPECT_NE(load.module->transport->bytes, sizeof(TransportEntry));
  }
}

TEST(ModuleLoader, SaysWhyAModuleDoesNotFit) {
  const std::string rebuild = std::string(": it is of Tutti ") + version() + ", and this is Tutti " + version() +
                              "; build it again with this library";
  EXPECT_EQ(reason("stub_format"), file_of("stub_format") + ": its links have format " +
                                       std::to_string(link::kLinkFormat + 1) + ", and this library's " +
                                       std::to_string(link::kLinkFormat) + rebuild);
  EXPECT_EQ(reason("stub_abi"), fmt::format("{}: its module interface is number {}, and this library's {}{}",
                                            file_of("stub_abi"), kModuleAbi + 1, kModuleAbi, rebuild));
  EXPECT_EQ(reason("stub_layout"),
            file_of("stub_layout") + ": it was compiled with other headers or another standard library" + rebuild);
  EXPECT_NE(reason("stub_size").find(": it describes itself in "), std::string::npos) << reason("stub_size");
  EXPECT_NE(
      reason("stub_needs").find(": it needs revision 4 of the module interface, and this library has 3: it is of "),
      std::string::npos)
      << reason("stub_needs");
  EXPECT_EQ(reason("stub_short"), file_of("stub_short") + ": its tutti_module returns no module");
  EXPECT_EQ(reason("stub_null"), file_of("stub_null") + ": its tutti_module returns no module");
  EXPECT_EQ(reason("stub_empty"), file_of("stub_empty") + ": it registers neither a transport nor a backend");
  EXPECT_EQ(reason("stub_renamed"), file_of("stub_renamed") + ": what it registers is called somebody");
}

TEST(ModuleLoader, SaysWhyAFileIsNoModule) {
  EXPECT_EQ(reason("stub_symbol"), file_of("stub_symbol") + " is no module of Tutti: it has no symbol tutti_module");
  const std::string unresolved = reason("stub_unresolved");
  EXPECT_NE(unresolved.find("it cannot be loaded: "), std::string::npos) << unresolved;
  EXPECT_NE(unresolved.find("no_library_has_this"), std::string::npos) << unresolved;

  const std::string folder = testing::TempDir() + "module_loader_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libtutti_text.so") << "not a shared object";
  const std::string text = load_module("text", in_folders({folder})).why_not;
  EXPECT_NE(text.find("it cannot be loaded: " + folder + "/libtutti_text.so: "), std::string::npos) << text;
}

TEST(ModuleLoader, SaysWhereItLookedForAnAbsentModule) {
  EXPECT_EQ(load_module("absent", {.folders = {"/a", "/b c"}, .ignored = "; and more"}).why_not,
            "not installed (libtutti_absent.so is in none of /a, /b c; and more)");
}

TEST(ModuleLoader, SaysWhetherThisBuildHasAnAbsentModuleOfOurs) {
  for (const char* const name : {"verbs", "ucx", "cuda"}) {
    const BuildPart* const part = find_build_part(name);
    ASSERT_NE(part, nullptr) << name;
    const std::string where = fmt::format("not installed (libtutti_{}.so is in none of /a); ", name);
    EXPECT_EQ(
        load_module(name, {.folders = {"/a"}}).why_not,
        where +
            (part->in
                 ? "this build has it: build it with tools/build, install it, or name its folder in TUTTI_MODULE_PATH"
                 : fmt::format("this build was made without it: {}; install that, then configure and build again",
                               part->words)));
  }
}

TEST(ModuleLoader, TakesTheFirstFolderThatHasTheFile) {
  const std::string folder = testing::TempDir() + "module_loader_first";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libtutti_push.so") << "not a shared object";
  EXPECT_FALSE(load_module("push", in_folders({"/none", folder, TUTTI_TEST_MODULES})).module);
  EXPECT_TRUE(load_module("push", in_folders({"/none", TUTTI_TEST_MODULES, folder})).module);
}

TEST(ModuleLoader, OpensNothingByAPath) {
  for (const char* name : {"../push", "/push", "a/b", "push.so", "Push", " push"}) {
    const ModuleLoad load = load_module(name, in_folders({TUTTI_TEST_MODULES}));
    EXPECT_EQ(load.module, nullptr);
    EXPECT_EQ(load.why_not.find("the name of a module consists of "), 0u) << load.why_not;
  }
}

TEST(ModuleLoader, PassesOnWhatAModuleSaysOfTheMachine) {
  const double alpha = std::exchange(internal::constants_in_use.tcp_alpha, 42);
  EXPECT_EQ(reason("unfit"), file_of("unfit") + ": no device (TUTTI_MODULES is push, an empty message takes 42 s)")
      << "an exception of the module, and the library's environment and constants";
  internal::constants_in_use.tcp_alpha = alpha;
}

TEST(ModuleLoader, CatchesAnErrorOfAModuleAsItsOwn) {
  const ModuleLoad load = load_module("thrower", in_folders({TUTTI_TEST_MODULES}));
  ASSERT_NE(load.module, nullptr) << load.why_not;
  test::RankGroup group(2, false);
  test::FakeWireup wireup(group.job(), 1, 2);
  try {
    load.module->transport->make({.wireup = &wireup});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::OutOfMemory);
    EXPECT_STREQ(error.what(), "thrower has no room for rank 1");
  }
}

TEST(ModuleSearch, GoesThroughTheVariablesFoldersThenThoseOfTheInstallation) {
  Env variables;
  variables.module_path = "/x/:/y//z:rel::/x:./here";
  variables.modules = "push,,verbs,push";
  const ModuleSearch search = module_search(variables, "/usr/lib64", false);
  EXPECT_EQ(search.folders, (Folders{"/x", "/y/z", "/usr/lib64", "/usr/lib64/tutti"}));
  EXPECT_EQ(search.names, (Folders{"cuda", "ucx", "verbs", "push"}));
  EXPECT_EQ(search.listed, (Folders{"push", "verbs"}));
  EXPECT_NE(search.ignored.find("'rel' in TUTTI_MODULE_PATH is ignored: it is not an absolute path"),
            std::string::npos);
  EXPECT_NE(search.ignored.find("'./here'"), std::string::npos);
}

TEST(ModuleSearch, FindsThePrefixOfAnInstalledProgram) {
  EXPECT_EQ(module_search({}, "/opt/t/bin", false).folders,
            (Folders{"/opt/t/bin", "/opt/t/" TUTTI_INSTALL_LIBDIR "/tutti"}));
  EXPECT_EQ(module_search({}, "", false).folders, Folders{});
}

TEST(ModuleSearch, IgnoresTheEnvironmentOfAPrivilegedProgram) {
  Env variables;
  variables.module_path = TUTTI_TEST_MODULES;
  variables.modules = "push";
  const ModuleSearch search = module_search(variables, "/usr/lib", true);
  EXPECT_EQ(search.folders, (Folders{"/usr/lib", "/usr/lib/tutti"}));
  EXPECT_EQ(search.names, (Folders{"cuda", "ucx", "verbs"}));
  EXPECT_EQ(search.listed, Folders{});
  EXPECT_NE(search.ignored.find("TUTTI_MODULE_PATH are ignored"), std::string::npos);
  EXPECT_EQ(module_search({}, "/usr/lib", true).ignored, "");
}

TEST(ModuleSearch, KnowsTheFolderOfThisProgram) {
  EXPECT_EQ(own_folder(false), std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
  EXPECT_EQ(own_folder(true), "") << "a program may have been linked to where its caller likes";
  EXPECT_EQ(load_module("verbs", {.ignored = "; and more"}).why_not,
            "not looked for: there is no folder to search; and more");
}

}  // namespace
}  // namespace tutti::transports
