"""Misbehaving policies, invalid components, and parts."""

import threading
import time
import unittest
from pathlib import Path

from lro_filter import ComponentError, LROOffloader, Rejected, load
from lro_filter import component as component_module
from wasmtime import wat2wasm

from support import COMPONENTS, HOSTILE, POLICY, Case, rows

DATA = {"results": rows(3000)}


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.need(HOSTILE)
        # Compiled once: what is measured is the call.
        self.loaded = load(HOSTILE)
        self.outside = self.root / "outside.txt"
        self.outside.write_text("not to be touched")

    def failed(self, custom, failure="closed", **settings):
        """The error of a policy with this behaviour; it must leave no files."""
        settings = {"limits": {"wall_time_ms": 1000}, "fsync": "never"} | settings
        offloader = LROOffloader(
            output_dir=self.root / "out", component=HOSTILE, mode="always", custom=custom, failure=failure, **settings
        )
        try:
            return offloader.offload_if_needed(DATA)
        except Rejected as error:
            return str(error)
        finally:
            found = [path for path in (self.root / "out" / "default").glob("*")]
            self.assertEqual(self.outside.read_text(), "not to be touched")
            self.assertEqual(found, [], custom)
            self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["out", "outside.txt"])

    def test_loops_end_at_the_deadline(self):
        for custom in ("inspect-loop", "inspect-read", "inspect-read-bytewise", "loop", "read", "sync", "list"):
            start = time.monotonic()
            self.assertIn("longer than 1000 ms", self.failed(custom), custom)
            self.assertTrue(0.9 < time.monotonic() - start < 5, custom)

    def test_memory_stack_and_traps_end_the_call(self):
        for custom in ("memory", "inspect-memory", "trap", "inspect-trap"):
            self.assertIn("trap", self.failed(custom), custom)
        for custom in ("stack", "inspect-stack"):
            self.assertIn("stack", self.failed(custom), custom)

    def test_nothing_outside_of_the_directory_is_reached(self):
        for custom in ("lie-name", "rude-name", "lie-manifest"):
            self.assertIn("could not be filtered", self.failed(custom), custom)

    # It writes a list of what it tried, and how each attempt ended.
    def test_attempts_to_leave_the_directory_are_refused(self):
        offloader = LROOffloader(
            output_dir=self.root / "out", component=HOSTILE, mode="always", custom="write-outside", failure="closed"
        )
        self.assertTrue(offloader.offload_if_needed(DATA))
        self.assertEqual(self.outside.read_text(), "not to be touched")
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["out", "outside.txt"])
        links = [path for path in self.root.rglob("*") if path.is_symlink() or path.stat().st_nlink != 1 and path.is_file()]
        self.assertEqual(links, [])

    def test_false_accounts_of_files_are_refused(self):
        for custom in (
            "lie-size", "lie-absent", "lie-unlisted", "lie-twice", "lie-not-json", "lie-not-object", "lie-nan",
            "lie-infinity", "lie-deep:300", "lie-deep:5000", "lie-cycle", "lie-ahead", "lie-depth:100000", "lie-schema",
            "lie-count:7",
            "many-files:300", "many-directories:20", "big-descriptor:100000", "inspect-plan:9",
            "rude-error:999", "unknown",
        ):  # fmt: skip
            answer = self.failed(custom)
            self.assertIn("could not be filtered", answer, custom)
            self.assertTrue(answer.isprintable() and len(answer) < 10_000, custom)

    # Counted while it is written.
    def test_too_much_is_not_written(self):
        limits = {"wall_time_ms": 5000, "written_bytes": 1 << 20}
        for custom in ("many-bytes:3", "sparse-files:9"):
            self.assertIn("limit written-bytes", self.failed(custom, limits=limits), custom)
        limits = {"wall_time_ms": 5000, "files": 20}
        self.assertIn("limit files", self.failed("many-files:300", limits=limits))

    # Nothing of a call is there in the next.
    def test_a_call_knows_nothing_of_another(self):
        for _ in range(3):
            self.assertEqual(self.failed("inspect-remember"), '{"calls":1}')
        self.assertIn("could not be filtered", self.failed("inspect-keep-handle"))
        self.assertEqual(self.failed("inspect-directories"), "0")

    def test_each_failure_mode_has_its_answer(self):
        self.assertIs(self.failed("inspect-trap", "open"), DATA)
        for custom, failure in [("trap", "open"), ("trap", "truncate"), ("inspect-trap", "truncate")]:
            answer = self.failed(custom, failure)
            self.assertEqual((answer["offloaded"], answer["/results"][0]), (False, rows(1)[0]))
        for custom in ("trap", "inspect-trap"):
            self.assertIn("could not be filtered", self.failed(custom, "closed"))

    # The next call works, and so do others at the same time.
    def test_one_that_fails_disturbs_no_other(self):
        good = LROOffloader(output_dir=self.root / "good", component=POLICY, fsync="never")
        bad = LROOffloader(
            output_dir=self.root / "out", component=HOSTILE, custom="loop", mode="always", failure="closed",
            limits={"wall_time_ms": 1500},
        )  # fmt: skip
        ended = []

        def fail():
            with self.assertRaises(Rejected):
                bad.offload_if_needed(DATA)
            ended.append(True)

        thread = threading.Thread(target=fail)
        thread.start()
        done = 0
        while thread.is_alive() and done < 5:
            self.assertTrue(good.offload_if_needed(DATA)["offloaded"])
            done += 1
        self.assertGreaterEqual(done, 5)
        thread.join()
        self.assertEqual(ended, [True])


