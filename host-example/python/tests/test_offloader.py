"""The decorator, the object and the context manager."""

import asyncio
import inspect
import json
import os
import random
import stat
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import lro_filter
from lro_filter import LROContext, LROOffloader, OffloadSection, Rejected, Settings, SettingsError
from lro_filter import estimate_size, lro_offload
from support import LRO, POLICY, REDACT, Case, exact, rebuilt, rows


class Interfaces(Case):
    def offloader(self, **settings):
        return LROOffloader(output_dir=self.root, component=POLICY, **settings)

    def test_an_object_returns_small_values_themselves_and_a_descriptor_for_large_ones(self):
        offloader = self.offloader()
        small, large = {"results": rows(3)}, {"query": "q", "total": 5000, "results": rows(5000)}
        self.assertIs(offloader.offload_if_needed(small), small)
        result = offloader.offload_if_needed(large, sections=["results"], inline_keys=["query"], session_id="req-1")
        self.assertEqual((result["offloaded"], result["query"]), (True, "q"))
        self.assertEqual(result["summary"]["results"]["count"], 5000)
        path = Path(result["files"]["results"])
        self.assertTrue(path.name.startswith("results-req-1"), path.name)
        header, *lines = path.read_text().splitlines()
        self.assertEqual(json.loads(header)["type"], "mcp_lro")
        self.assertEqual([json.loads(line) for line in lines], large["results"])

    # Exactly the threshold passes.
    def test_the_threshold_is_a_count_of_characters_and_equal_passes(self):
        data = {"results": ["ö" * 10] * 400}
        size = estimate_size(data)
        self.assertEqual(size, len(json.dumps(data, ensure_ascii=False, separators=(",", ":"))))
        self.assertIs(self.offloader(threshold=size).offload_if_needed(data), data)
        self.assertTrue(self.offloader(threshold=size - 1).offload_if_needed(data)["offloaded"])

    # The estimate is the policy's own.
    def test_estimates_agree_with_the_policy_in_every_unit(self):
        data = {"text": "aé" * 900 + "λж" * 700 + "漢字🎉" * 500}
        for unit in ("bytes", "characters", "tokens"):
            offloader = self.offloader(threshold=estimate_size(data, unit), unit=unit)
            self.assertEqual(offloader.estimate_size(data), offloader.settings.threshold)
            self.assertIs(offloader.offload_if_needed(data), data)
            less = self.offloader(threshold=estimate_size(data, unit) - 1, unit=unit)
            self.assertTrue(less.offload_if_needed(data)["offloaded"])

    def test_a_decorator_works_on_tools_of_both_kinds(self):
        settings = {"output_dir": self.root, "component": POLICY, "threshold": 1000}

        @lro_offload(sections=[OffloadSection("results", filename_prefix="found")], inline_keys=["query"], **settings)
        def search(query: str, count: int = 1000) -> dict:
            """Finds."""
            return {"query": query, "results": rows(count)}

        @lro_offload(session_id_key="session", **settings)
        async def fetch(session: str) -> list:
            return rows(1000)

        result = search("q")
        self.assertEqual((result["query"], search.__doc__), ("q", "Finds."))
        path = Path(result["files"]["results"])
        self.assertTrue(path.name.startswith("found"))
        header = json.loads(path.read_text().splitlines()[0])
        self.assertEqual((header["operation"], header["query"]), ("search", '{"query":"q"}'))
        self.assertEqual(search("q", count=1), {"query": "q", "results": rows(1)})
        (path,) = asyncio.run(fetch("s-7"))["files"].values()
        self.assertIn("s-7", Path(path).name)
        self.assertIs(inspect.signature(fetch).return_annotation, inspect.Signature.empty)

    def test_a_session_may_come_from_the_result(self):
        tool = lro_offload(session_id_key="id", output_dir=self.root, component=POLICY)(
            lambda: {"id": "abc", "results": rows(5000)}
        )
        self.assertIn("abc", tool()["files"]["results"])

    def test_a_context_manager_has_its_result_after_the_block(self):
        with LROContext(["results"], 1000, output_dir=self.root, component=POLICY) as context:
            context.set_data({"results": rows(100)})
            with self.assertRaises(RuntimeError):
                context.result
        self.assertTrue(context.result["offloaded"])
        with self.assertRaises(ZeroDivisionError), LROContext(output_dir=self.root, component=POLICY):
            1 / 0

    def test_schema_summaries_and_recipes_of_a_section_are_shown(self):
        section = OffloadSection(
            "results",
            schema={"type": "object", "title": "row"},
            summaries=[{"kind": "range", "field": "/score"}],
            recipes=[{"name": "all", "description": "everything", "command": "cat {file}"}],
        )
        result = self.offloader().offload_if_needed({"results": rows(3000)}, [section])
        self.assertEqual(result["schemas"]["results"]["title"], "row")
        self.assertEqual(result["summary"]["results"]["score"], {"min": 0.0, "max": 1499.5})
        command = result["jq_recipes"]["all"]
        self.assertIn('"id":2999', subprocess.run(command, shell=True, capture_output=True, text=True).stdout)
        with self.assertRaises(SettingsError):
            self.offloader().offload_if_needed({}, [OffloadSection("a", recipes=[{"name": "x"}])])

    # A text that is no JSON.
    def test_a_string_counts_as_text(self):
        text = "one line\n" * 10_000
        result = self.offloader().offload_if_needed(text)
        self.assertEqual(Path(result["files"]["text"]).read_text(), text)

    # The variables of the original and those of the host.
    def test_settings_come_from_the_environment_unless_given(self):
        variables = {"MCP_LRO_THRESHOLD": "10", "MCP_LRO_DIR": str(self.root), "MCP_LRO_INLINE_KEYS": "b, c"}
        with mock.patch.dict(os.environ, variables | {"MY_ENABLED": "no"}):
            self.assertEqual(Settings.read().threshold, 10)
            self.assertEqual(Settings.read().inline_keys, ["b", "c"])
            self.assertEqual(Settings.read(preset="25k").unit, "tokens")
            self.assertTrue(LROOffloader(component=POLICY).offload_if_needed({"a": rows(90)})["offloaded"])
            data = {"a": rows(9000)}
            self.assertIs(LROOffloader(env_prefix="MY", component=POLICY).offload_if_needed(data), data)
        self.assertTrue(list(self.root.rglob("*.jsonl")))

    # Bad input.
    def test_wrong_settings_are_errors_that_name_the_setting(self):
        for name, value in [("threshold", 0), ("mode", "big"), ("ttl_seconds", -1), ("fsync", True), ("treshold", 5), ("sections", "a")]:
            with self.assertRaisesRegex(SettingsError, name):
                LROOffloader(component=POLICY, **{name: value})
        with mock.patch.dict(os.environ, {"MCP_LRO_THRESHOLD": "many"}):
            with self.assertRaisesRegex(SettingsError, "MCP_LRO_THRESHOLD"):
                LROOffloader(component=POLICY)

    # A result without JSON.
    def test_what_is_no_json_passes_or_is_refused_as_the_failure_mode_says(self):
        for data in ({"a": float("nan")}, {"a": {1, 2}}, {"a": "\ud800"}, "\ud800"):
            self.assertIs(self.offloader().offload_if_needed(data), data)
            with self.assertRaises(Rejected):
                self.offloader(failure="closed").offload_if_needed(data)

    def test_actions_truncate_and_reject(self):
        data = {"query": "q", "results": rows(5000), "tail": {"more": "x" * 3000}}
        cut = self.offloader(action="truncate", threshold=3000).offload_if_needed(data)
        self.assertEqual((cut["offloaded"], cut["/query"], cut["/results"][0]), (False, "q", rows(1)[0]))
        self.assertEqual(len(cut["/results"]) + cut["omitted"]["/results"], 5000)
        self.assertGreater(len(cut["/results"]), 5)
        self.assertLessEqual(estimate_size(cut), 3000)
        text = self.offloader(action="truncate", threshold=3000).offload_if_needed("words and more words " * 1000)
        self.assertTrue(text.startswith("words and") and text.endswith("larger than the limit]"))
        self.assertTrue(2000 < len(text) <= 3000, len(text))
        with self.assertRaisesRegex(Rejected, "larger than 50000 characters"):
            self.offloader(action="reject").offload_if_needed({"results": rows(5000)})

    # Another policy.
    def test_a_tenant_brings_a_policy_of_its_own(self):
        self.need(REDACT)
        offloader = LROOffloader(output_dir=self.root, component=REDACT, tenant="acme/eu", failure="closed")
        result = offloader.offload_if_needed({"users": [{"name": "a", "password": f"secret-{n}"} for n in range(3000)]})
        path = Path(result["files"]["users"])
        self.assertNotIn("secret-", path.read_text())
        self.assertTrue(path.parent.parent.name.startswith("acme_eu-"))

    # Calls in many threads do not disturb each other.
    def test_threads_share_an_offloader(self):
        offloader, found = self.offloader(threshold=1000, fsync="never"), {}

        def work(number):
            for turn in range(6):
                data = {"results": rows(50 + number), "turn": turn}
                path = Path(offloader.offload_if_needed(data)["files"]["results"])
                found[number, turn] = len(path.read_text().splitlines()) - 1 == 50 + number

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(found), all(found.values())), (48, True))

    def test_the_version_is_told(self):
        self.assertRegex(lro_filter.__version__, r"^\d+\.\d+\.\d+$")


