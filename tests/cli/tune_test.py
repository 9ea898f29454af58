"""Profiles: how communicators use what tutti tune has measured."""

import json
import os
import stat
import tempfile
import unittest

from support import TUTTI, main, start, tutti


def profile(times, situation="2 ranks, shm"):
    rows = [{"situation": situation, "collective": "all_reduce", "algorithm": name, "times": measured}
            for name, measured in times.items()]
    return json.dumps({"format": "tutti-profile", "version": 1, "links": {"processes": {"alpha": 3e-7, "beta": 1e-10}},
                       "gamma": 1e-11, "measured": rows})


def times_in(path):
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        return sum('"seconds"' in line for line in file)


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

    def test_that_of_another_machine_is_refused_with_the_difference(self):
        page = json.loads(profile({"ring": [[8, 1e-6], [64, 1e-6]]}))
        other = {"model": "Some CPU", "packages": 2, "cores": 64, "numa": 4, "key": "0123456789abcdef"}
        path = self.write("other.json", json.dumps({**page, "machines": [other]}))
        differs = (r"other\.json was measured on a machine with 2 packages of 32 cores each in 4 NUMA nodes \(Some CPU\); this "
                   r"one has \d+ packages? .*: ")
        for command in (("explain", "all_reduce"), ("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8")):
            done = tutti(*command, env={"TUTTI_PROFILE": path})
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stderr, differs + "`tutti tune` measures here, TUTTI_PROFILE=off uses none")
        os.chmod(path, 0o600)
        done = tutti("tune", "-e", "8", "-o", path)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stderr, differs + "name another file by TUTTI_PROFILE or -o, or remove it")
        with open(path) as file:
            self.assertEqual(json.load(file)["machines"], [other])

    def test_one_that_names_no_machine_is_used_with_a_warning(self):
        path = self.write("old.json", profile({"ring": [[8, 1e-6], [64, 1e-6]]}))
        done = tutti("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "3", env={"TUTTI_PROFILE": path})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"shm ring")
        self.assertEqual(done.stderr.count("does not say on which machine it was measured"), 1, done.stderr)

    def test_it_names_its_machine_and_is_of_no_other_where_a_process_may_use_a_part_of_it(self):
        path = os.path.join(self.folder.name, "mine.json")
        done = tutti("tune", "-e", "8", "-o", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path) as file:
            page = json.load(file)
        self.assertEqual(len(page["machines"]), 1)
        self.assertNotIn("gpus", page)
        first = min(os.sched_getaffinity(0))
        done = tutti("run", "-n", "1", "--", "taskset", "-c", str(first), TUTTI, "explain", "all_reduce", "-n", "2", "--json",
                     "--bytes", "8", env={"TUTTI_PROFILE": path})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("was measured on", done.stderr)

    def test_a_topology_of_another_machine_is_refused_by_jobs(self):
        some = {"HWLOC_SYNTHETIC": "package:2 core:64 pu:2", "XDG_CACHE_HOME": self.folder.name}
        done = tutti("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", env=some)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stderr, r"the machine that HWLOC_SYNTHETIC describes has 256 processors, and this machine \d+: unset "
                                      r"it for jobs")
        self.assertEqual(tutti("topo", env=some).returncode, 0, "commands may show it")

    def test_a_kept_topology_of_another_machine_is_not_used(self):
        env = {"XDG_CACHE_HOME": self.folder.name, "TUTTI_TOPO_DUMP_FILE": os.path.join(self.folder.name, "job.json")}
        perf = ("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "1")
        self.assertEqual(tutti(*perf, env=env).returncode, 0)
        folder = os.path.join(self.folder.name, "tutti")
        kept = os.path.join(folder, next(name for name in os.listdir(folder) if name.startswith("topology-")))
        with open(kept) as file:
            mine = json.load(file)
        other = {**mine, "nodes": [{"kind": "host", "name": "other", "processors": "1000-1001"}], "links": []}
        with open(kept, "w") as file:
            json.dump(other, file)
        done = tutti(*perf, env={**env, "TUTTI_LOG": "debug"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"the kept topology .* is of another machine: it has processors 1000-1001, and this process "
                                      r"may run on .* too")
        with open(env["TUTTI_TOPO_DUMP_FILE"]) as file:
            self.assertNotIn("other", file.read())
        with open(kept) as file:
            self.assertEqual(json.load(file)["nodes"], mine["nodes"], "it is written anew")

    def test_what_changes_times_is_refused(self):
        path = os.path.join(self.folder.name, "p.json")
        for name, value in (("TRANSPORT", "tcp"), ("GROUPS", "1"), ("REPRODUCIBLE", "1"), ("THREADS", "2"), ("CMA", "off"),
                            ("MESSAGE", "4K"), ("ARENA", "1M")):
            done = tutti("tune", "-e", "8", "-o", path, env={f"TUTTI_{name}": value})
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(f"TUTTI_{name}={value} would be measured", done.stderr)
        done = tutti("tune", "-e", "8", "-o", path, "-x", "TUTTI_ALGO=all_reduce:ring")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("-x TUTTI_ALGO=all_reduce:ring: each measurement sets it", done.stderr)
        self.assertFalse(os.path.exists(path))

    def test_links_of_a_busy_machine_are_told(self):
        path = os.path.join(self.folder.name, "p.json")
        done = tutti("tune", "--links", "-o", path, env={"TUTTI_FAULT": "delay=60us"})
        self.assertEqual(done.returncode, 0, done.stderr)
        for kind in "processes", "threads":
            self.assertRegex(done.stdout, rf"\n  {kind}: an empty message took [\d.e+]+ us: others may have had the processors")
        self.assertTrue(os.path.exists(path))

    def test_the_standard_output_is_no_place_for_a_profile(self):
        done = tutti("tune", "--links", "-o", "-", cwd=self.folder.name)
        self.assertEqual((done.returncode, done.stdout, os.listdir(self.folder.name)), (2, "", []))
        self.assertIn("-o -: a profile is a file", done.stderr)

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

    def test_plans_made_for_the_machine_are_kept_chosen_and_forced(self):
        env = {"XDG_CACHE_HOME": self.folder.name}
        done = tutti("tune", "--links", "--synth", "-n", "2", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^tutti tune: \d+ plans for 2 ranks, in .*/synth-[0-9a-f]{16}\.json$")
        self.assertRegex(done.stdout, r"(?m)^  all_gather, bound: \{rank 0 \| rank 1\}: .* GB/s cross, 1 block must -> ")
        env["TUTTI_PROFILE"] = "off"
        page = json.loads(tutti("explain", "all_reduce", "--bytes", "64", "-n", "2", "--json", env=env).stdout)
        made = [row["algorithm"] for row in page["candidates"] if row.get("synthesised")]
        self.assertTrue(any(name.startswith("synth@") for name in made), page)
        perf = ("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "64", "-n", "3")
        done = tutti(*perf, env={**env, "TUTTI_ALGO": "all_reduce:synth"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ .* 0 shm synth@")
        # Ranks with cache folders of their own: rank 0 alone needs the file, and the others' are not looked at.
        for with_file, ends in ((0, True), (1, False)):
            script = (f'test $TUTTI_RANK = {with_file} || export XDG_CACHE_HOME={self.folder.name}/none; '
                      'exec "$0" perf all_reduce -b 8 -e 64 -n 3')
            done = tutti("run", "-n", "2", "--", "sh", "-c", script, TUTTI, env={**env, "TUTTI_ALGO": "all_reduce:synth"})
            self.assertEqual(done.returncode == 0, ends, done.stderr)
            self.assertIn("shm synth@" if ends else "no plan is kept for these 2 ranks", done.stdout + done.stderr)
        name = next(name for name in made if name.startswith("synth@"))
        for plan_us, ring_us, row in ((1, 2, "synth@"), (2, 1, "ring")):  # by cost
            times = {name: [[8, plan_us * 1e-6], [64, plan_us * 1e-6]], "ring": [[8, ring_us * 1e-6], [64, ring_us * 1e-6]]}
            done = tutti(*perf, env={**env, "TUTTI_PROFILE": self.write("p.json", profile(times))})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"(?m)^ .* 0 shm {row}")
        folder = os.path.join(self.folder.name, "tutti")
        kept = os.path.join(folder, next(name for name in os.listdir(folder) if name.startswith("synth-")))
        self.assertEqual(stat.S_IMODE(os.stat(kept).st_mode), 0o600)
        with open(kept) as file:
            text = file.read()
        for damaged, why in ((text[:len(text) // 2], "it is damaged"), (text.replace('"synth', '"ring'), "no synthesised one"),
                             (text.replace('"ranks":2', '"ranks":3'), "it is for 3 ranks, where there are 2")):
            self.assertNotEqual(damaged, text)
            with open(kept, "w") as file:
                file.write(damaged)
            done = tutti(*perf, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, rf"the synthesised plans in .* are not used: .*{why}.*; `tutti tune --synth` makes them "
                                          r"again")
            self.assertEqual(done.stderr.count("are not used"), 1, "rank 0 alone says so")
            self.assertNotIn("synth@", done.stdout)
        off = tutti(*perf, env={**env, "TUTTI_SYNTH": "off"})
        self.assertNotIn("are not used", off.stderr)
        other = tutti("run", "-n", "2", "--", "sh", "-c", 'TUTTI_SYNTH=$(test $TUTTI_RANK = 0 && echo off || echo kept) '
                      f'exec "{TUTTI}" perf barrier -n 1', env=env)
        self.assertNotEqual(other.returncode, 0)
        self.assertRegex(other.stderr, r'TUTTI_SYNTH is "(off|kept)" on rank . but "(off|kept)" on rank .; it must be the same')

    def test_one_of_links_alone_leaves_the_rest_to_the_calibration(self):
        page = json.loads(profile({}))
        page["links"] = {"threads": {"alpha": 3e-7, "beta": 1e-10}}
        env = {"TUTTI_PROFILE": self.write("links.json", json.dumps(page)), "XDG_CACHE_HOME": self.folder.name}
        self.assertNotIn("the profile of", tutti("info", env=env).stdout)
        self.assertIn("the profile of", tutti("info", env=env | {"TUTTI_PROFILE": self.write(
            "times.json", profile({"ring": [[8, 1e-6]]}))}).stdout)
        done = tutti("perf", "all_reduce", "-t", "2", "-e", "8", "-n", "1", env=env | {"TUTTI_EXPLAIN": "1"})
        self.assertRegex(done.stderr, r"inside a host: 0\.3 us and 10 GB/s .*measured by `tutti tune`")
        done = tutti("perf", "all_reduce", "--np", "2", "-e", "8", "-n", "1", env=env | {"TUTTI_EXPLAIN": "1"})
        self.assertNotIn("measured by `tutti tune`", done.stderr, "of processes it has nothing")

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
            if times_in(part) > 1:
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
