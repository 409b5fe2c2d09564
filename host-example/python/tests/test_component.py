"""Misbehaving policies, invalid components, and parts."""

import base64
import json
import os
import threading
import time
import unittest

from lro_filter import ComponentError, LROOffloader, PolicyError, Rejected, load
from lro_filter import component as component_module
from lro_filter.component import Part
from lro_filter.parts import parse
from lro_filter.settings import Settings
from lro_filter.ulid import generate
from support import COMPONENTS, HOSTILE, POLICY, Case, rows

DATA = {"results": rows(3000)}


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.need(HOSTILE)
        self.outside = self.root / "outside.txt"
        self.outside.write_text("not to be touched")

    def failed(self, custom, failure="closed", **settings):
        """The error of a policy with this behaviour; it must leave no files."""
        settings = {"limits": {"wall_time_ms": 1000}, "fsync": False} | settings
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
            self.assertIn("within 1000 ms", self.failed(custom), custom)
            self.assertTrue(0.9 < time.monotonic() - start < 5, custom)

    def test_memory_stack_and_traps_end_the_call(self):
        for custom in ("memory", "inspect-memory", "trap", "inspect-trap"):
            self.assertIn("trap", self.failed(custom), custom)
        for custom in ("stack", "inspect-stack"):
            self.assertIn("stack", self.failed(custom), custom)

    def test_nothing_outside_of_the_directory_is_reached(self):
        for custom in ("write-outside", "lie-name", "rude-name", "lie-manifest"):
            self.assertIn("could not be filtered", self.failed(custom), custom)

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

    # What was written counts when the policy has ended.
    def test_too_much_is_not_published(self):
        limits = {"wall_time_ms": 5000, "written_bytes": 1 << 20}
        for custom in ("many-bytes:3", "sparse-files:9"):
            self.assertIn("limits.written_bytes", self.failed(custom, limits=limits), custom)

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
        good = LROOffloader(output_dir=self.root / "good", component=POLICY, fsync=False)
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
        for name in ("wasi:cli/environment@0.2.0", "wasi:sockets/tcp@0.2.0", "other:own/thing@1.0.0"):
            text = f'(component (import "{name}" (instance (export "f" (func)))))'
            with self.assertRaisesRegex(ComponentError, f"imports `{name}`"):
                component_module.Policy(text, "")
        clock = '(component (import "wasi:clocks/wall-clock@0.2.12" (instance (export "now" (func (result u64))))))'
        with self.assertRaisesRegex(ComponentError, "wall-clock"):
            component_module.Policy(clock, "")
        with self.assertRaisesRegex(ComponentError, "it is not a policy"):
            component_module.Policy("(component)", "")
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