class Lossless(Case):
    # Nothing is lost.
    def test_any_json_comes_back_from_descriptor_and_files(self):
        seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        chance = random.Random(seed)
        offloader = LROOffloader(output_dir=self.root, component=POLICY, mode="always", fsync="never")
        for turn in range(300):
            data = value(chance, 4)
            while not isinstance(data, dict | list) or not data:
                data = value(chance, 4)
            result = offloader.offload_if_needed(data, inline_keys=chance.choice([None, ["a"]]))
            manifest = max(self.root.rglob("manifest.json"), key=lambda path: path.parent.name)
            descriptor = json.dumps(json.loads(manifest.read_text())["record"]["descriptor"], ensure_ascii=False)
            text = json.dumps(data, ensure_ascii=False)
            shown = f"SEED={seed}, turn {turn}: {text[:2000]}"
            self.assertTrue(result["offloaded"], shown)
            self.assertEqual(rebuilt(manifest.parent, descriptor), exact(text), shown)


def value(chance, depth):
    kind = chance.randrange(10 if depth else 6)
    if kind < 6:
        number = chance.choice([0, -1, 2**53 + 1, 10**30, 0.5, 1e-7, 1e300, -0.0])
        word = "".join(chance.choices('ab"\\/~\n\u2028é漢🎉 ', k=chance.choice([0, 3, 40, 900])))
        return chance.choice([None, True, False, number, word, word])
    if kind < 8:
        shape = chance.randrange(2)
        count = chance.choice([0, 1, 5, 60])
        if shape:
            return [value(chance, depth - 1) for _ in range(min(count, 5))]
        return [{"id": n, "name": f"n{n}", "more": value(chance, 0)} for n in range(count)]
    keys = ["a", "b", "files", "summary", "offloaded", "inline", "x/y", "~", "/c", "ö", "a b"]
    return {key: value(chance, depth - 1) for key in chance.sample(keys, chance.randrange(5))}


