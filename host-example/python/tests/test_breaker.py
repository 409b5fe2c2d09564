"""Policies that fail time after time: real ones, which trap and loop."""

import json
import logging
import time

from lro_filter import LROOffloader, Rejected, SettingsError

from support import HOSTILE, POLICY, Case

DATA = {"results": [{"id": n, "text": "x" * 100} for n in range(2_000)]}
LONG = 600_000


class Breaker(Case):
    def setUp(self):
        super().setUp()
        self.need(HOSTILE)

    def offloader(self, custom, breaker, **settings):
        settings = {"output_dir": self.root / "out", "component": HOSTILE, "failure": "closed", "fsync": "never"} | settings
        return LROOffloader(custom=custom, breaker=breaker, **settings)

    def answer(self, offloader):
        """What the model gets: the value, or the error."""
        try:
            return offloader.offload_if_needed(DATA)
        except Rejected as rejected:
            return str(rejected)

    def test_a_policy_that_fails_repeatedly_is_parked_until_another_takes_its_place(self):
        for custom, reason, limits in [
            ("trap", "the policy failed: ", {}),
            ("inspect-loop", "the policy took longer than 2000 ms", {"wall_time_ms": 2000}),
            ("lie-not-json", "the policy answered with ", {}),
        ]:
            offloader = self.offloader(custom, {"failures": 2, "pause_ms": LONG, "pause_max_ms": LONG}, limits=limits)
            with self.assertLogs("lro_filter", logging.ERROR) as logged:
                for _ in range(2):
                    self.assertIn(reason, self.answer(offloader))
            self.assertEqual(len(logged.output), 1)
            self.assertRegex(logged.output[0], rf"is parked for {LONG} ms after repeated failures")
            text = self.answer(offloader)
            self.assertRegex(text, r"^the result could not be filtered: the policy is parked for \d+ ms more after repeated failures$")
            offloader.swap(POLICY)
            self.assertTrue(self.answer(offloader)["offloaded"])

    # A result that was not offered to the policy passes or is cut, as the mode says.
    def test_each_failure_mode_has_its_answer_while_a_policy_is_parked(self):
        breaker = {"failures": 1, "pause_ms": LONG, "pause_max_ms": LONG}
        for failure in ("open", "truncate"):
            offloader = self.offloader("trap", breaker, failure=failure)
            self.assertIs(self.answer(offloader)["offloaded"], False)
            answer = self.answer(offloader)
            if failure == "open":
                self.assertIs(answer, DATA)
            else:
                self.assertIs(answer["offloaded"], False)
        # Without a store too.
        (self.root / "file").write_text("")
        offloader = self.offloader("inspect-trap", breaker, failure="open", output_dir=self.root / "file" / "out")
        self.answer(offloader)
        self.assertIs(self.answer(offloader), DATA)

    def test_a_parked_policy_is_tried_again(self):
        offloader = self.offloader("trap", {"failures": 2, "pause_ms": 200, "pause_max_ms": 300})

        def tried():
            """What the first call gets that the policy sees."""
            while "is parked" in (answer := self.answer(offloader)):
                time.sleep(0.02)
            return answer

        for _ in range(2):
            self.assertIn("the policy failed: ", self.answer(offloader))
        for _ in range(2):
            self.assertIn("the policy failed: ", tried())
            self.assertIn("is parked", self.answer(offloader), "and no other one")
        object.__setattr__(offloader.settings, "custom", "honest")
        with self.assertLogs("lro_filter", logging.WARNING) as logged:
            self.assertIsInstance(tried(), dict)
        self.assertTrue(any("works again" in line for line in logged.output))
        # The count begins anew.
        object.__setattr__(offloader.settings, "custom", "trap")
        for _ in range(2):
            self.assertIn("the policy failed: ", self.answer(offloader))
        self.assertIn("is parked", self.answer(offloader))

    def test_what_is_not_the_fault_of_the_policy_does_not_park_it(self):
        breaker = {"failures": 2, "pause_ms": LONG, "pause_max_ms": LONG}
        for custom, limits in [("no-such-behaviour", {}), ("many-files:99", {"files": 9}), ("many-bytes:3000000", {"written_bytes": 1 << 20})]:
            offloader = self.offloader(custom, breaker, limits=limits)
            for _ in range(4):
                self.assertNotIn("parked", self.answer(offloader), custom)
        (self.root / "file").write_text("")
        offloader = self.offloader("honest", breaker, output_dir=self.root / "file" / "out")
        for _ in range(4):
            self.assertNotIn("parked", self.answer(offloader))

    def test_settings_of_the_breaker_are_checked(self):
        for breaker in ({"failures": 0}, {"pause_ms": "1"}, {"pause": 1}):
            with self.assertRaisesRegex(SettingsError, "breaker"):
                self.offloader("trap", breaker)
        self.assertEqual(vars(LROOffloader().settings.breaker), {"failures": 5, "pause_ms": 1000, "pause_max_ms": 60_000})
