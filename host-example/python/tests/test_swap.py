"""Another policy in the place of one that runs."""

import gc
import json
import logging
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

from lro_filter import ComponentError, LROOffloader, SettingsError
from lro_filter import component as component_module
from lro_filter.component import load

from support import HOSTILE, POLICY, REDACT, Case, rows

DATA = {"items": [{"id": n, "secret": f"word {n}"} for n in range(2_000)]}
SETTINGS = {"custom": json.dumps({"fields": ["secret"]}), "failure": "closed", "fsync": "never"}


def variant(path, number):
    """The same policy with another digest: a custom section of WebAssembly is appended."""
    name, text = b"variant", str(number).encode()
    body = bytes([len(name)]) + name + text
    return path.read_bytes() + bytes([0, len(body)]) + body


def wait_until(what, condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"it took too long until {what}")


class Swap(Case):
    def offloader(self, **options):
        return LROOffloader(output_dir=self.root / "offloads", **SETTINGS, **options)

    def secrets(self, reply):
        """What is in the place of the secrets of an offloaded value."""
        with open(reply["files"]["items"]) as file:
            return {json.loads(line)["secret"].split(" ")[0] for line in list(file)[1:]}

    # No call fails, none is lost, and each is of one policy from its verdict to its files.
    def test_calls_go_on_while_policies_are_swapped(self):
        self.need(REDACT)
        offloader, stop = self.offloader(component=POLICY), threading.Event()
        # What each call found, and how many swaps there had been when it began.
        digests, done = [], []

        def call():
            while not stop.is_set():
                swaps = len(digests)
                done.append((swaps, self.secrets(offloader.offload_if_needed(DATA))))

        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(call) for _ in range(4)]
            try:
                for number in range(6):
                    source = REDACT if number % 2 == 0 else POLICY
                    digests.append(offloader.swap(variant(source, number)))

                    def found(swaps=number + 1):
                        return next((found for begun, found in done if begun == swaps), None)

                    wait_until("a call has used it", lambda: found() or any(one.done() for one in calls))
                    self.assertEqual(found() == {"word"}, source is POLICY, number)
            finally:
                stop.set()
            for ended in calls:
                ended.result()
        self.assertEqual({len(digest) for digest in digests}, {64})
        self.assertEqual({len(found) for _, found in done}, {1}, "a call of two policies")
        self.assertEqual(len(self.manifests()), len(done))

    def test_what_cannot_be_used_changes_nothing(self):
        offloader = self.offloader(component=POLICY)
        wrong = "0" * 64
        for source, options, reason in [
            (b"no component", {}, "not a WebAssembly component"),
            (self.root / "absent.wasm", {}, "absent.wasm"),
            (POLICY, {"sha256": wrong}, f"not {wrong}"),
        ]:
            with self.assertRaisesRegex(ComponentError, reason):
                offloader.swap(source, **options)
            self.assertEqual(self.secrets(offloader.offload_if_needed(DATA)), {"word"})
        digest = load(POLICY).digest
        self.assertEqual(offloader.swap(POLICY, sha256=digest.upper()), digest)
        with self.assertRaisesRegex(ComponentError, "SHA-256"):
            self.offloader(component=POLICY, sha256=wrong)

    def test_a_running_call_ends_with_its_policy(self):
        self.need(HOSTILE)
        offloader = LROOffloader(
            output_dir=self.root, component=HOSTILE, custom="loop", failure="closed", limits={"wall_time_ms": 1500}
        )
        ended = []

        def call():
            try:
                offloader.offload_if_needed(DATA)
            except Exception as error:
                ended.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(0.2)
        offloader.swap(POLICY)
        self.assertTrue(offloader.offload_if_needed(DATA)["offloaded"])
        thread.join()
        self.assertEqual(len(ended), 1)

    def test_policies_that_are_gone_are_not_kept(self):
        offloader = self.offloader(component=POLICY)
        gone = []
        for number in range(5):
            offloader.swap(variant(POLICY, number))
            gone.append(weakref.ref(offloader._filter.policy))
        gc.collect()
        self.assertEqual([policy() is None for policy in gone], [True] * 4 + [False])
        self.assertLessEqual(len(component_module._LOADED), 4)


class Watch(Case):
    def test_a_file_that_changes_is_loaded_and_a_bad_one_is_not(self):
        self.need(REDACT)
        path = self.root / "policy.wasm"
        path.write_bytes(POLICY.read_bytes())
        offloader = LROOffloader(output_dir=self.root / "offloads", component=path, watch=True, **SETTINGS)
        used = lambda: offloader._filter.policy.digest
        self.assertEqual(used(), load(POLICY).digest)
        with self.assertLogs("lro_filter", logging.WARNING) as logged:
            path.write_bytes(b"no component")
            wait_until("the file is refused", lambda: any("cannot be used" in line for line in logged.output))
        self.assertEqual(used(), load(POLICY).digest)
        other = self.root / "other.wasm"
        other.write_bytes(REDACT.read_bytes())
        other.replace(path)
        wait_until("the other policy is used", lambda: used() == load(REDACT).digest)
        path.unlink()
        self.assertTrue(offloader.offload_if_needed({"items": rows(3_000)})["offloaded"])

    def test_what_is_watched_is_a_file_of_any_digest(self):
        for options in [{}, {"component": POLICY.read_bytes()}, {"component": POLICY, "sha256": "0" * 64}]:
            with self.assertRaisesRegex(SettingsError, "watch"):
                LROOffloader(output_dir=self.root, watch=True, **options)

    def test_the_thread_ends_with_the_filter(self):
        before = set(threading.enumerate())
        offloader = LROOffloader(output_dir=self.root, component=POLICY, watch=True)
        [thread] = [new for new in set(threading.enumerate()) - before if new.name == "lro-watch"]
        del offloader
        gc.collect()
        wait_until("the thread has ended", lambda: not thread.is_alive())