class Files(Case):
    def offloader(self, **settings):
        return LROOffloader(output_dir=self.root / "out", component=POLICY, **settings)

    # Private, complete, and only under its own name.
    def test_directories_and_files_are_private(self):
        previous = os.umask(0)
        self.addCleanup(os.umask, previous)
        self.offloader().offload_if_needed({"results": rows(5000)})
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in self.root.rglob("*")}
        self.assertTrue(all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items()), modes)
        names = {path.name for path in self.root.rglob("*") if path.is_file() and path.parent.name != ".owners"}
        self.assertEqual(names, {"results.jsonl", ".results.jsonl.index", "manifest.json"})

    def test_files_are_synchronized_when_the_setting_says(self):
        for setting, expected in [("before", 5), ("after", 5), ("never", 0)]:
            with mock.patch("os.fsync") as fsync:
                offloader = self.offloader(fsync=setting)
                self.assertTrue(offloader.offload_if_needed({"results": rows(5000)})["offloaded"])
                offloader._filter.store.close()
            # Three files, their directory, and that of the tenant.
            self.assertEqual(fsync.call_count, expected, setting)

    def test_expired_offloads_and_those_of_dead_processes_go(self):
        offloader = self.offloader(ttl_seconds=100)
        path = Path(offloader.offload_if_needed({"results": rows(5000)})["files"]["results"]).parent
        tenant = path.parent
        dead = tenant / ".staging-01M7YXTFAWZVTJRQ8KE7Y7EFP4-01M7YXTFAWZVTJRQ8KE7Y7EFP5"
        alive = tenant / f".staging-{next((self.root / 'out' / '.owners').iterdir()).name}-01M7YXTFAWZVTJRQ8KE7Y7EFP6"
        foreign = tenant / "notes"
        for directory in (dead, alive, foreign):
            directory.mkdir()
        self.assertEqual(offloader.sweep(), 1)
        self.assertEqual([each.exists() for each in (path, dead, alive, foreign)], [True, False, True, True])
        self.assertEqual(offloader._filter.store.sweep(path.stat().st_mtime + 200), 1)
        self.assertEqual([each.exists() for each in (path, alive, foreign)], [False, True, True])

    # The host gives offloads of some tools their own time to live.
    def test_a_sweep_goes_by_the_time_to_live_of_an_offload(self):
        offloader = self.offloader(ttl_seconds=100)
        replies = [offloader.offload_if_needed({"results": rows(5000)}) for _ in range(3)]
        paths = [Path(reply["files"]["results"]).parent for reply in replies]
        for path, seconds in zip(paths, ("300\n", "10\n", "soon"), strict=True):
            (path / ".ttl-seconds").write_text(seconds)
        self.assertEqual(offloader._filter.store.sweep(time.time() + 50), 1)
        self.assertEqual([path.exists() for path in paths], [True, False, True])
        self.assertEqual(offloader._filter.store.sweep(time.time() + 200), 1)
        self.assertEqual([path.exists() for path in paths], [True, False, False])

    # Killed while writing.
    def test_a_killed_process_leaves_nothing_that_a_reader_sees(self):
        program = (
            "import sys; sys.path[:0] = sys.argv[3:]\n"
            "from lro_filter import LROOffloader\n"
            "from support import rows\n"
            "offloader, data = LROOffloader(output_dir=sys.argv[1], component=sys.argv[2]), {'results': rows(20000)}\n"
            "print('ready', flush=True)\n"
            "while True: offloader.offload_if_needed(data)\n"
        )
        here = Path(__file__).parent
        for turn in range(8):
            arguments = [self.root / "out", POLICY, here, here.parent]
            child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE)
            child.stdout.readline()
            with self.assertRaises(subprocess.TimeoutExpired):
                child.wait(0.05 + turn * 0.031)
            child.kill()
            child.communicate()
            for path in self.root.glob("out/default/[!.]*"):
                self.assertTrue((path / "manifest.json").exists())
                self.assertEqual(len((path / "results.jsonl").read_text().splitlines()), 20001)
        offloader = self.offloader()
        offloader.sweep()
        self.assertEqual(list((self.root / "out" / "default").glob(".*")), [])

    # No place to write.
    def test_without_a_place_to_write_a_part_goes_on_or_an_error(self):
        data = {"results": rows(5000)}
        (self.root / "out").write_text("a file is in the way")
        result = self.offloader().offload_if_needed(data)
        self.assertEqual(result["offloaded"], False)
        self.assertIn("could not be written", result["warning"])
        self.assertGreater(len(result["/results"]), 100)
        with self.assertRaisesRegex(Rejected, "could not be filtered"):
            self.offloader(failure="closed").offload_if_needed(data)

    def test_a_root_that_others_can_write_to_is_refused(self):
        (self.root / "out").mkdir()
        (self.root / "out").chmod(0o777)
        self.assertIn("others can write", self.offloader().offload_if_needed({"results": rows(5000)})["warning"])

    def test_quotas_hold_and_the_oldest_go_first(self):
        data = {"results": rows(5000)}
        size = len(json.dumps(data))
        offloader = self.offloader(quota_tenant=3 * size)
        paths = [Path(offloader.offload_if_needed(data)["files"]["results"]) for _ in range(5)]
        self.assertEqual([path.exists() for path in paths][0], False)
        self.assertEqual([path.exists() for path in paths][-2:], [True, True])
        self.assertIn("quota_file", self.offloader(quota_file=1000).offload_if_needed(data)["warning"])
        self.assertIn("quota_tenant", self.offloader(quota_tenant=1000).offload_if_needed(data)["warning"])

    # The host reads what this package wrote.
    def test_the_lro_command_reads_and_asks(self):
        self.need(LRO)
        result = self.offloader().offload_if_needed({"results": rows(20_000)})
        handle = Path(result["files"]["results"]).parent.name
        environment = {**os.environ, "MCP_LRO_DIR": str(self.root / "out")}

        def lro(*arguments):
            command = [LRO, *arguments, "--tenant", "default"]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

        self.assertEqual(lro("extract", handle, "--where", "score >= 9999", "--count"), '{"count":2}\n')
        page = [json.loads(line) for line in lro("read", handle, "--from", "15000", "--limit", "2").splitlines()]
        self.assertEqual(page, rows(15_002)[15_000:])
        recipe = next(iter(result["jq_recipes"]))
        shell = subprocess.run(result["jq_recipes"][recipe], shell=True, capture_output=True, text=True).stdout
        answer = lro("extract", handle, "--recipe", recipe)
        self.assertEqual(json.loads(answer.splitlines()[0]), json.loads(shell.splitlines()[0]))


if __name__ == "__main__":
    unittest.main()