class Parts(Case):
    def parts(self, content, structured=None, meta=None):
        result = parse(content, structured, meta)
        return [(part.kind, part.data, part.media_type, part.name) for part in result.parts], result

    # The same parts as the host makes.
    def test_blocks_become_parts(self):
        data = base64.b64encode(b"\0\1\2").decode()
        content = [
            {"type": "text", "text": "ö"},
            {"type": "image", "data": data, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/csv", "text": "1,2"}},
            {"type": "resource", "resource": {"uri": "a:c", "blob": data}},
            {"type": "resource_link", "uri": "a:d", "name": "d"},
            {"type": "image", "data": "no base64", "mimeType": "image/png"},
            {"type": "text", "text": "x", "annotations": {"audience": ["y" * 2000]}},
        ]
        parts, _ = self.parts(content, {"a": 1}, {"m": 2})
        kinds = [part[0] for part in parts]
        self.assertEqual(kinds, ["text", "binary", "text", "binary", "block", "block", "block", "structured", "meta"])
        self.assertEqual(parts[0], ("text", "ö".encode(), None, None))
        self.assertEqual(parts[1], ("binary", b"\0\1\2", "image/png", None))
        self.assertEqual(parts[2], ("text", b"1,2", "text/csv", "a:b"))
        self.assertEqual(parts[3], ("binary", b"\0\1\2", None, "a:c"))
        self.assertEqual([json.loads(part[1]) for part in parts[4:7]], content[4:])
        self.assertEqual([part[1] for part in parts[7:]], [b'{"a":1}', b'{"m":2}'])

    # A copy is no part of its own, whatever its white space and escapes.
    def test_a_text_that_repeats_the_structured_content_is_no_part(self):
        structured = {"b": [1, 2.5, None, "ö \u2028/"], "a": {"x": "a b"}}
        copies = [json.dumps(structured), json.dumps(structured, indent=2), json.dumps(structured, ensure_ascii=False)]
        for text in copies:
            self.assertEqual(
                [part[0] for part in self.parts([{"type": "text", "text": text}], structured)[0]], ["structured"]
            )
        others = ['{"a":{"x":"a b"},"b":[1,2.5,null,"ö \u2028/"]}', copies[0].replace("2.5", "2.50"), copies[0] + "x"]
        others += [copies[0].replace("a b", "ab"), copies[0].replace("1", "true"), copies[0].replace("1", '"1"'), ""]
        for text in others:
            kinds = [part[0] for part in self.parts([{"type": "text", "text": text}], structured)[0]]
            self.assertEqual(kinds, ["text", "structured"], text)
        wrapped = [
            ({"result": [1, 2]}, "[1, 2]", "structured"),
            ({"result": "words"}, "words", "text"),
            ({"x": "w"}, "w", "text"),
        ]
        for structured, text, kind in wrapped:
            self.assertEqual([part[0] for part in self.parts([{"type": "text", "text": text}], structured)[0]], [kind])

    # Kept parts stay as they are and in order.
    def test_a_reply_keeps_what_the_plan_keeps(self):
        content = [{"type": "text", "text": text} for text in "abc"]
        _, result = self.parts(content, {"s": 1}, {"m": 2})
        reply = result.offloaded('{"offloaded":true}', {"parts": ["text", "keep", "text", "keep", "keep"]})
        block = {"type": "text", "text": '{"offloaded":true}'}
        self.assertEqual(reply, ([block, content[1]], {"s": 1}, {"m": 2}))
        reply = result.offloaded('{"offloaded":true}', {"parts": ["keep", "keep", "keep", "text", "text"]})
        self.assertEqual(reply, ([*content, block], {"offloaded": True}, None))

    # Slices end between characters, as the contract says.
    def test_texts_are_read_in_whole_characters(self):
        data = ("aöé漢🎉" * 3).encode()
        whole, offset = b"", 0
        while piece := component_module._read_text([Part("text", data)], 0, offset, 2)["ok"]:
            piece.decode()
            whole, offset = whole + piece, offset + len(piece)
        self.assertEqual(whole, data)
        self.assertEqual(component_module._read_text([Part("text", data)], 0, 2, 9), {"err": {"inside-character": 1}})
        self.assertEqual(component_module._read_text([Part("text", data)], 0, len(data) + 5, 9), {"ok": b""})
        self.assertEqual(component_module._read_text([], 0, 0, 9), {"err": "no-such-part"})
        self.assertEqual(component_module._read_bytes([Part("text", data)], 0, 0, 9), {"err": "wrong-kind"})

    # A binary part of many slices.
    def test_bytes_arrive_whole(self):
        data = os.urandom(3 << 20)
        settings = Settings(mode="always").record()
        call = {
            "id": generate(), "time": "2026-11-20T09:30:00Z", "tenant": "t", "tool": "x", "is-error": False,
            "shown-path": "/x", "reader": {"abilities": ["shell"]}, "settings": settings,
        }  # fmt: skip
        policy, part = load(POLICY), Part("binary", data, "application/pdf")
        plan = policy.inspect(call, [part])["offload"]
        written = policy.write(call, [part], plan, self.root)
        self.assertEqual((self.root / written["files"][0]["name"]).read_bytes(), data)
        with self.assertRaises(PolicyError) as raised:
            policy.write(call, [part], {"parts": []}, self.root)
        self.assertEqual(raised.exception.kind, "refused")


if __name__ == "__main__":
    unittest.main()