class Messages(Case):
    # A piece ends inside none of them, wherever a character begins.
    def test_a_long_text_of_long_characters_arrives_whole(self):
        offloader = LROOffloader(output_dir=self.root / "out", component=POLICY, fsync="never")
        for shift in range(4):
            text = "x" * shift + "é漢📦" * 400_000
            descriptor = offloader.offload_if_needed(text)
            (path,) = descriptor["files"].values()
            self.assertEqual(Path(path).read_text(), text, shift)


class Loading(Case):
    def test_what_is_no_policy_is_refused_with_the_reason(self):
        for data, reason in [
            (b"", "not a WebAssembly component"),
            (b"\0asm\1\0\0\0", "not a WebAssembly component"),
            (POLICY.read_bytes()[:5000], "not a WebAssembly component"),
        ]:
            with self.assertRaisesRegex(ComponentError, reason):
                load(data)
        with self.assertRaisesRegex(ComponentError, "absent.wasm"):
            load(self.root / "absent.wasm")

    def test_a_component_that_imports_more_is_refused_by_name(self):
        for name in ("wasi:sockets/tcp@0.2.0", "wasi:http/types@0.2.0", "other:own/thing@1.0.0"):
            text = f'(component (import "{name}" (instance (export "f" (func)))))'
            with self.assertRaisesRegex(ComponentError, f"imports `{name}`"):
                load(bytes(wat2wasm(text)))
        with self.assertRaisesRegex(ComponentError, "it is not a policy"):
            load(bytes(wat2wasm("(component)")))
        extract = self.need(COMPONENTS / "lro_extract.wasm")
        with self.assertRaisesRegex(ComponentError, "it is not a policy"):
            load(extract)

    # The way out is told.
    def test_an_absent_default_policy_names_the_command_that_makes_it(self):
        default = component_module.DEFAULT_COMPONENT
        component_module.DEFAULT_COMPONENT = self.root / "lro_policy.wasm"
        self.addCleanup(setattr, component_module, "DEFAULT_COMPONENT", default)
        with self.assertRaisesRegex(ComponentError, "make packages"):
            LROOffloader()

    def test_a_component_is_compiled_once(self):
        self.assertIs(load(POLICY), load(POLICY.read_bytes()))


if __name__ == "__main__":
    unittest.main()
