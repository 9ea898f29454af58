"""Profiles: how communicators use what tutti tune has measured."""

import json
import os
import stat
import tempfile
import unittest

from support import main, start, tutti


def profile(times, situation="2 ranks, shm"):
    rows = [{"situation": situation, "collective": "all_reduce", "algorithm": name, "times": measured}
            for name, measured in times.items()]
    return json.dumps({"format": "tutti-profile", "version": 1, "links": {"processes": {"alpha": 3e-7, "beta": 1e-10}},
                       "gamma": 1e-11, "measured": rows})


def lines_of(path):
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        return sum(1 for _ in file)


class Profile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_measured_times_are_preferred(self):
        path = self.write("p.json", profile({"ring": [[8, 1e-6], [64, 1e-6]], "one_shot": [[8, 2e-6], [64, 2e-6]]}))
        done = tutti("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "3", env={"TUTTI_PROFILE": path})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"shm ring")
        page = json.loads(tutti("explain", "all_reduce", "--bytes", "16", "-n", "2", "--json",
                                env={"TUTTI_PROFILE": path}).stdout)
        self.assertEqual(page["candidates"][0]["algorithm"], "ring")
        self.assertAlmostEqual(page["candidates"][0]["measured"], 1e-6)

    def test_ranks_with_different_profiles_are_refused_by_name(self):
        paths = [self.write(f"{i}.json", profile({"ring": [[8, 1e-6 * (i + 1)]]})) for i in range(2)]
        script = f"export TUTTI_PROFILE={self.folder.name}/$TUTTI_RANK.json; exec $0 perf all_reduce -e 8 -n 1"
        from support import TUTTI
        done = tutti("run", "-n", "2", "--", "/bin/sh", "-c", script, TUTTI)
        self.assertNotEqual(done.returncode, 0, paths)
        self.assertRegex(done.stderr, r"the profile \(TUTTI_PROFILE.* on rank [01] but .* on rank [01]; it must be the same")

    def test_a_broken_profile_is_named(self):
        for text in ("{", "[]", '{"format": "x", "version": 1}', profile({"ring": [[8, -1]]}), "[" * 100000):
            done = tutti("explain", "all_reduce", env={"TUTTI_PROFILE": self.write("bad.json", text)})
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("bad.json", done.stderr)
        done = tutti("explain", "all_reduce", env={"TUTTI_PROFILE": "/no/such/profile"})
        self.assertIn("TUTTI_PROFILE: there is no file /no/such/profile", done.stderr)

    def test_what_changes_times_is_refused(self):
        path = os.path.join(self.folder.name, "p.json")
        for name, value in (("TRANSPORT", "tcp"), ("GROUPS", "1"), ("REPRODUCIBLE", "1"), ("THREADS", "2")):
            done = tutti("tune", "-e", "8", "-o", path, env={f"TUTTI_{name}": value})
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(f"TUTTI_{name}={value} would be measured", done.stderr)
        done = tutti("tune", "-e", "8", "-o", path, "-x", "TUTTI_ALGO=all_reduce:ring")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("-x TUTTI_ALGO=all_reduce:ring: each measurement sets it", done.stderr)
        self.assertFalse(os.path.exists(path))

    def test_hosts_that_cannot_be_tuned_are_refused(self):
        path = os.path.join(self.folder.name, "p.json")
        for hosts, reason in (("localhost", "one rank has nobody to talk to"), ("a:x", "the number of slots must be"),
                              ("localhost,b", "use -n in place of --hosts")):
            done = tutti("tune", "-e", "8", "-o", path, "--hosts", hosts, "--launcher", "env SERVES={host}",
                         env={"TUTTI_ROOT_ADDR": "127.0.0.1"})
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn(reason, done.stderr)
        self.assertFalse(os.path.exists(path))

    def test_without_a_name_the_profile_is_in_the_cache_folder_and_is_used(self):
        env = {"XDG_CACHE_HOME": self.folder.name}
        done = tutti("tune", "-e", "8", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [name for name in os.listdir(os.path.join(self.folder.name, "tutti")) if len(name) == 16 + len(".json")]
        self.assertEqual(len(names), 1, names)
        page = json.loads(tutti("explain", "all_reduce", "--bytes", "8", "-n", "2", "--json", env=env).stdout)
        self.assertIn("measured", page["candidates"][0])

    def test_a_place_that_takes_no_profile_is_refused_at_once(self):
        done = tutti("tune", "-e", "8", "-o", self.folder.name)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(f"{self.folder.name} is not a regular file", done.stderr)
        self.assertFalse(os.path.exists(self.folder.name + ".2-ranks.part"))

    def test_an_interrupted_run_goes_on_and_the_profile_is_private(self):
        path = os.path.join(self.folder.name, "deep", "p.json")
        part = path + ".2-ranks.part"
        env = {"TUTTI_PROFILE": path}
        child = start("tune", env={**os.environ, **env})
        while child.poll() is None:  # some measurements
            if lines_of(part) > 5:
                break
        second = tutti("tune", env=env)  # while the first one measures
        self.assertEqual(second.returncode, 1, second.stdout)
        self.assertIn(f"another one writes its profile to {os.path.dirname(path)}/", second.stderr)
        self.assertIsNone(child.poll(), "ended before it could be interrupted")
        child.terminate()
        child.communicate()
        self.assertFalse(os.path.exists(path))
        with open(part) as file:
            lines = [json.loads(line) for line in file.read().splitlines()[1:]]
        self.assertEqual({line["link"] for line in lines if "link" in line}, {"processes", "threads"})
        self.assertEqual(stat.S_IMODE(os.stat(part).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        child = start("tune", env={**os.environ, **env})
        done = sum("seconds" in line for line in lines)
        self.assertRegex(child.stdout.readline(), rf"goes on after {done} measurements?")
        child.terminate()
        child.communicate()


if __name__ == "__main__":
    main()
