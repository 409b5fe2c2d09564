"""Signed policies: signatures in the format of minisign, made here with the keys of the tests in Rust (`tests/swap/signing.rs`)."""

import base64
import hashlib
import json
import logging
import subprocess
import sys
import unittest.mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from lro_filter import ComponentError, LROOffloader, SettingsError

from support import LRO, POLICY, REDACT, Case
from test_swap import variant, wait_until

DATA = {"items": [{"id": n, "text": "x" * 40} for n in range(2_000)]}


class Signer:
    """A pair of keys, of a number."""

    def __init__(self, number):
        self.id = bytes([number]) * 8
        self.pair = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
        public = self.pair.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = base64.b64encode(b"Ed" + self.id + public).decode()

    def sign(self, data, comment="made by a test", algorithm=b"ED"):
        """The text of a signature file."""
        signature = self.pair.sign(hashlib.blake2b(data).digest() if algorithm == b"ED" else data)
        first = base64.b64encode(algorithm + self.id + signature).decode()
        last = base64.b64encode(self.pair.sign(signature + comment.encode())).decode()
        return f"untrusted comment: signature\n{first}\ntrusted comment: {comment}\n{last}\n"


SIGNER, OTHER = Signer(1), Signer(2)


class Signatures(Case):
    def put(self, name, data, signature):
        """A policy, and its signature beside it."""
        path = self.root / name
        if signature is not None:
            (self.root / f"{name}.minisig").write_text(signature)
        path.write_bytes(data)
        return path

    def signed(self, name, number, comment="made by a test"):
        data = variant(POLICY, number)
        return self.put(name, data, SIGNER.sign(data, comment))

    def offloader(self, component, **options):
        options = {"policy_keys": [OTHER.public, SIGNER.public], "tenant": "acme", "fsync": "never"} | options
        return LROOffloader(output_dir=self.root / "out", component=component, **options)

    def check(self, path, *options):
        """What the command of the Rust host says about a signed policy."""
        self.need(LRO)
        ran = subprocess.run([LRO, "policy", "check", path, "--policy-keys", SIGNER.public, *options], capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr

    def test_a_signed_policy_is_used_as_in_the_rust_host(self):
        comment = "timestamp:1 file:a.wasm tenant=acme version=1.10 expires=2999-01-01T00:00:00.5-11:30"
        path = self.signed("good.wasm", 1, comment)
        status, text = self.check(path)
        self.assertEqual(status, 0, text)
        offloader = self.offloader(path)
        self.assertTrue(offloader.offload_if_needed(DATA)["offloaded"])
        # The default policy needs none.
        self.assertTrue(self.offloader(None).offload_if_needed(DATA)["offloaded"])

    def test_what_is_not_signed_well_is_refused_and_changes_nothing(self):
        offloader = self.offloader(self.signed("good.wasm", 1))
        used = offloader._filter.policy.digest
        data = variant(POLICY, 2)
        good = SIGNER.sign(data)
        changed = bytearray(data)
        changed[-1] ^= 1
        lines = good.split("\n")
        cases = [
            ("unsigned", data, None, "not signed: it needs a signature beside it"),
            ("changed", bytes(changed), good, "The signature verification failed"),
            ("comment", data, good.replace("made by", "not made by"), "The signature verification failed"),
            ("stranger", data, Signer(3).sign(data), "a different key than the one provided"),
            ("legacy", data, SIGNER.sign(data, algorithm=b"Ed"), "Unexpected signature algorithm"),
            ("other-key", data, good.replace(lines[1], base64.b64encode(
                base64.b64decode(lines[1])[:2] + OTHER.id + base64.b64decode(lines[1])[10:]).decode()), "verification failed"),
            ("short", data, good[:60], "Invalid encoding"),
            ("empty", data, "", "Invalid encoding"),
            ("binary", data, "\0" * 100, "Invalid encoding"),
            ("long", data, "x" * 5000, "more than 4096 bytes"),
        ]  # fmt: skip
        for name, content, signature, reason in cases:
            path = self.put(f"{name}.wasm", content, signature)
            with self.assertRaisesRegex(ComponentError, reason):
                offloader.swap(path)
            if name != "unsigned":
                self.assertNotEqual(self.check(path)[0], 0, name)
        with self.assertRaisesRegex(ComponentError, "not signed"):
            offloader.swap(data)
        with self.assertRaisesRegex(ComponentError, "not signed"):
            self.offloader(REDACT)
        self.assertEqual(offloader._filter.policy.digest, used)

    def test_a_signature_for_another_tenant_or_time_is_refused(self):
        offloader = self.offloader(self.signed("good.wasm", 1))
        for comment, reason in [
            ("tenant=other", "policy is signed for the tenant `other`, not for `acme`"),
            ("expires=2026-01-01T01:00:00+01:00", "expired at 2026-01-01T00:00:00Z; it is now 20"),
            ("expires=soon", "`expires=soon` in its trusted comment, which needs a time as in RFC 3339"),
            ("expires=2026-13-01T00:00:00Z", "RFC 3339"),
            ("version=two", "numbers with dots between them"),
            ("version=1.18446744073709551616", "numbers with dots between them"),
            ("tenant=", "the name of a tenant"),
            ("version=1 version=2", "`version=2` in its trusted comment, which needs it once"),
        ]:
            with self.assertRaisesRegex(ComponentError, reason):
                offloader.swap(self.signed("next.wasm", 2, comment), allow_older=True)
        offloader.swap(self.signed("next.wasm", 2, "color=red tenant=acme file:a=b.wasm"))

    def test_an_older_version_is_refused_unless_it_is_asked_for(self):
        offloader = self.offloader(self.signed("good.wasm", 1, "version=1.10"))
        for comment, found in [("version=1.9.9", "1.9.9"), ("version=1.2.30", "1.2.30"), ("made by hand", "none")]:
            with self.assertRaisesRegex(ComponentError, f"policy has the version {found}, and the tenant's has 1.10: "):
                offloader.swap(self.signed("next.wasm", 2, comment))
        for comment in ("version=1.10.0", "version=1.010", "version=2"):
            offloader.swap(self.signed("next.wasm", 2, comment))
        offloader.swap(self.signed("next.wasm", 2, "version=1"), allow_older=True)

    # A new signature beside the same policy counts as a change, too.
    def test_a_watched_policy_is_verified(self):
        path = self.signed("watched.wasm", 1)
        offloader = self.offloader(path, watch=True)
        used = lambda: offloader._filter.policy.digest
        before, data = used(), variant(POLICY, 2)
        with self.assertLogs("lro_filter", logging.WARNING) as logged:
            path.write_bytes(data)
            wait_until("it is refused", lambda: any("verification failed" in line for line in logged.output))
        self.assertEqual(used(), before)
        self.put("watched.wasm", data, SIGNER.sign(data))
        wait_until("it is used", lambda: used() == hashlib.sha256(data).hexdigest())

    def test_keys_are_checked_and_the_missing_package_is_named(self):
        for keys in (["no key"], [SIGNER.public[:-4]], SIGNER.public, [7]):
            with self.assertRaisesRegex(SettingsError, "policy_keys"):
                self.offloader(None, policy_keys=keys)
        with unittest.mock.patch.dict(sys.modules, {"cryptography.hazmat.primitives.asymmetric": None}):
            with self.assertRaisesRegex(SettingsError, r"pip install 'lro-filter\[signatures\]'"):
                self.offloader(None)
        with unittest.mock.patch.dict("os.environ", {"MCP_LRO_POLICY_KEYS": f"{OTHER.public},{SIGNER.public}"}):
            unsigned = self.put("unsigned.wasm", variant(POLICY, 9), None)
            with self.assertRaisesRegex(ComponentError, "not signed"):
                LROOffloader(output_dir=self.root / "out", component=unsigned)
